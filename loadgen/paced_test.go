package loadgen

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

func TestArrivals(t *testing.T) {
	all := func(p Pace, how Arrival, seed uint64) (out []time.Duration) {
		next := p.arrivals(how, rand.New(rand.NewPCG(seed, 0)))
		for at, ok := next(); ok; at, ok = next() {
			out = append(out, at)
		}
		return out
	}
	even := all(Pace{4, time.Second}, Constant, 1)
	if d := cmp.Diff(even, []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond}); d != "" {
		t.Errorf("4/s for a second (got -, want +):\n%s", d)
	}
	// 10,000 sends are expected; the count of a Poisson process has that variance.
	p := Pace{100, 100 * time.Second}
	random := all(p, Poisson, 1)
	if n := float64(len(random)); math.Abs(n-10000) > 4*100 {
		t.Errorf("%g sends, want 10000 ± 400", n)
	}
	var waits []float64
	last := time.Duration(0)
	for _, at := range random {
		if at < last || at >= p.For {
			t.Fatalf("a send at %v behind one at %v, of %v", at, last, p.For)
		}
		waits = append(waits, (at - last).Seconds())
		last = at
	}
	// An exponential wait exceeds its mean with probability 1/e.
	above := 0
	for _, w := range waits {
		if w > .01 {
			above++
		}
	}
	if share := float64(above) / float64(len(waits)); math.Abs(share-1/math.E) > .02 {
		t.Errorf("%.3f of the waits exceed the mean, want 1/e", share)
	}
	if d := cmp.Diff(random, all(p, Poisson, 1)); d != "" {
		t.Errorf("another load with the same seed:\n%s", d)
	}
	if slices.Equal(random, all(p, Poisson, 2)) {
		t.Error("the same load with another seed")
	}
	if got := all(Pace{.1, 5 * time.Second}, Constant, 1); len(got) != 1 {
		t.Errorf("%d sends of 0.1/s in 5 s, want the first alone", len(got))
	}
}

// offer is load of short replies: the plain profile takes 540 ms for fifty tokens.
func offer(rates ...float64) Config {
	return Config{
		Contexts: []int{0}, Rates: rates, Arrival: Constant, NoPrefill: true,
		Duration: 10 * time.Second, Settle: 2 * time.Second, MaxTokens: 50,
	}
}

func offeredCell(t *testing.T, out Outcome, i int) matrix.Cell {
	t.Helper()
	if len(out.Cells) <= i || out.Cells[i].Offered == nil {
		t.Fatalf("%d cells, want cell %d of an offered load", len(out.Cells), i)
	}
	return out.Cells[i]
}

// TestPaced: what is offered is what the engine's log has, and the numbers are those
// of its profile.
func TestPaced(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		out := r.run(offer(20, 5))
		for i, rate := range []float64{20, 5} {
			c := offeredCell(t, out, i)
			want(t, c, matrix.Valid, "", "")
			got := *c.Offered
			if n := int(10 * rate); got.Rate != rate || got.Intended != n || got.Sent != n || got.Dropped != 0 || got.Late != 0 || c.Streams != n {
				t.Errorf("%g/s: intended %d, sent %d, dropped %d, late %d, %d streams; want %d sent and none else", rate, got.Intended, got.Sent, got.Dropped, got.Late, c.Streams, n)
			}
			for _, n := range []struct {
				name      string
				got, want float64
			}{
				{"total tok/s", c.TotalTokS.V, 50 * rate},
				{"completed", float64(c.Completed.V), 10 * rate},
				{"active (Little's law)", c.AvgActive.V, .54 * rate},
				{"TTFT", c.TTFTMS.V, 50},
				{"intended TTFT", got.IntendedTTFT.P50.V, 50},
				{"gap", c.Gaps.P50.V, 10},
				{"TBT, of replies of half a second", c.TBTMS.V, 10},
				{"tok/s of a request", c.RequestTokS.V, 100},
			} {
				if math.Abs(n.got-n.want) > .02*n.want {
					t.Errorf("%g/s: %s %.3f, want %.3f", rate, n.name, n.got, n.want)
				}
			}
			open := out.Header.Start.Add(time.Duration(c.OpenNS.V)).Sub(r.srv.Truth().Start)
			arrived := 0
			for _, q := range r.srv.Truth().Requests() {
				if q.Arrived >= open && q.Arrived < open+10*time.Second {
					arrived++
				}
			}
			if arrived != got.Sent {
				t.Errorf("%g/s: %d requests reached the engine in the window, %d sent", rate, arrived, got.Sent)
			}
		}
		for _, c := range out.Cells {
			r.recomputeOffered(c)
		}
		// The file has the same cells, and each record once.
		run := r.file()
		if d := cmp.Diff(len(run.Cells), 2); d != "" || len(run.Bad) != 0 {
			t.Errorf("cells in the file: %s, %d bad lines", d, len(run.Bad))
		}
		ids := map[string]bool{}
		for _, rec := range run.Records {
			if ids[rec.ID] {
				t.Errorf("record %s stands in the file twice", rec.ID)
			}
			ids[rec.ID] = true
		}
		if n := 2 + 12*20 + 12*5; len(ids) != n {
			t.Errorf("%d records, want %d: primes, lead-ins and windows", len(ids), n)
		}
	})
}

