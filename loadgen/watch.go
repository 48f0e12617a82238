package loadgen

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// scrapeEvery is how often the server's own counters are read while streams run.
const scrapeEvery = time.Second

// watch reads the server's own counters beside a cell, on a connection of its
// own, at most once a second. It is used by one goroutine at a time.
type watch struct {
	r       *runner
	last    stamp.Instant // of the last scrape
	quietAt stamp.Instant // when nothing waited any more, 0: from the start
	asked   bool

	running     float64 // sum over the scrapes in the window
	most        float64
	scrapes     int
	first, late engine.Sample // at the window's edges
}

func (r *runner) newWatch() *watch { return &watch{r: r} }

// quiet reports whether, at some instant from since on, nothing waited for
// admission. A server that does not tell, or does not answer, is taken at the
// streams' own word.
func (w *watch) quiet(ctx context.Context, since stamp.Instant) bool {
	if !w.r.base.tells() || math.IsNaN(w.r.base.waiting) {
		return true
	}
	now := stamp.Now()
	if w.asked && now.Sub(w.last) < scrapeEvery {
		return false
	}
	first := !w.asked
	w.asked, w.last = true, now
	s, err := w.r.scrape(ctx)
	if err == nil && !w.r.base.quiet(s) {
		return false
	}
	if w.quietAt = now; first {
		w.quietAt = since
	}
	return true
}

// run scrapes once a second until ctx ends, and files what came within the window.
func (w *watch) run(ctx context.Context, end stamp.Instant) {
	if !w.r.base.tells() {
		return
	}
	w.first, w.late = engine.Unknowns(), engine.Unknowns()
	t := time.NewTicker(scrapeEvery)
	defer t.Stop()
	for {
		if s, err := w.r.scrape(ctx); err == nil && stamp.Now() < end {
			w.note(s)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watch) note(s engine.Sample) {
	if w.scrapes == 0 {
		w.first = s
	}
	w.late = s
	w.scrapes++
	w.running += s.Running
	w.most = max(w.most, s.Running)
}

// tell adds the server's own figures to the cell.
func (w *watch) tell(c *matrix.Cell) {
	if w.scrapes == 0 {
		return
	}
	c.ActiveServer = stream.Some(w.running / float64(w.scrapes))
	if d := w.late.Preemptions - w.first.Preemptions; !math.IsNaN(d) {
		c.Preemptions = stream.Some(d)
		if d > 0 {
			c.Warn("preemptions", fmt.Sprintf("the server preempted %g requests in the window", d))
		}
	}
	draft := w.late.DraftTokens - w.first.DraftTokens
	accepted := w.late.AcceptedTokens - w.first.AcceptedTokens
	switch {
	case draft > 0 && !math.IsNaN(accepted):
		c.SpecAcceptance = stream.Some(accepted / draft)
	case !math.IsNaN(w.late.AcceptRate):
		c.SpecAcceptance = stream.Some(w.late.AcceptRate)
	}
	if over := w.most - w.r.base.running - float64(c.Concurrency); over > 0 {
		c.Warn("foreign_load", fmt.Sprintf(
			"the server ran up to %g requests while this cell had %d and %g ran before the run", w.most, c.Concurrency, w.r.base.running))
	}
	if w.r.base.running > 0 {
		c.Warn("foreign_load", fmt.Sprintf("%g requests of others were running before the run", w.r.base.running))
	}
}
