package loadgen

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
)

// Limits of the drain barrier (docs/measuring.md, section 4).
const (
	quietFor      = 500 * time.Millisecond
	drainDeadline = time.Minute
	drainPoll     = 100 * time.Millisecond
	goneFor       = 2 * time.Second // without a connection: nobody is there to drain
	scrapeTimeout = 5 * time.Second
)

// baseline is what the server runs without us.
type baseline struct {
	running, waiting float64 // NaN: the server does not tell
}

// tells reports whether the server says how many requests it runs.
func (b baseline) tells() bool { return !math.IsNaN(b.running) }

func (b baseline) reached(s engine.Sample) bool {
	return s.Running <= b.running && b.quiet(s)
}

// quiet reports whether nothing of ours waits for admission; a server that does
// not tell is never in the way.
func (b baseline) quiet(s engine.Sample) bool {
	return math.IsNaN(s.Waiting) || math.IsNaN(b.waiting) || s.Waiting <= b.waiting
}

// takeBaseline reads the gauges for as long as the barrier will ask them to be
// steady, and keeps the largest values: a foreign request that comes and goes is
// part of what the server runs without us.
func (r *runner) takeBaseline(ctx context.Context) baseline {
	b := baseline{math.NaN(), math.NaN()}
	if !r.info.HasMetrics {
		return b
	}
	begin := stamp.Now()
	for {
		s, err := r.scrape(ctx)
		if err != nil || math.IsNaN(s.Running) {
			return baseline{math.NaN(), math.NaN()}
		}
		b.running, b.waiting = larger(b.running, s.Running), larger(b.waiting, s.Waiting)
		if stamp.Now().Sub(begin) >= quietFor || !sleep(ctx, drainPoll) {
			return b
		}
	}
}

// larger returns the larger of two values, either of which may be NaN.
func larger(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

// barrier waits until the server runs no more than before the run, for half a
// second. It returns why it gave up, nil when the server is drained or does not
// tell: then our own streams have ended, and nobody knows more.
func (r *runner) barrier(ctx context.Context) *verdict {
	if !r.base.tells() || r.drained {
		return nil
	}
	fault := func(message string) *verdict { return &verdict{matrix.Failed, "drain", message, false} }
	r.stage(Draining, stamp.Now().Add(drainDeadline))
	begin := stamp.Now()
	var since, gone stamp.Instant // of being quiet, of being out of reach; 0: is not
	last := "no answer to the scrape"
	for {
		s, err := r.scrape(ctx)
		now := stamp.Now()
		if !engine.Is(err, engine.Unreachable) {
			gone = 0
		} else if gone == 0 {
			gone = now
		}
		switch {
		case gone != 0 && now.Sub(gone) >= goneFor:
			return r.gone(ctx, err)
		case err != nil:
			since, last = 0, r.redact.String(err.Error())
		case !r.base.reached(s):
			since, last = 0, fmt.Sprintf("%g running and %g waiting, %g and %g before the run", s.Running, s.Waiting, r.base.running, r.base.waiting)
		case since == 0:
			since = now
		case now.Sub(since) >= quietFor:
			r.drained = true
			return nil
		}
		if now.Sub(begin) >= drainDeadline {
			return fault(fmt.Sprintf("the server was not idle again within %v: %s", drainDeadline, last))
		}
		if !sleep(ctx, drainPoll) {
			return nil
		}
	}
}

// gone is the verdict on a server whose metrics are out of reach. They may have a
// port of their own: only if the server takes no connection either, the run ends.
func (r *runner) gone(ctx context.Context, err error) *verdict {
	message := r.redact.String(err.Error())
	ready, cerr := r.client.Connect(ctx)
	if cerr == nil {
		ready.Close()
		return &verdict{matrix.Failed, "drain", message, false}
	}
	if ctx.Err() != nil {
		return nil
	}
	return &verdict{matrix.Failed, "unreachable", fmt.Sprintf("the server at %s has stopped answering: %s", r.deps.Target, r.redact.String(cerr.Error())), true}
}

func (r *runner) scrape(ctx context.Context) (engine.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	return r.scraper.Scrape(ctx)
}

// sleep waits; false: the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
