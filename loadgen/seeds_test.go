package loadgen

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
)

// TestSeeds runs every cell of the three published matrices against the profile
// fitted to it, 30 s windows and all, in virtual time. With --on-loop=discard
// each status is the published one; totals, TTFT, active requests and output of
// the valid cells are held against the simulator's log and the published row.
func TestSeeds(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("two million tokens: a minute, and five times that under the race detector")
	}
	good, all := 0, 0
	for _, name := range []string{"gemma-4-12b-vllm", "gemma-4-e2b-sglang", "laguna-xs-vllm"} {
		t.Run(name, func(t *testing.T) {
			seed, err := sim.LoadSeed(name)
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			cfg := Config{Concurrency: nil, OnLoop: Discard, MaxTokens: seed.MaxOutput, Duration: time.Duration(seed.Seconds * float64(time.Second))}
			for _, row := range seed.Rows {
				if row.Phase == "decode" && !slices.Contains(cfg.Contexts, row.Context) {
					cfg.Contexts = append(cfg.Contexts, row.Context)
				}
			}
			bubble(t, profile(t, name), sim.Options{Seed: 1}, func(r *rig) {
				out := r.run(cfg)
				for _, row := range seed.Rows {
					all++
					c := cellOf(t, out, matrix.CellPhase(row.Phase), row.Context, row.Concurrency)
					if r.published(out, c, row) {
						good++
					}
				}
			})
			t.Logf("%d rows in %v", len(seed.Rows), time.Since(begin).Round(time.Millisecond))
		})
	}
	t.Logf("seeds: %d/%d cells", good, all)
	if good != all {
		t.Errorf("%d of %d cells agree", good, all)
	}
}

// published holds a cell against its published row.
func (r *rig) published(out Outcome, c matrix.Cell, row sim.SeedRow) bool {
	r.t.Helper()
	ok := true
	bad := func(format string, args ...any) {
		r.t.Helper()
		ok = false
		r.t.Errorf("%s L=%d C=%d: "+format, append([]any{c.Phase, c.Context, c.Concurrency}, args...)...)
	}
	if string(c.Status) != row.Status {
		bad("%s (%s), published %s", c.Status, c.Message, row.Status)
		return false
	}
	if row.Status != "valid" {
		return ok
	}
	off := func(got, want, tol float64) bool { return math.Abs(got-want) > tol }
	if row.TTFTms != nil && c.Phase == matrix.Prefill {
		if off(c.TTFTMS.V, *row.TTFTms, .01**row.TTFTms) {
			bad("TTFT %.1f ms, published %.1f", c.TTFTMS.V, *row.TTFTms)
		}
		if want := float64(c.PromptTokens.V) / c.TTFTMS.V * 1e3; off(c.TotalTokS.V, want, .01*want) {
			bad("%.0f tok/s, prompt / TTFT is %.0f", c.TotalTokS.V, want)
		}
		return ok
	}
	truth := r.truthOf(out, c)
	chunk := 5 * float64(row.Concurrency)
	if off(c.TotalTokS.V, truth.total, .001*truth.total) || off(c.TotalTokS.V, *row.TotalTokS, max(.01**row.TotalTokS, chunk/c.MeasuredS.V)) {
		bad("total %.1f tok/s, truth %.1f, published %.1f", c.TotalTokS.V, truth.total, *row.TotalTokS)
	}
	if off(c.OutputTokens.V, truth.tokens, .001*truth.tokens) || off(c.OutputTokens.V, float64(*row.OutputTokens), max(.01*float64(*row.OutputTokens), chunk)) {
		bad("%.0f tokens, truth %.0f, published %d", c.OutputTokens.V, truth.tokens, *row.OutputTokens)
	}
	if off(c.TTFTMS.V, truth.ttft, .001*truth.ttft) || off(c.TTFTMS.V, *row.TTFTms, .01**row.TTFTms) {
		bad("TTFT %.2f ms, truth %.2f, published %.2f", c.TTFTMS.V, truth.ttft, *row.TTFTms)
	}
	if off(c.AvgActive.V, truth.active, .001*truth.active) {
		bad("%.3f active, truth %.3f", c.AvgActive.V, truth.active)
	}
	return ok
}

