package main

import (
	"runtime/debug"
	"testing"
)

func TestPercentFor(t *testing.T) {
	for _, tt := range []struct {
		name string
		live uint64 // MiB
		want int
	}{
		{"nothing has been collected yet", 0, mostPercent},
		{"small: its own size", 1, 100},
		{"by the headroom", 10, 30},
		{"by the headroom, and no less than a tenth", 30, 10},
		{"large: by a tenth", 400, leastPercent},
	} {
		if got := percentFor(tt.live << 20); got != tt.want {
			t.Errorf("%s: %d %% of %d MiB, want %d", tt.name, got, tt.live, tt.want)
		}
	}
}

// TestThrifty: the setting is the run's alone, and the environment's wins.
func TestThrifty(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	now := func() int {
		p := debug.SetGCPercent(50)
		debug.SetGCPercent(p)
		return p
	}
	restore := thrifty()
	if got := now(); got != mostPercent {
		t.Errorf("%d at the start of a run, want %d", got, mostPercent)
	}
	restore()
	if got := now(); got != 77 {
		t.Errorf("%d after the run, want the 77 from before", got)
	}
	t.Setenv("GOGC", "200")
	thrifty()()
	if got := now(); got != 77 {
		t.Errorf("%d although GOGC is set", got)
	}
}
