package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
)

// row is a line of the table.
type row struct {
	load
	vantage string
	user    bool

	events    int
	coalesced int
	fallen    int     // events of kernel rows with a user stamp
	errors    []int64 // ns, sorted; not coalesced events
}

// compare lays the instants of n streams beside the emitter's log of them.
// Every stream must be in both, with all its tokens.
func compare(truth map[string]yard.Emitted, got map[string][]instant, n, tokens int) (row, error) {
	var r row
	if len(truth) != n || len(got) != n {
		return r, fmt.Errorf("%d streams in the emitter's log and %d in ours, want %d in both", len(truth), len(got), n)
	}
	for id, s := range truth {
		log, emits := got[id], s.Emits
		if len(log) != tokens || len(emits) != tokens {
			return r, fmt.Errorf("stream %s: %d events, %d sent, want %d", id, len(log), len(emits), tokens)
		}
		for i, in := range log {
			r.events++
			if !in.kernel {
				r.fallen++
			}
			if in.coalesced {
				r.coalesced++
				continue
			}
			r.errors = append(r.errors, in.ns-emits[i])
		}
	}
	slices.Sort(r.errors)
	return r, nil
}

// quantile is the smallest error that at least the share q of them do not
// exceed; 0 if there is none.
func (r *row) quantile(q float64) time.Duration {
	n := len(r.errors)
	if n == 0 {
		return 0
	}
	i := int(q * float64(n))
	if float64(i) == q*float64(n) {
		i--
	}
	return time.Duration(r.errors[min(max(i, 0), n-1)])
}

// over: above the bar, or without a single event to judge by.
func (r *row) over() bool {
	return r.bar > 0 && (len(r.errors) == 0 || r.quantile(0.99) > r.bar)
}

func printHeader(w io.Writer) {
	fmt.Fprintf(w, "%-8s %-7s %-9s %7s %6s %8s %9s %9s %9s %9s %9s %10s %9s  %s\n",
		"vantage", "stamps", "pattern", "streams", "itl", "events", "min", "p50", "p90", "p99", "max", "coalesced", "fallback", "bar")
}

func (r *row) print(w io.Writer) {
	stamps, pattern, bar, fallback := "kernel", "steady", "", "-"
	if r.user {
		stamps = "user"
	} else {
		fallback = fmt.Sprintf("%.2f%%", 100*float64(r.fallen)/float64(r.events))
	}
	if r.lockstep {
		pattern = "lockstep"
	}
	if r.bar > 0 {
		bar = fmt.Sprintf("p99 <= %v: met", r.bar)
		if r.over() {
			bar = fmt.Sprintf("p99 <= %v: OVER", r.bar)
		}
	}
	us := func(q float64) float64 { return float64(r.quantile(q)) / 1e3 }
	fmt.Fprintf(w, "%-8s %-7s %-9s %7d %6v %8d %9.1f %9.1f %9.1f %9.1f %9.1f %9.2f%% %9s  %s\n",
		r.vantage, stamps, pattern, r.streams, r.itl, r.events, us(0), us(0.5), us(0.9), us(0.99), us(1),
		100*float64(r.coalesced)/float64(r.events), fallback, bar)
}
