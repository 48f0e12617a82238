//go:build !race

package main

import (
	"bytes"
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
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
	// The header's instant is the same in wall clock and monotonic time.
	d := demoRun{run: run, truth: truth, start: run.Header.Start.Sub(truth.Start.Round(0))}
	seen := map[string]int{}
	for i := range run.Cells {
		c := &run.Cells[i]
		seen[kindOf(c)]++
		switch {
		case c.Phase == matrix.Prefill:
			d.checkPrefill(t, c)
		case c.TotalTokS.OK:
			d.checkDecode(t, c)
		}
	}
	d.checkWays(t)
	for _, kind := range []string{"prefill", "valid", "salvaged", "over_capacity"} {
		if seen[kind] == 0 {
			t.Errorf("no %s cell in the demo: %v", kind, seen)
		}
	}
	// The engine chooses by the number of sequences at a first token which streams
	// loop. Where a stall parts two that began together one is spared, and then most
	// of the cell can be clean: see checkLoops.
	if n := seen["looped"] + seen["salvaged"]; n < 2 {
		t.Errorf("%d cells with loops in the demo, want 2: %v", n, seen)
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

// demoRun is a run of the demo beside what its engine did.
type demoRun struct {
	run   *matrix.Run
	truth *sim.Log
	start time.Duration // of the run, since the engine's
	ways  []float64     // ms that TTFT are longer than by the engine's log
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

// served is one stream of a cell: what the run file says of it, and what the
// engine does.
type served struct {
	rec *stream.Record
	log sim.Request
}

// servedOf are a cell's streams, slot by slot in the order in which they ran.
func servedOf(run *matrix.Run, truth *sim.Log, c *matrix.Cell) []served {
	logs := map[string]sim.Request{}
	for _, q := range truth.Requests() {
		logs[q.ID] = q
	}
	var out []served
	for i := range run.Records {
		r := &run.Records[i]
		q, arrived := logs[r.ID]
		if arrived && r.Context == c.Context && r.Concurrency == c.Concurrency && (r.Phase == stream.Prime) == (c.Phase == matrix.Prefill) {
			out = append(out, served{r, q})
		}
	}
	slices.SortStableFunc(out, func(a, b served) int {
		return cmp.Or(cmp.Compare(a.rec.Slot, b.rec.Slot), cmp.Compare(a.rec.Seq, b.rec.Seq))
	})
	return out
}

// window is a cell's, by the engine's clock.
type window struct{ open, end time.Duration }

// checkDecode holds a cell to the engine's log: total within 0.5 % or one event a
// stream, the median of gaps within 2 ms, and the first tokens as firstTokens says.
func (d *demoRun) checkDecode(t *testing.T, c *matrix.Cell) {
	t.Helper()
	w := window{open: d.start + time.Duration(c.OpenNS.V)}
	w.end = w.open + time.Duration(c.MeasuredS.V*float64(time.Second))
	streams := servedOf(d.run, d.truth, c)
	var burst []served
	var gaps []float64
	largest := 0.0
	for _, s := range streams {
		if s.rec.Seq == 0 {
			burst = append(burst, s)
		}
		clean := w.clean(s.log)
		for i, e := range clean {
			largest = max(largest, float64(e.Tokens))
			// After a stall of the machine the engine catches up: what it hands
			// over at once is one arrival at the socket, not many gaps.
			if i > 0 && e.At-clean[i-1].At > oneArrival {
				gaps = append(gaps, ms(e.At-clean[i-1].At))
			}
		}
	}
	tokens, seconds := w.count(streams)
	want := tokens / c.MeasuredS.V
	if c.Loops > 0 || slices.ContainsFunc(streams, func(s served) bool { return s.rec.Window != nil && s.rec.Window.Trimmed }) {
		want = float64(c.Concurrency) * tokens / seconds
		checkLoops(t, c, seconds/(float64(c.Concurrency)*c.MeasuredS.V))
	}
	slack := max(0.005*want, largest*float64(c.Concurrency)/c.MeasuredS.V)
	if diff := c.TotalTokS.V - want; math.Abs(diff) > slack {
		t.Errorf("%d × %d: total %.2f tok/s, the engine's log says %.2f ± %.2f", c.Context, c.Concurrency, c.TotalTokS.V, want, slack)
	}
	ttft := d.firstTokens(t, c, burst)
	if diff := c.Gaps.P50.V - middle(gaps); math.Abs(diff) > 2 {
		t.Errorf("%d × %d: gap p50 %.3f ms, the engine's log says %.3f", c.Context, c.Concurrency, c.Gaps.P50.V, middle(gaps))
	}
	t.Logf("%5d × %d: total %8.2f (log %8.2f), TTFT %6.2f (%6.2f), gap %5.2f (%5.2f), %d streams",
		c.Context, c.Concurrency, c.TotalTokS.V, want, c.TTFTMS.V, ttft, c.Gaps.P50.V, middle(gaps), len(streams))
}

// checkLoops holds the status of a cell with loops to the share of its stream-time
// that is clean by the engine's log, unless that is near the limit of one half.
func checkLoops(t *testing.T, c *matrix.Cell, share float64) {
	t.Helper()
	if math.Abs(c.CleanShare.V-share) > 0.02 {
		t.Errorf("%d × %d: %.3f of the stream-time is clean, by the engine's log %.3f", c.Context, c.Concurrency, c.CleanShare.V, share)
	}
	want := matrix.Valid
	if share < 0.5 {
		want = matrix.Looped
	}
	if c.Status != want && math.Abs(share-0.5) > 0.02 {
		t.Errorf("%d × %d: %s with %.3f of the stream-time clean, want %s", c.Context, c.Concurrency, c.Status, share, want)
	}
}

// count is the clean tokens of a cell and the stream-time that they took: of a
// stream that looped, from its first token in the window to its last before the
// loop, without the former; of any other from the end of the one before it in its
// slot to its own. Behind a loop time begins with a first token, which is not
// counted.
func (w window) count(streams []served) (tokens, seconds float64) {
	for i, s := range streams {
		clean := w.clean(s.log)
		from, to := w.open, w.end
		first := i == 0 || streams[i-1].rec.Slot != s.rec.Slot
		afterLoop := !first && w.loops(streams[i-1].log)
		switch {
		case first:
			from = max(from, s.log.Arrived)
		case !afterLoop:
			from = max(from, streams[i-1].log.Ended)
		}
		if s.log.Ended >= 0 && i+1 < len(streams) && streams[i+1].rec.Slot == s.rec.Slot {
			to = min(to, s.log.Ended)
		}
		switch {
		case len(clean) == 0 && (afterLoop || w.loops(s.log)):
			continue
		case w.loops(s.log):
			to = clean[len(clean)-1].At
			if first || afterLoop || clean[0].At > s.log.FirstToken {
				from, clean = clean[0].At, clean[1:]
			}
		case afterLoop && s.log.FirstToken >= w.open:
			from, clean = clean[0].At, clean[1:]
		}
		for _, e := range clean {
			tokens += float64(e.Tokens)
		}
		seconds += max(to-from, 0).Seconds()
	}
	return tokens, seconds
}

// loops reports whether a stream was in its loop before the window closed.
func (w window) loops(q sim.Request) bool {
	return q.LoopToken >= 0 && slices.ContainsFunc(q.Emits, func(e sim.Emit) bool { return e.At < w.end && int(e.Total) > q.LoopToken })
}

// clean are a stream's hand-overs inside the window and before its loop.
func (w window) clean(q sim.Request) []sim.Emit {
	var out []sim.Emit
	for _, e := range q.Emits {
		looping := q.LoopToken >= 0 && int(e.Total) > q.LoopToken
		if e.At >= w.open && e.At < w.end && e.Tokens > 0 && !looping {
			out = append(out, e)
		}
	}
	return out
}

// firstTokens compares each TTFT with the engine's log, to which it adds the way of
// the request and that of the token. Both take what the scheduler gives them: that
// they are not negative is exact, how long they are is for ways to judge. The
// cell's own TTFT is the median of these, exactly. It returns the log's median.
func (d *demoRun) firstTokens(t *testing.T, c *matrix.Cell, of []served) float64 {
	t.Helper()
	var ours, engines []float64
	for _, s := range of {
		if s.rec.TTFTNS.OK != (s.log.FirstToken >= 0) {
			t.Errorf("%s: first token %v, by the engine's log %v", s.rec.ID, s.rec.TTFTNS, s.log.FirstToken)
		}
		if !s.rec.TTFTNS.OK || s.log.FirstToken < 0 {
			continue
		}
		sent := d.start + time.Duration(s.rec.SentNS.V)
		first := sent + time.Duration(s.rec.TTFTNS.V)
		there, back := s.log.Arrived-sent, first-s.log.FirstToken
		if there < 0 || back < 0 {
			t.Errorf("%s: sent %v before it arrived, its first token received %v after it was made", s.rec.ID, there, back)
		}
		d.ways = append(d.ways, ms(there+back))
		ours = append(ours, ms(first-sent))
		engines = append(engines, ms(s.log.FirstToken-s.log.Arrived))
	}
	if got, want := c.TTFTMS.V, middle(ours); math.Abs(got-want) > 1e-6 {
		t.Errorf("%s %d × %d: TTFT %.6f ms, the records' median is %.6f", c.Phase, c.Context, c.Concurrency, got, want)
	}
	return middle(engines)
}

// checkWays holds the ways of requests and first tokens to 2 ms. A busy machine makes
// some longer, a mistake in what TTFT is would make all so: hence their lower
// quartile.
func (d *demoRun) checkWays(t *testing.T) {
	t.Helper()
	if len(d.ways) == 0 {
		t.Fatal("no stream has a first token")
	}
	slices.Sort(d.ways)
	if quartile := d.ways[len(d.ways)/4]; quartile > 2 {
		t.Errorf("three of four TTFT are more than %.3f ms longer than by the engine's log, want 2", quartile)
	}
	t.Logf("TTFT less the engine's: %.3f ms to %.3f ms, median %.3f", d.ways[0], d.ways[len(d.ways)-1], middle(d.ways))
}

func (d *demoRun) checkPrefill(t *testing.T, c *matrix.Cell) {
	t.Helper()
	cold := slices.DeleteFunc(servedOf(d.run, d.truth, c), func(s served) bool { return s.log.Cached*100 >= s.log.Prompt })
	if len(cold) == 0 {
		t.Errorf("prefill %d: the engine's log has no cold request", c.Context)
		return
	}
	ttft := d.firstTokens(t, c, cold)
	t.Logf("prefill %5d: %8.1f tok/s, TTFT %6.2f (%6.2f)", c.Context, c.TotalTokS.V, c.TTFTMS.V, ttft)
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func middle(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