// recomputeOffered folds the records of the run file again: but for what the
// generator saw of itself, the cell line is no more than they say.
func (r *rig) recomputeOffered(c matrix.Cell) {
	r.t.Helper()
	in := matrix.DecodeInput{
		Context: c.Context, Concurrency: c.Concurrency, OpenNS: c.OpenNS.V,
		Duration: time.Duration(c.MeasuredS.V * float64(time.Second)), MaxTokens: 50, MaxFailed: DefaultMaxFailed,
		Gaps: c.Hist.Gaps, // of the events, which the window parts do not have
	}
	for _, rec := range r.file().Records {
		// Of another cell, or a lead-in to one: its window part is not of this.
		if rec.Phase == stream.Prime || !rec.IntendedNS.OK {
			continue
		}
		if at := rec.IntendedNS.V; at < c.OpenNS.V-int64(2*time.Second) || at >= c.OpenNS.V+int64(in.Duration) {
			continue
		}
		in.Records = append(in.Records, rec)
	}
	l := c.Offered
	again := matrix.FoldOffered(in, matrix.OfferedLoad{
		Rate: l.Rate, Arrival: l.Arrival, LengthS: l.LengthS, // as asked
		Intended: l.Intended, Dropped: l.Dropped, Late: l.Late, SendLag: l.SendLag,
	})
	numbers := func(c matrix.Cell) []any {
		return []any{c.Status, c.TotalTokS, c.RequestTokS, c.TTFTMS, c.TBTMS, c.AvgActive, c.AvgDecoding, c.Completed, c.OutputTokens,
			c.TTFT, c.TBT, c.Gaps, c.Streams, c.TokensPerEvent, c.CoalescedShare, *c.Offered}
	}
	if d := cmp.Diff(numbers(again), numbers(c), cmp.AllowUnexported(hist.H{})); d != "" {
		r.t.Errorf("%g/s from the file (got -, want +):\n%s", l.Rate, d)
	}
}

// TestPacedDrops: a send that finds no place free is neither sent later nor forgotten.
func TestPacedDrops(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		cfg := offer(20)
		cfg.MaxOpen = 4
		c := offeredCell(t, r.run(cfg), 0)
		l := c.Offered
		want(t, c, matrix.OverCapacity, "dropped", "all 4 places taken")
		// Four places of 540 ms take a send each 11 intervals of 50 ms.
		if l.Intended != 200 || l.Sent+l.Dropped != 200 || l.Sent < 70 || l.Sent > 75 {
			t.Errorf("intended %d, sent %d, dropped %d; want 200, 73 ± 2 and the rest", l.Intended, l.Sent, l.Dropped)
		}
		if c.AvgActive.V > 4 || c.AvgActive.V < 3.8 {
			t.Errorf("%.2f active on average, want nearly 4", c.AvgActive.V)
		}
	})
}

// TestPacedFromTheIntendedStart: what a request waits for its connection is in the
// latency from the intended start, and not in TTFT.
func TestPacedFromTheIntendedStart(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		dial := r.deps.Dialer.Dial
		r.deps.Dialer.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			<-time.After(300 * time.Millisecond)
			return dial(ctx, network, addr)
		}
		cfg := offer(1)
		cfg.Settle = -1
		cfg.Rates = []float64{.25} // each finds the pool empty: connections live 2 s
		c := offeredCell(t, r.run(cfg), 0)
		if got := c.Offered.IntendedTTFT.P50.V; math.Abs(got-350) > 3 {
			t.Errorf("%.1f ms from the intended start, want 350", got)
		}
		if math.Abs(c.TTFTMS.V-50) > 1 {
			t.Errorf("TTFT %.1f ms, want 50", c.TTFTMS.V)
		}
	})
}

// TestPacedUnanswered: requests that a full engine has not answered when the load
// ends are in the latencies, with the time that they had waited.
func TestPacedUnanswered(t *testing.T) {
	p := profile(t, "plain")
	p.MaxRunning = 2
	bubble(t, p, sim.Options{}, func(r *rig) {
		cfg := offer(20)
		cfg.Settle = -1
		c := offeredCell(t, r.run(cfg), 0)
		// Two places of 540 ms serve 37 of 200 in 10 s.
		if l := c.Offered; l.Unanswered < 155 || l.Unanswered > 170 || l.IntendedTTFT.N != 200 {
			t.Errorf("%d unanswered, %d in the latencies; want about 162 and 200", l.Unanswered, l.IntendedTTFT.N)
		} else if l.IntendedTTFT.P50.V < 4000 {
			t.Errorf("median %.0f ms from the intended start, want over 4 s: half of them were still waiting", l.IntendedTTFT.P50.V)
		}
		r.recomputeOffered(c)
		if !warned(c, "unanswered") {
			t.Errorf("warnings %v, want unanswered", c.Warnings)
		}
	})
}

