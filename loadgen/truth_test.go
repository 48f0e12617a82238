package loadgen

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

// TestTruth compares every decode cell with what the engine logged: total within
// max(0.5 %, one event a stream), p50 of TTFT and gaps within 2 ms.
func TestTruth(t *testing.T) {
	plain := profile(t, "plain")
	chunky := plain
	chunky.Chunks = []int{2, 1, 4}
	short := plain
	short.EOS = sim.Lengths{Median: 300, Sigma: .4}
	for _, c := range []struct {
		name    string // the reason
		profile sim.Profile
		prefix  Prefix
	}{
		{"a token an event", plain, Shared},
		{"speculative decoding, several tokens an event", chunky, Shared},
		{"replies that end by themselves, slots that restart", short, Shared},
		{"a context of its own for each slot", plain, Distinct},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, c.profile, sim.Options{Seed: 3}, func(r *rig) {
				out := r.run(Config{
					Contexts: []int{0, 1024}, Concurrency: []int{1, 4, 16}, Prefix: c.prefix,
					Duration: 10 * time.Second, Settle: time.Second, MaxTokens: 4096,
				})
				decode := 0
				for _, cell := range out.Cells {
					if cell.Phase != matrix.Decode {
						continue
					}
					decode++
					if cell.Status != matrix.Valid {
						t.Errorf("C=%d L=%d: %s (%s), want valid", cell.Concurrency, cell.Context, cell.Status, cell.Message)
						continue
					}
					r.compare(out, cell)
					r.recompute(cell)
					r.kept(out, cell)
				}
				if decode != 6 {
					t.Errorf("%d decode cells, want 6", decode)
				}
			})
		})
	}
}

// compare holds a cell against the engine's log.
func (r *rig) compare(out Outcome, c matrix.Cell) {
	r.t.Helper()
	log := r.srv.Truth()
	open := out.Header.Start.Add(time.Duration(c.OpenNS.V)).Sub(log.Start)
	end := open + time.Duration(c.MeasuredS.V*float64(time.Second))
	tokens, event := 0, 0
	var ttfts, gaps []float64
	for _, q := range log.Requests() {
		for i, e := range q.Emits {
			if e.At < open || e.At >= end {
				continue
			}
			tokens += int(e.Tokens)
			event = max(event, int(e.Tokens))
			if i > 0 && q.Emits[i-1].At >= open {
				gaps = append(gaps, float64(e.At-q.Emits[i-1].At)/1e6)
			}
		}
	}
	for _, q := range r.burst(c) {
		ttfts = append(ttfts, float64(q.FirstToken-q.Arrived)/1e6)
	}
	want := float64(tokens) / c.MeasuredS.V
	if tol := max(want*.005, float64(event*c.Concurrency)/c.MeasuredS.V); math.Abs(c.TotalTokS.V-want) > tol {
		r.t.Errorf("C=%d L=%d: total %.2f tok/s, want %.2f ± %.2f", c.Concurrency, c.Context, c.TotalTokS.V, want, tol)
	}
	if got, want := c.TTFTMS.V, mid(ttfts); math.Abs(got-want) > 2 {
		r.t.Errorf("C=%d L=%d: TTFT p50 %.2f ms, want %.2f", c.Concurrency, c.Context, got, want)
	}
	if got, want := c.Gaps.P50.V, mid(gaps); math.Abs(got-want) > 2 {
		r.t.Errorf("C=%d L=%d: gap p50 %.2f ms, want %.2f", c.Concurrency, c.Context, got, want)
	}
}

