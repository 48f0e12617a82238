package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
)

func TestCompare(t *testing.T) {
	truth := map[string]yard.Emitted{"a": {Emits: []int64{1000, 2000, 3000}}, "b": {Emits: []int64{1500, 2500, 3500}}}
	got := map[string][]instant{
		"a": {{1005, false, true}, {3010, true, true}, {3010, false, true}},
		"b": {{1501, false, true}, {2540, false, false}, {3502, false, true}},
	}
	r, err := compare(truth, got, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if r.events != 6 || r.coalesced != 1 || r.fallen != 1 {
		t.Errorf("got %d events, %d coalesced, %d fallen back, want 6, 1, 1", r.events, r.coalesced, r.fallen)
	}
	for _, tt := range []struct {
		q    float64
		want time.Duration
	}{{0, 1}, {0.2, 1}, {0.4, 2}, {0.5, 5}, {0.8, 10}, {0.99, 40}, {1, 40}} {
		if got := r.quantile(tt.q); got != tt.want {
			t.Errorf("quantile %v: got %d, want %d", tt.q, got, tt.want)
		}
	}
	r.bar = 40
	if r.over() {
		t.Error("got over at the bar itself, want met")
	}
	r.bar = 39
	var b bytes.Buffer
	if r.print(&b); !r.over() || !strings.Contains(b.String(), "OVER") {
		t.Errorf("got %q, want it over the bar, and to say so", b.String())
	}
}

// Nothing measured must not look like nothing wrong.
func TestCompareRefusesHoles(t *testing.T) {
	for _, tt := range []struct {
		name  string
		truth map[string]yard.Emitted
		got   map[string][]instant
	}{
		{"no stream", nil, nil},
		{"stream missing", map[string]yard.Emitted{"a": {Emits: []int64{1}}}, nil},
		{"another stream", map[string]yard.Emitted{"a": {Emits: []int64{1}}}, map[string][]instant{"b": {{ns: 1}}}},
		{"token missing", map[string]yard.Emitted{"a": {Emits: []int64{1}}}, map[string][]instant{"a": nil}},
		{"token too many", map[string]yard.Emitted{"a": {Emits: []int64{1}}}, map[string][]instant{"a": {{ns: 1}, {ns: 2}}}},
	} {
		if _, err := compare(tt.truth, tt.got, 1, 1); err == nil {
			t.Errorf("%s: got no error, want one", tt.name)
		}
	}
	all := row{load: load{bar: time.Second}, events: 1, coalesced: 1}
	if !all.over() {
		t.Error("every event coalesced: got met, want over: nothing was measured")
	}
}