// TestStages: the load changes without a pause, and a stream that runs on into the
// next stage counts its tokens there and its latency where it was intended.
func TestStages(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		cfg := offer()
		cfg.Stages = []Pace{{10, 5 * time.Second}, {40, 4 * time.Second}, {2, 5 * time.Second}}
		out := r.run(cfg)
		if len(out.Cells) != 3 {
			t.Fatalf("%d cells, want 3", len(out.Cells))
		}
		end := int64(0)
		for i, s := range cfg.Stages {
			c := offeredCell(t, out, i)
			want(t, c, matrix.Valid, "", "")
			n := int(s.Rate * s.For.Seconds())
			if l := c.Offered; l.Stage != i || l.Sent != n || c.MeasuredS.V != s.For.Seconds() {
				t.Errorf("stage %d: %d sent in %g s, want %d in %v", l.Stage, l.Sent, c.MeasuredS.V, n, s.For)
			}
			if i > 0 && c.OpenNS.V != end {
				t.Errorf("stage %d opens at %d ns, want %d: at the end of the one before", i, c.OpenNS.V, end)
			}
			end = c.OpenNS.V + int64(s.For)
		}
		// 540 ms of 40/s run on into the last stage, half of their tokens on average.
		if got, want := out.Cells[2].OutputTokens.V, 2*5*50+40*.5*25; math.Abs(got-want) > .15*want {
			t.Errorf("%.0f tokens in the last stage, want about %.0f", got, want)
		}
		streams := map[stream.Phase]int{}
		for _, rec := range r.file().Records {
			streams[rec.Phase]++
		}
		if streams[stream.InWin] != 50+160+10 || streams[stream.Warmup] != 20 {
			t.Errorf("records by phase %v, want 220 in the window and 20 before", streams)
		}
	})
}

// TestPacedInterrupted: what was measured before the interrupt stands.
func TestPacedInterrupted(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		cfg := offer()
		cfg.Stages = []Pace{{10, 5 * time.Second}, {10, 10 * time.Second}, {10, 5 * time.Second}}
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(11*time.Second, func() { cancel(errors.New("ctrl-c")) })
		begin := stamp.Now()
		out, err := r.start(ctx, cfg)
		if err != nil || out.Outcome != Stopped {
			t.Fatalf("outcome %s (%v), want %s", out.Outcome, err, Stopped)
		}
		if d := stamp.Now().Sub(begin); d > 13*time.Second {
			t.Errorf("the run ended after %v, want within 2 s of the interrupt", d)
		}
		var got []matrix.Status
		for _, c := range out.Cells {
			got = append(got, c.Status)
		}
		if d := cmp.Diff(got, []matrix.Status{matrix.Valid, matrix.Interrupted, matrix.Skipped}); d != "" {
			t.Errorf("cells (got -, want +):\n%s", d)
		}
		if c := out.Cells[1]; c.MeasuredS.V < 2 || c.MeasuredS.V > 5 || !c.TotalTokS.OK {
			t.Errorf("the interrupted stage has %.2f s and %v tok/s, want the time measured", c.MeasuredS.V, c.TotalTokS)
		}
	})
}

// TestPacedAgainstADeadServer: the load ends when nothing answers any more.
func TestPacedAgainstADeadServer(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		r.mortal(6 * time.Second)
		out, err := r.start(context.Background(), offer(20))
		if err == nil || !strings.Contains(err.Error(), "has stopped answering") || out.Outcome != Broken {
			t.Errorf("outcome %s (%v), want %s", out.Outcome, err, Broken)
		}
	})
}

func TestPacedSettings(t *testing.T) {
	for _, c := range []struct {
		name, says string
		change     func(*Config)
	}{
		{"both", "rate and stages", func(c *Config) { c.Stages = []Pace{{1, time.Minute}} }},
		{"a rate of nothing", "rate 0", func(c *Config) { c.Rates = []float64{0} }},
		{"a stage of nothing", "shorter than 1s", func(c *Config) { c.Rates, c.Stages = nil, []Pace{{1, 0}} }},
		{"no such arrival", `arrival "bursts"`, func(c *Config) { c.Arrival = "bursts" }},
		{"contexts of slots, without slots", "prefix distinct", func(c *Config) { c.Prefix = Distinct }},
		{"a search over stages", "slo", func(c *Config) {
			c.Rates, c.Stages, c.SLO = nil, []Pace{{1, time.Minute}}, SLO{TBT: time.Second}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := offer(1)
			c.change(&cfg)
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one about %q", err, c.says)
			}
		})
	}
}
