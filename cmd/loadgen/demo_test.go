//go:build !race

package main

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
)

// TestDemoAgreesWithTheEnginesOwnLog runs the demo as a user does, on real
// sockets and in real time, and compares every cell with what the simulated
// engine logged. It is built without the race detector, which slows the process
// so much that it would measure itself.
func TestDemoAgreesWithTheEnginesOwnLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	var out, progress bytes.Buffer
	s := streams{in: strings.NewReader(""), out: &out, err: &progress, stop: &stopper{}}
	dir := filepath.Join(t.TempDir(), "demo")
	begun := time.Now()
	run, truth, err := s.demo(t.Context(), dir, look{plain: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("the demo took %v, more than the minute it promises", took)
	}
	seen := map[string]int{}
	for i := range run.Cells {
		c := &run.Cells[i]
		seen[kindOf(c)]++
		switch {
		case c.Phase == matrix.Prefill:
			checkPrefill(t, c, run, truth)
		case c.TotalTokS.OK:
			checkDecode(t, c, run, truth)
		}
	}
	for _, kind := range []string{"prefill", "valid", "salvaged", "looped", "over_capacity"} {
		if seen[kind] == 0 {
			t.Errorf("no %s cell in the demo: %v", kind, seen)
		}
	}
	for _, name := range []string{"run.ndjson", "truth.json", "report.txt", "report.md", "report.csv", "report.json"} {
		if files, err := filepath.Glob(filepath.Join(dir, name)); err != nil || len(files) != 1 {
			t.Errorf("the demo left no %s", name)
		}
	}
	if !strings.Contains(out.String(), "All measurements") {
		t.Errorf("no matrix on stdout:\n%s", out.String())
	}
}

// oneArrival is the time within which hand-overs may reach the socket together.
const oneArrival = 100 * time.Microsecond

func kindOf(c *matrix.Cell) string {
	switch {
	case c.Phase == matrix.Prefill:
		return "prefill"
	case slices.ContainsFunc(c.Warnings, func(w matrix.Warning) bool { return w.Code == "salvaged" }):
		return "salvaged"
	}
	return string(c.Status)
}

// served are the engine's entries of a cell's streams, and which of them were
// the start burst.
func served(run *matrix.Run, truth *sim.Log, c *matrix.Cell) (streams []sim.Request, burst map[string]bool) {
	ids := map[string]bool{}
	burst = map[string]bool{}
	for i := range run.Records {
		r := &run.Records[i]
		if r.Context == c.Context && r.Concurrency == c.Concurrency && (r.Phase == "prime") == (c.Phase == matrix.Prefill) {
			ids[r.ID] = true
			burst[r.ID] = r.Seq == 0
		}
	}
	return slices.DeleteFunc(truth.Requests(), func(q sim.Request) bool { return !ids[q.ID] }), burst
}

// checkDecode holds a cell to the engine's log: total within 0.5 % or one event a
// stream, medians of TTFT and of gaps within 2 ms.
func checkDecode(t *testing.T, c *matrix.Cell, run *matrix.Run, truth *sim.Log) {
	t.Helper()
	// The header's instant is the same in wall clock and monotonic time.
	open := run.Header.Start.Sub(truth.Start.Round(0)) + time.Duration(c.OpenNS.V)
	end := open + time.Duration(c.MeasuredS.V*float64(time.Second))
	var tokens, seconds float64
	var ttft, gaps []float64
	largest := 0.0
	streams, burst := served(run, truth, c)
	for _, q := range streams {
		if burst[q.ID] {
			ttft = append(ttft, ms(q.FirstToken-q.Arrived))
		}
		clean := cleanEmits(q, open, end)
		for i, e := range clean {
			largest = max(largest, float64(e.Tokens))
			// After a stall of the machine the engine catches up: what it hands
			// over at once is one arrival at the socket, not many gaps.
			if i > 0 && e.At-clean[i-1].At > oneArrival {
				gaps = append(gaps, ms(e.At-clean[i-1].At))
			}
			if i > 0 || q.LoopToken < 0 {
				tokens += float64(e.Tokens)
			}
		}
		if q.LoopToken >= 0 && len(clean) > 0 {
			seconds += (clean[len(clean)-1].At - clean[0].At).Seconds()
		}
	}
	want := tokens / c.MeasuredS.V
	if c.Loops > 0 {
		want = float64(c.Concurrency) * tokens / seconds
	}
	slack := max(0.005*want, largest*float64(c.Concurrency)/c.MeasuredS.V)
	if d := c.TotalTokS.V - want; math.Abs(d) > slack {
		t.Errorf("%d × %d: total %.2f tok/s, the engine's log says %.2f ± %.2f", c.Context, c.Concurrency, c.TotalTokS.V, want, slack)
	}
	if d := c.TTFTMS.V - middle(ttft); math.Abs(d) > 2 {
		t.Errorf("%d × %d: TTFT p50 %.3f ms, the engine's log says %.3f", c.Context, c.Concurrency, c.TTFTMS.V, middle(ttft))
	}
	if d := c.Gaps.P50.V - middle(gaps); math.Abs(d) > 2 {
		t.Errorf("%d × %d: gap p50 %.3f ms, the engine's log says %.3f", c.Context, c.Concurrency, c.Gaps.P50.V, middle(gaps))
	}
	t.Logf("%5d × %d: total %8.2f (log %8.2f), TTFT %6.2f (%6.2f), gap %5.2f (%5.2f), %d streams",
		c.Context, c.Concurrency, c.TotalTokS.V, want, c.TTFTMS.V, middle(ttft), c.Gaps.P50.V, middle(gaps), len(streams))
}

// cleanEmits are a stream's hand-overs inside the window and before its loop.
func cleanEmits(q sim.Request, open, end time.Duration) []sim.Emit {
	var out []sim.Emit
	for _, e := range q.Emits {
		looping := q.LoopToken >= 0 && int(e.Total) > q.LoopToken
		if e.At >= open && e.At < end && e.Tokens > 0 && !looping {
			out = append(out, e)
		}
	}
	return out
}

func checkPrefill(t *testing.T, c *matrix.Cell, run *matrix.Run, truth *sim.Log) {
	t.Helper()
	var rates, ttft []float64
	samples, _ := served(run, truth, c)
	for _, q := range samples {
		if q.Cached*100 < q.Prompt {
			rates = append(rates, float64(q.Prompt)/(q.FirstToken-q.Arrived).Seconds())
			ttft = append(ttft, ms(q.FirstToken-q.Arrived))
		}
	}
	if len(rates) == 0 {
		t.Errorf("prefill %d: the engine's log has no cold request", c.Context)
		return
	}
	if d := c.TTFTMS.V - middle(ttft); math.Abs(d) > 2 {
		t.Errorf("prefill %d: TTFT %.3f ms, the engine's log says %.3f", c.Context, c.TTFTMS.V, middle(ttft))
	}
	t.Logf("prefill %5d: %8.1f tok/s (log %8.1f), TTFT %6.2f (%6.2f)", c.Context, c.TotalTokS.V, middle(rates), c.TTFTMS.V, middle(ttft))
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func middle(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
