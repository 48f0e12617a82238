package board

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// ratesOf is a screen over paced load.
func ratesOf(t *testing.T, cfg loadgen.Config) model {
	t.Helper()
	cfg.Contexts, cfg.NoPrefill, cfg.Duration = []int{8 << 10}, true, 30*time.Second
	p, err := loadgen.NewPlan(cfg, engine.Info{Model: "m", MaxModelLen: 65536})
	if err != nil {
		t.Fatal(err)
	}
	return newModel(Subject{Title: "m", Plan: p}, begun, stylesFor(io.Discard))
}

// matrixOf are the lines of the frame that hold the matrix.
func matrixOf(m model) string { return strings.Join(m.rows(10), "\n") }

// took is a step's cells, as the run tells of them.
func took(m model, step int, totals ...float64) model {
	s := m.subject.Plan.Steps[step]
	for i, c := range s.Cells() {
		c.TotalTokS = stream.Some(totals[i])
		m = m.noted(note{at: after(time.Minute), event: loadgen.Event{Step: s, N: step + 1, Of: len(m.subject.Plan.Steps), Cell: &c}})
	}
	return m
}

// TestRatesHavePlaces: cells of one context and bound, which differ in their rate,
// do not cover each other.
func TestRatesHavePlaces(t *testing.T) {
	m := took(took(ratesOf(t, loadgen.Config{Rates: []float64{2.5, 10, 40}}), 0, 111.1), 1, 222.2)
	want := "" +
		" tok/s   2.5/s    10/s    40/s\n" +
		"    8k   111.1   222.2       ·"
	if got := matrixOf(m); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	m = m.looked(loadgen.Snapshot{Step: m.subject.Plan.Steps[2], N: 3, Of: 3, Stage: loadgen.Measuring}, after(2*time.Minute))
	if got := matrixOf(m); !strings.HasSuffix(got, "111.1   222.2      ▸…") {
		t.Errorf("the current rate is not marked:\n%s", got)
	}
}

// TestStagesHavePlaces: stages of one rate are places of their own.
func TestStagesHavePlaces(t *testing.T) {
	m := ratesOf(t, loadgen.Config{Stages: []loadgen.Pace{{Rate: 5, For: time.Minute}, {Rate: 20, For: time.Minute}, {Rate: 5, For: time.Minute}}})
	want := "" +
		" tok/s     5/s    20/s     5/s\n" +
		"    8k     1.0     2.0     3.0"
	if got := matrixOf(took(m, 0, 1, 2, 3)); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestSearchHasPlaces: the levels that a search has come to stand in their order.
func TestSearchHasPlaces(t *testing.T) {
	m := ratesOf(t, loadgen.Config{Concurrency: []int{1, 2, 4, 8, 16}, SLO: loadgen.SLO{TBT: time.Second}})
	for _, c := range []int{1, 8, 4} {
		m = m.noted(note{at: after(time.Minute), event: loadgen.Event{Step: m.subject.Plan.Steps[0], N: 1, Of: 1, Cell: &matrix.Cell{
			Phase: matrix.Decode, Context: 8 << 10, Concurrency: c, Status: matrix.Valid, TotalTokS: stream.Some(float64(c)),
		}}})
	}
	want := "" +
		" tok/s       1       4       8\n" +
		"    8k     1.0     4.0     8.0"
	if got := matrixOf(m); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
