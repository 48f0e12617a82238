package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// tally is what happened, counted; engine, clients and watch share it.
type tally struct {
	mu     sync.Mutex
	faults map[string]int
	first  map[string][]string // of each kind
	kinds  map[string]int      // requests that went as they should
	left   map[uint64]time.Time
	aborts []time.Duration // from a client's leaving to its upstream's end
}

func newTally() *tally {
	return &tally{faults: map[string]int{}, first: map[string][]string{}, kinds: map[string]int{}, left: map[uint64]time.Time{}}
}

// shown is how many faults of a kind are told.
const shown = 3

// fault notes a broken promise.
func (t *tally) fault(kind string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[kind]++
	if len(t.first[kind]) < shown {
		t.first[kind] = append(t.first[kind], err.Error())
	}
}

// count notes a request that went as it should.
func (t *tally) count(kind string) {
	t.mu.Lock()
	t.kinds[kind]++
	t.mu.Unlock()
}

// leaving notes, before it does so, that the stream's client leaves.
func (t *tally) leaving(id uint64) {
	t.mu.Lock()
	t.left[id] = time.Now()
	t.mu.Unlock()
}

// aborted notes that the engine's peer left before the end.
func (t *tally) aborted(s script, at time.Time) {
	t.mu.Lock()
	left, ok := t.left[s.ID]
	if ok {
		t.aborts = append(t.aborts, at.Sub(left))
	}
	t.mu.Unlock()
	switch {
	case ok && at.Sub(left) > lost:
		t.fault("abort", fmt.Errorf("stream %d: its upstream was left %v after its client", s.ID, at.Sub(left)))
	case !ok && s.Fault == "":
		t.fault("abort", fmt.Errorf("stream %d: its upstream was left, its client was there", s.ID))
	}
}

// ranOn notes that a stream ended by itself, which it must not long after its
// client left.
func (t *tally) ranOn(s script, at time.Time) {
	t.mu.Lock()
	left, ok := t.left[s.ID]
	t.mu.Unlock()
	if ok && at.Sub(left) > lost {
		t.fault("abort", fmt.Errorf("stream %d: it ran on for %v after its client left", s.ID, at.Sub(left)))
	}
}

// done is the number of requests that went as they should.
func (t *tally) done() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kinds {
		n += k
	}
	return n
}

// print writes what was counted and returns the number of faults.
func (t *tally) print(w io.Writer) (faults int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, kind := range sorted(t.kinds) {
		fmt.Fprintf(w, "  %-22s %d\n", kind, t.kinds[kind])
	}
	if n := len(t.aborts); n > 0 {
		slices.Sort(t.aborts)
		fmt.Fprintf(w, "upstreams left after their clients: %d, median %v, p99 %v, most %v\n",
			n, t.aborts[(n-1)/2].Round(time.Microsecond), t.aborts[(n-1)*99/100].Round(time.Microsecond), t.aborts[n-1].Round(time.Microsecond))
	}
	for _, kind := range sorted(t.faults) {
		faults += t.faults[kind]
		fmt.Fprintf(w, "FAULT %s: %d\n", kind, t.faults[kind])
		for _, s := range t.first[kind] {
			fmt.Fprintf(w, "  %s\n", s)
		}
	}
	return faults
}

func sorted(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
