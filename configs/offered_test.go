package configs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseRates(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []float64
	}{
		{"one", "10/s", []float64{10}},
		{"a minute", "30/m", []float64{.5}},
		{"a list keeps its order, duplicates drop", "20/s, 5/s,20/s", []float64{20, 5}},
		{"a range doubles and holds its end", "1..6/s", []float64{1, 2, 4, 6}},
		{"fractions", "0.5..2/s", []float64{.5, 1, 2}},
		{"none", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseRates(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(got, c.want); d != "" {
				t.Errorf("(got -, want +):\n%s", d)
			}
		})
	}
	for _, bad := range []string{"10", "10/h", "0/s", "-1/s", "NaN/s", "Inf/s", "8..1/s", "x..2/s", "1/s,", "0.000001..1000000000000/s,1..9e300/s"} {
		if got, err := ParseRates(bad); err == nil {
			t.Errorf("%q is read as %v, want an error", bad, got)
		}
	}
}

func TestParseStages(t *testing.T) {
	got, err := ParseStages("1m@10/s, 90s@30/m")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, []Stage{{time.Minute, 10}, {90 * time.Second, .5}}); d != "" {
		t.Errorf("(got -, want +):\n%s", d)
	}
	for _, bad := range []string{"1m", "@10/s", "1m@10", "10ms@5/s", "1m@10/s,,2m@1/s", "1@1/s"} {
		if got, err := ParseStages(bad); err == nil {
			t.Errorf("%q is read as %v, want an error", bad, got)
		}
	}
}

func TestParseSLO(t *testing.T) {
	for in, want := range map[string]SLO{
		"ttft=500ms,tbt=50ms": {500 * time.Millisecond, 50 * time.Millisecond},
		"tbt=8ms":             {TBT: 8 * time.Millisecond},
		"":                    {},
	} {
		if got, err := ParseSLO(in); err != nil || got != want {
			t.Errorf("%q is read as %v (%v), want %v", in, got, err, want)
		}
	}
	for _, bad := range []string{"ttft", "e2e=1s", "ttft=0s", "ttft=-1s", "ttft=1s,ttft=2s", "500ms"} {
		if got, err := ParseSLO(bad); err == nil {
			t.Errorf("%q is read as %v, want an error", bad, got)
		}
	}
}