type truth struct{ total, tokens, ttft, active float64 }

// truthOf reads the same numbers from the engine's log.
func (r *rig) truthOf(out Outcome, c matrix.Cell) truth {
	log := r.srv.Truth()
	open := out.Header.Start.Add(time.Duration(c.OpenNS.V)).Sub(log.Start)
	end := open + time.Duration(c.MeasuredS.V*float64(time.Second))
	var ttfts []float64
	for _, q := range r.burst(c) {
		ttfts = append(ttfts, float64(q.FirstToken-q.Arrived)/1e6)
	}
	tokens := float64(log.Tokens(open, end))
	return truth{
		total: tokens / c.MeasuredS.V, tokens: tokens, ttft: mid(ttfts),
		active: log.Mean(open, end, func(g sim.Gauge) int { return g.Running + g.Waiting }),
	}
}

// TestSeedsSalvage runs six looped cells of the matrices with --on-loop=salvage,
// twenty seeds each. The simulator's loops run twice as fast as its text, as they
// do under speculation, so that an estimator that leaks would show.
func TestSeedsSalvage(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("120 windows of 30 s")
	}
	for _, c := range []struct {
		name                 string
		context, concurrency int
	}{
		{"gemma-4-12b-vllm", 8192, 2},
		{"gemma-4-12b-vllm", 16384, 8},
		{"gemma-4-12b-vllm", 32768, 4},
		{"gemma-4-12b-vllm", 131072, 2},
		{"laguna-xs-vllm", 8192, 8},
		{"laguna-xs-vllm", 16384, 4},
	} {
		t.Run(fmt.Sprintf("%s L=%d C=%d", c.name, c.context, c.concurrency), func(t *testing.T) {
			t.Parallel()
			const seeds = 20
			valid, sum, worst := 0, 0.0, 0.0
			for seed := range uint64(seeds) {
				bubble(t, profile(t, c.name), sim.Options{Seed: seed}, func(r *rig) {
					out := r.run(Config{Contexts: []int{c.context}, Concurrency: []int{c.concurrency}, NoPrefill: true, Seed: seed + 1})
					cell := cellOf(t, out, matrix.Decode, c.context, c.concurrency)
					rate, share := r.cleanTruth(out, cell)
					wanted := matrix.Valid
					if share < .5 {
						wanted = matrix.Looped
					}
					if cell.Status != wanted && math.Abs(share-.5) > .02 {
						t.Errorf("seed %d: %s (%s), the engine was clean for %.0f %%", seed, cell.Status, cell.Message, 100*share)
					}
					if cell.Status != matrix.Valid {
						return
					}
					off := cell.TotalTokS.V/rate - 1
					valid++
					sum += off
					worst = max(worst, math.Abs(off))
				})
			}
			t.Logf("%d of %d runs valid, mean error %+.2f %%, worst %.2f %%", valid, seeds, 100*sum/float64(valid), 100*worst)
			if valid == 0 || math.Abs(sum/float64(valid)) > .005 || worst > .02 {
				t.Errorf("%d runs valid, mean error %+.2f %%, worst %.2f %%; want some, 0.5 %% and 2 %%", valid, 100*sum/float64(valid), 100*worst)
			}
		})
	}
}

// cleanTruth is the rate at which the engine wrote text that was no loop, C
// times that of its streams, and the share of the window in which it did.
func (r *rig) cleanTruth(out Outcome, c matrix.Cell) (rate, share float64) {
	log := r.srv.Truth()
	open := out.Header.Start.Add(time.Duration(c.OpenNS.V)).Sub(log.Start)
	end := open + time.Duration(c.MeasuredS.V*float64(time.Second))
	var tokens, seconds, inside float64
	for _, q := range log.Requests() {
		var first, last time.Duration
		for i, e := range q.Emits {
			if q.LoopToken >= 0 && int(e.Total) > q.LoopToken {
				break
			}
			if i == 0 {
				first = e.At
			} else {
				tokens += float64(e.Tokens)
			}
			last = e.At
		}
		seconds += (last - first).Seconds()
		inside += max(min(last, end)-max(first, open), 0).Seconds()
	}
	return float64(c.Concurrency) * tokens / seconds, inside / (float64(c.Concurrency) * c.MeasuredS.V)
}
