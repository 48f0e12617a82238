package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/enginetest"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

const (
	windowTime = 5 * time.Second
	settleTime = time.Second
)

// testEndless runs the matrix of varied text, past the proxy and through it. The
// prefill rows are run once.
func testEndless(t *testing.T, s *enginetest.Server, f facts) {
	for _, direct := range []bool{true, false} {
		t.Run(map[bool]string{true: "direct", false: "through the proxy"}[direct], func(t *testing.T) {
			st := raise(t, s)
			st.direct = direct
			st.endless(t, f, loadgen.Config{
				Contexts: []int{512, 1024, 2048}, Concurrency: []int{1, 2, 4, 8}, MaxTokens: f.maxTokens, NoPrefill: direct,
				Duration: 3 * time.Second, Settle: settleTime / 2, PrefillTime: 3 * time.Second, Ask: "tell me more and more", Salt: t.Name(),
			})
		})
	}
}

// endless runs a matrix in which every cell is valid, and holds all of it
// against the engine's word.
func (st *stage) endless(t *testing.T, f facts, cfg loadgen.Config) {
	out, run := st.run(t, cfg, nil)
	sum := compareTokens(t, run.Records, st.told, out.Header.Start)
	sum.log(t)
	if sum.aborted == 0 || sum.completed == 0 {
		t.Errorf("%d completed and %d aborted streams: both kinds are to be compared", sum.completed, sum.aborted)
	}
	comparePrompts(t, run, out.Plan.Limit)
	for i := range run.Records {
		r := &run.Records[i]
		if r.Tokens > 0 && r.TokensFrom != f.from {
			t.Errorf("%s: tokens from %s, want %s", r.ID, r.TokensFrom, f.from)
		}
		if slices.ContainsFunc(r.Loops, stream.Loop.Acts) {
			t.Errorf("%s: a loop was found in varied text: %+v", r.ID, r.Loops)
		}
	}
	decode := 0
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Status != matrix.Valid {
			t.Errorf("%s cell %d/%d is %s (%s): %s", c.Phase, c.Context, c.Concurrency, c.Status, c.Reason, c.Message)
			continue
		}
		if c.Phase == matrix.Prefill {
			continue
		}
		decode++
		compareWindow(t, c, run.Records, st.told, out.Header.Start)
		if !c.RequestTokS.OK || !c.TTFTMS.OK || !c.TBTMS.OK || c.AvgActive.V < 0.9*float64(c.Concurrency) {
			t.Errorf("cell %d/%d lacks numbers: per request %v, TTFT %v, between tokens %v, active %v", c.Context, c.Concurrency, c.RequestTokS, c.TTFTMS, c.TBTMS, c.AvgActive)
		}
		d := c.ProxyDiff
		if st.direct {
			if d != nil || c.Stamps != "kernel" {
				t.Errorf("cell %d/%d: stamps %s, the proxy's part is %+v; it is not in the path", c.Context, c.Concurrency, c.Stamps, d)
			}
		} else if d == nil || d.Missing > 0 || d.Joined != c.Streams {
			t.Errorf("cell %d/%d of %d streams: the proxy's part is %+v", c.Context, c.Concurrency, c.Streams, d)
		}
	}
	if want := len(cfg.Contexts) * len(cfg.Concurrency); decode != want {
		t.Errorf("%d valid decode cells, want %d", decode, want)
	}
}
