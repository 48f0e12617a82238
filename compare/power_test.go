package compare

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// noise makes the values of a run: how its cells differ from the truth.
type noise func(r *rand.Rand, cells int) []float64

// independent noise is each cell's own, of sigma times a factor that differs
// between cells by up to spread.
func independent(sigma, spread float64) noise {
	return func(r *rand.Rand, cells int) []float64 {
		out := make([]float64, cells)
		for i := range out {
			uneven := 1 + (spread-1)*float64(i%4)/3
			out[i] = 1 + sigma*uneven*r.NormFloat64()
		}
		return out
	}
}

// shared noise moves a whole run: a warmer room, another clock.
func shared(sigma float64) noise {
	return func(r *rand.Rand, cells int) []float64 {
		out, f := make([]float64, cells), 1+sigma*r.NormFloat64()
		for i := range out {
			out[i] = f
		}
		return out
	}
}

// runOf makes one run of contexts × levels cells around a plausible matrix. One
// cell (changed, −1 none) is off by change.
func runOf(r *rand.Rand, contexts, levels int, n noise, changed int, change float64) *matrix.Run {
	run := &matrix.Run{}
	factors := n(r, contexts*levels)
	for i := range contexts * levels {
		c := 1 << (i % levels)
		total := 230 * float64(c) / (1 + 0.1*float64(c)) / (1 + 0.2*float64(i/levels)) * factors[i]
		if i == changed {
			total *= 1 + change
		}
		run.Cells = append(run.Cells, matrix.Cell{
			Phase: matrix.Decode, Context: 8192 << (i / levels), Concurrency: c, Status: matrix.Valid,
			TotalTokS: stream.Some(total), RequestTokS: stream.Some(total / float64(c)), TBTMS: stream.Some(1e3 * float64(c) / total),
			TTFTMS: stream.Some(40 * (1 + 0.05*r.NormFloat64())),
		})
	}
	return run
}

func runsOf(n int, one func() *matrix.Run) []*matrix.Run {
	out := make([]*matrix.Run, n)
	for i := range out {
		out[i] = one()
	}
	return out
}

// TestErrorsAndPower holds the comparison to its promise: of pairs without a
// difference at most 5 % show any false cell in any of their tables, and a true
// change of 5 % of one cell is found in at least 90 %.
func TestErrorsAndPower(t *testing.T) {
	const pairs = 200
	for _, tc := range []struct {
		name             string
		contexts, levels int
		noise            noise
		found            float64 // least share of pairs that show the changed cell
	}{
		{"full matrix", 6, 8, independent(0.01, 1), 0.9},
		{"small matrix", 2, 2, independent(0.01, 1), 0.9},
		{"one cell", 1, 1, independent(0.01, 1), 0.9},
		{"noise of the whole run", 6, 8, shared(0.01), 0.9},
		{"cells unequally noisy, up to 3 %", 6, 8, independent(0.01, 3), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(tc.contexts*100+tc.levels)))
			var alarms, found, extra int
			for pair := range pairs {
				run := func() *matrix.Run { return runOf(r, tc.contexts, tc.levels, tc.noise, -1, 0) }
				c := mustCompare(t, runsOf(3, run), runsOf(3, run))
				if len(differing(&c)) > 0 {
					alarms++
				}
				cell := pair % (tc.contexts * tc.levels)
				c = mustCompare(t, runsOf(3, run), runsOf(3, func() *matrix.Run { return runOf(r, tc.contexts, tc.levels, tc.noise, cell, -0.05) }))
				if c.Tables[0].Rows[cell].Verdict == Worse {
					found++
				}
				for _, at := range differing(&c) {
					if at != fmt.Sprint(c.Tables[0].Rows[cell].Context, " ", c.Tables[0].Rows[cell].Concurrency) {
						extra++
						break
					}
				}
			}
			t.Logf("%d of %d pairs show a false cell, %d beside a true one; the true change is found in %d", alarms, pairs, extra, found)
			if alarms > pairs*5/100 {
				t.Errorf("%d of %d pairs show a false cell, want at most 5 %%", alarms, pairs)
			}
			if float64(found) < tc.found*pairs {
				t.Errorf("a change of 5 %% is found in %d of %d pairs, want at least %.0f %%", found, pairs, 100*tc.found)
			}
		})
	}
}

func mustCompare(t *testing.T, base, fresh []*matrix.Run) Comparison {
	t.Helper()
	c, err := Compare(base, fresh)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// differing lists the cells that any table calls better or worse.
func differing(c *Comparison) []string {
	var out []string
	for _, t := range c.Tables {
		for _, r := range t.Rows {
			if r.Verdict == Better || r.Verdict == Worse {
				out = append(out, fmt.Sprint(r.Context, " ", r.Concurrency))
			}
		}
	}
	return out
}
