package main

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func (s script) stream() (b []byte) {
	for i := range s.total() {
		b = s.appendEvent(b, i)
	}
	return b
}

// What is expected is the stream, wherever it is torn, and nothing else.
func TestExpected(t *testing.T) {
	s := script{ID: 7, Events: 5, Text: 30}
	whole := s.stream()
	for cut := range len(whole) + 1 {
		e := expect(s)
		if err := e.take(whole[:cut]); err != nil {
			t.Fatalf("the first %d bytes: %v", cut, err)
		}
		if got, want := e.done(), cut == len(whole); got != want {
			t.Errorf("done after %d of %d bytes: %v", cut, len(whole), got)
		}
		if err := e.take(whole[cut:]); err != nil || !e.done() {
			t.Errorf("the rest after %d bytes: %v, done %v", cut, err, e.done())
		}
		if e.take([]byte("x")) == nil {
			t.Error("a byte past the end is taken")
		}
	}
	for i := range whole {
		changed := slices.Clone(whole)
		changed[i] ^= 1
		if expect(s).take(changed) == nil {
			t.Errorf("a change of byte %d, %q, is taken", i, whole[i])
		}
	}
}

func TestStreamsDiffer(t *testing.T) {
	s := script{ID: 1, Events: 40, Text: 20}
	other := s
	other.ID = 2
	if bytes.Equal(s.appendEvent(nil, 3), other.appendEvent(nil, 3)) {
		t.Error("two streams have the same event")
	}
	seen := map[string]bool{}
	for i := range s.Events {
		seen[string(s.appendEvent(nil, i))] = true
	}
	if len(seen) != s.Events {
		t.Errorf("%d different events of %d", len(seen), s.Events)
	}
	s.Loop = 4
	if a, b := s.appendEvent(nil, 1), s.appendEvent(nil, 9); !bytes.Equal(a, b) {
		t.Errorf("of a loop of 4 events, event 1 is %q and event 9 %q", a, b)
	}
}

func TestRead(t *testing.T) {
	s := script{ID: 3, Events: 9, Every: time.Second, Prompt: 1000, Fault: cut, At: 4}
	body := s.body()
	got, err := read(body)
	if err != nil || got != s {
		t.Errorf("got %+v, %v; want %+v", got, err, s)
	}
	for _, tc := range []struct{ name, old, new string }{
		{"its last byte lost", `"}]}`, `"}]`},
		{"a member more", `"messages"`, `"stream_options":{"include_usage":true},"messages"`},
		{"one letter of the prompt", "content\":\"", "content\":\" "},
	} {
		changed := strings.Replace(string(body), tc.old, tc.new, 1)
		if changed == string(body) {
			t.Fatalf("%s: no %q in the body", tc.name, tc.old)
		}
		if _, err := read([]byte(changed)); err == nil {
			t.Errorf("%s: taken for what was sent", tc.name)
		}
	}
}

// Each kind of request comes up, its fault inside the stream, and a silence that
// is none of the engine's making is shorter than the proxy's limit.
func TestDraw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]int{}
	const draws = 5000
	for i := range uint64(draws) {
		a := draw(rng, i)
		kinds[a.kind]++
		if a.s.Fault != "" && a.s.At >= a.s.Events {
			t.Errorf("%s: %s at event %d of %d", a.kind, a.s.Fault, a.s.At, a.s.Events)
		}
		if wait := time.Duration(a.s.Events) * a.s.Every; a.s.Whole && wait > silenceLimit/2 {
			t.Errorf("%s: an answer after %v", a.kind, wait)
		}
		if wait := a.s.Every; wait > silenceLimit/2 {
			t.Errorf("%s: %v between events", a.kind, wait)
		}
	}
	if len(kinds) != 14 {
		t.Errorf("%d kinds of requests, want 14: %v", len(kinds), kinds)
	}
	for k, n := range kinds {
		if n < draws/200 {
			t.Errorf("%s: %d of %d", k, n, draws)
		}
	}
}
