package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/enginetest"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// testSlots asks a llama-server of two slots for more streams than it has slots:
// once as it tells of itself, once as if nobody knew.
func testSlots(t *testing.T) {
	s := enginetest.Run(t, enginetest.LlamaCPP, enginetest.Options{Slots: 2, ContextTotal: 2 * modelLimit})
	st := raise(t, s)
	cfg := loadgen.Config{
		Contexts: []int{512}, Concurrency: []int{2, 4, 8}, MaxTokens: 8192, NoPrefill: true,
		Duration: 2 * time.Second, Settle: settleTime, Ask: "tell me more and more", Salt: t.Name(),
	}
	out, run := st.run(t, cfg, nil)
	compareTokens(t, run.Records, st.told, out.Header.Start).log(t)
	for i, want := range []matrix.Status{matrix.Valid, matrix.OverCapacity, matrix.OverCapacity} {
		c := &run.Cells[i]
		if c.Status != want {
			t.Errorf("concurrency %d: %s (%s), want %s", c.Concurrency, c.Status, c.Message, want)
		}
		if want == matrix.OverCapacity && (c.Reason != "max_running" || c.Streams != 0 || c.TotalTokS.OK) {
			t.Errorf("concurrency %d: reason %s, %d streams, total %v; want max_running, and nothing sent", c.Concurrency, c.Reason, c.Streams, c.TotalTokS)
		}
	}

	info, err := engine.Probe(t.Context(), st.target(t), "")
	if err != nil {
		t.Fatal(err)
	}
	info.MaxRunning = 0
	cfg.KVRule, cfg.Salt = matrix.KVOff, t.Name()+" unknown"
	out, run = st.run(t, cfg, &info)
	compareTokens(t, run.Records, st.told, out.Header.Start).log(t)
	two, four, eight := &run.Cells[0], &run.Cells[1], &run.Cells[2]
	if two.Status != matrix.Valid {
		t.Errorf("concurrency 2: %s (%s)", two.Status, two.Message)
	}
	if four.Status != matrix.OverCapacity || four.Reason != "admitted" || !strings.HasPrefix(four.Message, "admitted 2 of 4") || !four.TotalTokS.OK {
		t.Errorf("concurrency 4: %s, %s, %q, total %v; want admitted 2 of 4, with its numbers", four.Status, four.Reason, four.Message, four.TotalTokS)
	}
	if eight.Status != matrix.Skipped || eight.Streams != 0 {
		t.Errorf("concurrency 8: %s with %d streams, want it skipped", eight.Status, eight.Streams)
	}
}