// recompute folds the records of the run file again: the cell line is no more than
// they say.
func (r *rig) recompute(c matrix.Cell) {
	r.t.Helper()
	in := matrix.DecodeInput{
		Context: c.Context, Concurrency: c.Concurrency, OpenNS: c.OpenNS.V,
		Duration: time.Duration(c.MeasuredS.V * float64(time.Second)), MaxTokens: 4096, MaxFailed: DefaultMaxFailed,
	}
	for _, rec := range r.file().Records {
		if rec.Context == c.Context && rec.Concurrency == c.Concurrency && rec.Phase != stream.Prime {
			in.Records = append(in.Records, rec)
		}
	}
	again := matrix.FoldDecode(in)
	numbers := func(c matrix.Cell) []any {
		return []any{c.Status, c.TotalTokS, c.RequestTokS, c.TTFTMS, c.TBTMS, c.AvgActive, c.Completed, c.OutputTokens, c.CleanShare, c.AvgDecoding, c.TTFTSteady, c.Streams, c.Loops}
	}
	if d := cmp.Diff(numbers(again), numbers(c)); d != "" {
		r.t.Errorf("C=%d L=%d from the file (got -, want +):\n%s", c.Concurrency, c.Context, d)
	}
}

// kept is the second half of R15: the engine's own gauge of requests in flight
// stays at C for at least 95 % of the window.
func (r *rig) kept(out Outcome, c matrix.Cell) {
	r.t.Helper()
	log := r.srv.Truth()
	open := out.Header.Start.Add(time.Duration(c.OpenNS.V)).Sub(log.Start)
	end := open + time.Duration(c.MeasuredS.V*float64(time.Second))
	at := log.Mean(open, end, func(g sim.Gauge) int {
		if g.Running+g.Waiting == c.Concurrency {
			return 1
		}
		return 0
	})
	if at < .95 {
		r.t.Errorf("C=%d L=%d: the engine had %d requests for %.1f %% of the window, want 95 %%", c.Concurrency, c.Context, c.Concurrency, 100*at)
	}
}

// burst returns the engine's view of the first streams of a cell's slots.
func (r *rig) burst(c matrix.Cell) []sim.Request {
	want := map[string]bool{}
	for _, rec := range r.file().Records {
		if rec.Context == c.Context && rec.Concurrency == c.Concurrency && rec.Seq == 0 && rec.Phase == "warmup" {
			want[rec.ID] = true
		}
	}
	var out []sim.Request
	for _, q := range r.srv.Truth().Requests() {
		if want[q.ID] {
			out = append(out, q)
		}
	}
	if len(out) != c.Concurrency {
		r.t.Errorf("C=%d L=%d: %d streams of the burst found in the engine's log", c.Concurrency, c.Context, len(out))
	}
	return out
}

func mid(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// TestEvents: with Events, the run file has the instant of each event the engine
// sent, also of streams that ended in the middle of a slot's life.
func TestEvents(t *testing.T) {
	p := profile(t, "plain")
	p.Chunks = []int{2, 1}
	p.EOS = sim.Lengths{Median: 300, Sigma: .4}
	bubble(t, p, sim.Options{}, func(r *rig) {
		out := r.run(Config{Contexts: []int{0}, Concurrency: []int{3}, Duration: 10 * time.Second, NoPrefill: true, Events: true})
		for _, c := range out.Cells {
			if c.Phase == matrix.Prefill {
				t.Errorf("prefill row of context %d although there was to be none", c.Context)
			}
		}
		sent := map[string]sim.Request{}
		for _, q := range r.srv.Truth().Requests() {
			sent[q.ID] = q
		}
		streams := 0
		for _, rec := range r.file().Records {
			if rec.Phase == stream.Prime {
				continue
			}
			streams++
			emits := sent[rec.ID].Emits
			if len(rec.EventLog) != rec.GeneratedEvents || len(emits) < rec.GeneratedEvents {
				t.Errorf("%s: %d events in the log of %d, %d sent", rec.ID, len(rec.EventLog), rec.GeneratedEvents, len(emits))
				continue
			}
			for i, e := range rec.EventLog {
				gap, want := e[0]-rec.EventLog[0][0], int64(emits[i].At-emits[0].At)
				if gap != want || e[1] != int64(emits[i].Tokens) {
					t.Errorf("%s: event %d is %d ns after the first with %d tokens, want %d and %d", rec.ID, i, gap, e[1], want, emits[i].Tokens)
					break
				}
			}
		}
		if streams <= 3 {
			t.Errorf("%d streams, want restarts too", streams)
		}
	})
}
