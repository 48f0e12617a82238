package loadgen

import (
	"math"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
)

// loopy is an engine of 4 ms a token whose streams loop as rule says.
func loopy(t *testing.T, rule sim.LoopRule) sim.Profile {
	p := profile(t, "plain")
	p.Speed.TBT = sim.NewSurface([]sim.Sample{{Time: 4 * time.Millisecond}})
	rule.PeriodMin, rule.PeriodMax = 10, 30
	p.Loops = []sim.LoopRule{rule}
	return p
}

// TestLoops runs the four things that can become of a cell whose streams loop.
func TestLoops(t *testing.T) {
	late := sim.LoopRule{Share: 1, OnsetMin: 6 * time.Second, OnsetMax: 9 * time.Second, Faster: 2}
	for _, c := range []struct {
		name   string // the reason
		rule   sim.LoopRule
		onLoop OnLoop
		status matrix.Status
		reason string
		total  float64 // tok/s, 0: null
	}{
		{"salvaged: the loops run twice as fast, the total does not", late, Salvage, matrix.Valid, "", 4 * 250},
		{"discarded", late, Discard, matrix.Looped, "loop_discarded", 0},
		{
			"every stream loops from the start: the cell ends early with the evidence",
			sim.LoopRule{Share: 1, OnsetMin: 100 * time.Millisecond, OnsetMax: 200 * time.Millisecond},
			Salvage, matrix.Looped, "every_stream", 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, loopy(t, c.rule), sim.Options{Seed: 11}, func(r *rig) {
				cfg := oneCell(4)
				cfg.Duration, cfg.MaxTokens, cfg.OnLoop = 30*time.Second, 8000, c.onLoop
				begin := time.Now()
				out := r.run(cfg)
				cell := cellOf(t, out, matrix.Decode, 0, 4)
				want(t, cell, c.status, c.reason, "")
				if got := cell.TotalTokS; got.OK != (c.total > 0) || math.Abs(got.V-c.total) > .005*c.total {
					t.Errorf("total %v, want %v", got, c.total)
				}
				if cell.Loops == 0 {
					t.Error("no loops in a cell that looped")
				}
				switch c.reason {
				case "":
					if !warned(cell, "salvaged") || cell.CleanShare.V < .5 || cell.CleanShare.V > .95 {
						t.Errorf("clean share %v, warnings %v", cell.CleanShare, cell.Warnings)
					}
					r.onsets(cell)
					cell.Status, cell.Warnings = matrix.Valid, nil
					r.recompute(cell)
				default:
					if d := time.Since(begin); d > 25*time.Second {
						t.Errorf("the cell took %v: it should not burn its window", d)
					}
				}
			})
		})
	}
}

// onsets holds the records' loops against what the engine did.
func (r *rig) onsets(c matrix.Cell) {
	r.t.Helper()
	truth := map[string]sim.Request{}
	for _, q := range r.srv.Truth().Requests() {
		truth[q.ID] = q
	}
	seen := 0
	for _, rec := range r.file().Records {
		for _, l := range rec.Loops {
			if !l.Acts() || rec.Concurrency != c.Concurrency {
				continue
			}
			seen++
			q := truth[rec.ID]
			if l.Period.V != int64(q.LoopPeriod) || math.Abs(float64(l.Onset.V-int64(q.LoopChars))) > float64(q.LoopPeriod) {
				r.t.Errorf("%s: period %d from %d, want %d from %d", rec.ID, l.Period.V, l.Onset.V, q.LoopPeriod, q.LoopChars)
			}
		}
	}
	if seen != c.Loops {
		r.t.Errorf("%d records loop, the cell says %d", seen, c.Loops)
	}
}

// TestDemoCells runs the demo profile's own plan: its eight cells meet every kind.
func TestDemoCells(t *testing.T) {
	p := profile(t, "demo")
	bubble(t, p, sim.Options{}, func(r *rig) {
		out := r.run(Config{
			Contexts: p.Suggested.Contexts, Concurrency: p.Suggested.Concurrency, MaxTokens: p.Suggested.MaxTokens,
			Settle: p.Suggested.Settle, Duration: p.Suggested.Duration,
		})
		for _, w := range []struct {
			context, concurrency int
			status               matrix.Status
			salvaged             bool
		}{
			{1024, 1, matrix.Valid, false}, {1024, 2, matrix.Valid, false}, {1024, 4, matrix.Valid, false}, {1024, 8, matrix.Valid, false},
			{4096, 1, matrix.Valid, false}, {4096, 2, matrix.Looped, false}, {4096, 4, matrix.Valid, true}, {4096, 8, matrix.OverCapacity, false},
		} {
			c := cellOf(t, out, matrix.Decode, w.context, w.concurrency)
			if c.Status != w.status || warned(c, "salvaged") != w.salvaged {
				t.Errorf("L=%d C=%d: %s (%s), salvaged %v; want %s, %v", w.context, w.concurrency, c.Status, c.Message, warned(c, "salvaged"), w.status, w.salvaged)
			}
			if c.Status == matrix.Valid && !w.salvaged {
				r.compare(out, c)
			}
		}
	})
}
