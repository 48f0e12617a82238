package main

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
	"github.com/streamgauge/streamgauge/matrix"
	record "github.com/streamgauge/streamgauge/stream"
)

// ms is an instant in the tests' window, which opens at 1 s.
func ms(v ...float64) []int64 {
	out := make([]int64, len(v))
	for i, f := range v {
		out[i] = int64(f * 1e6)
	}
	return out
}

// TestTruth: only events inside the window count, and a stream that the emitter
// knows but the run does not (a probe, a prime) counts nowhere.
func TestTruth(t *testing.T) {
	run := &matrix.Run{Records: []record.Record{{ID: "a"}, {ID: "b", Seq: 1}, {ID: "p", Phase: record.Prime}}}
	log := map[string]yard.Emitted{
		"a":     {ID: "a", Read: 700e6, PerChunk: 4, Emits: ms(900, 1000, 1040, 1080, 2000)},
		"b":     {ID: "b", Read: 1000e6, PerChunk: 4, Emits: ms(1999)},
		"p":     {ID: "p", PerChunk: 1, Emits: ms(1500)},
		"probe": {ID: "probe", PerChunk: 1, Emits: ms(1500)},
	}
	got := truthOf(run, log, 1000e6, 2000e6)
	if got.tokens != 16 {
		t.Errorf("%d tokens, want 4 events of 4", got.tokens)
	}
	if want := []float64{40, 40}; !slices.Equal(got.gaps, want) {
		t.Errorf("gaps %v, want %v: not those across the opening and the end", got.gaps, want)
	}
	if want := []float64{10}; !slices.Equal(got.tbt, want) {
		t.Errorf("TBT %v, want %v: 80 ms for the 8 tokens after the first event", got.tbt, want)
	}
	if want := []float64{200}; !slices.Equal(got.ttft, want) {
		t.Errorf("TTFT %v, want %v: of the burst alone", got.ttft, want)
	}
}

func TestErrors(t *testing.T) {
	rec := record.Record{ID: "a", SentRealNS: record.Some(int64(1000e6)), EventLog: [][3]int64{{100e6, 1, 0}, {110e6, 1, 1}, {120.5e6, 1, 0}}}
	log := map[string]yard.Emitted{"a": {Emits: ms(1099.9, 1105, 1120, 1130)}}
	off, err := errorsOf(&matrix.Run{Records: []record.Record{rec}}, log)
	if err != nil || len(off) != 2 || math.Abs(off[0]-.1) > 1e-9 || math.Abs(off[1]-.5) > 1e-9 {
		t.Errorf("errors %v (%v), want 0.1 and 0.5 ms: the coalesced event is left out", off, err)
	}
	log["a"] = yard.Emitted{Emits: ms(1099.9)}
	if _, err := errorsOf(&matrix.Run{Records: []record.Record{rec}}, log); err == nil {
		t.Error("no error for events that were never sent")
	}
	if _, err := errorsOf(&matrix.Run{}, log); err == nil {
		t.Error("no error for a run without an instant")
	}
}

// TestBars: a row is judged by its median, a limited round always counts, and a
// figure that is not there is a miss.
func TestBars(t *testing.T) {
	good := round{
		status: matrix.Valid, total: pair{100, 100}, tbt: pair{10, 10}, gap: pair{11, 11}, ttft: pair{200, 200},
		instants: []float64{.01, .02}, perToken: 11, floor: 10, rss: 60 << 20,
	}
	with := func(f func(*round)) round {
		r := good
		f(&r)
		return r
	}
	l := load{"512x40ms", 512, 40 * time.Millisecond, 1, 64 << 20}
	for _, c := range []struct {
		name   string // the reason
		rounds []round
		missed int
	}{
		{"all met", []round{good, good, good}, 0},
		{"one bad round of three", []round{good, with(func(r *round) { r.total.got = 101 }), good}, 0},
		{"two bad rounds of three", []round{with(func(r *round) { r.total.got = 101 }), with(func(r *round) { r.total.got = 99 }), good}, 1},
		{"one limited round", []round{good, good, with(func(r *round) { r.status = matrix.Limited })}, 1},
		{"no number", []round{with(func(r *round) { r.gap = pair{math.NaN(), 11} })}, 1},
		{"no instants, too dear, too large", []round{with(func(r *round) { r.instants, r.perToken, r.rss = nil, 13, 65<<20 })}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if missed := print(&out, l, c.rounds); missed != c.missed {
				t.Errorf("%d bars missed, want %d:\n%s", missed, c.missed, out.String())
			}
			if got := strings.Count(out.String(), "!"); got != c.missed {
				t.Errorf("%d marks in the row, want %d:\n%s", got, c.missed, out.String())
			}
		})
	}
}

// TestNoYard: without the yard nothing is measured, which is said and no failure.
func TestNoYard(t *testing.T) {
	t.Setenv("STREAMGAUGE_SHARED", t.TempDir())
	var out, errs bytes.Buffer
	if code := run(t.Context(), nil, &out, &errs); code != 0 || !strings.Contains(errs.String(), "SKIPPED, NOTHING WAS MEASURED") || out.Len() > 0 {
		t.Errorf("code %d, said %q and %q", code, errs.String(), out.String())
	}
}
