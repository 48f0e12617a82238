package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// cell runs one sustained-decode cell, docs/measuring.md section 4.
type cell struct {
	r    *runner
	step Step
	n    int // number of the step

	ttft    time.Duration // longest wait for a first token
	ready   time.Duration // longest wait for readiness
	slots   []*slot
	lags    lags // of all slots
	start   chan struct{}
	current []atomic.Pointer[string] // id of each slot's open stream
	aborts  sync.WaitGroup

	// Written by slots between streams, read by the controller.
	closing   atomic.Bool
	alive     atomic.Bool
	verdict   atomic.Pointer[verdict]
	over      chan struct{} // closed with the first verdict
	loops     atomic.Int64
	ended     atomic.Int64 // streams that ended by themselves
	loopTime  atomic.Int64 // ns of retired streams, and
	cleanTime atomic.Int64 // of that before the onset
	hasLooped []atomic.Bool

	window    window
	from, to  usage // of the process, around the window
	watch     *watch
	primes    []stream.Record
	began     stamp.Instant // start of the burst
	notReady  string
	undrained *verdict // what the barrier behind the cell said
}

// id names a stream: unique in a run, and in the proxy's ring unless two runs
// have one seed and salt.
func (c *cell) id(slot, seq int) string {
	return fmt.Sprintf("%s-c%d-s%d-%d", c.r.runID, c.n, slot, seq)
}

// give ends the cell; the first verdict counts, and none once the window is over.
func (c *cell) give(v verdict) {
	if c.closing.Load() {
		return
	}
	if c.verdict.CompareAndSwap(nil, &v) {
		close(c.over)
	}
}

// loopedOnce notes that a slot has looped and reports whether all have.
func (c *cell) loopedOnce(slot int) bool {
	c.hasLooped[slot].Store(true)
	for i := range c.hasLooped {
		if !c.hasLooped[i].Load() {
			return false
		}
	}
	return true
}

// decode runs the cell and returns it with its records.
func (r *runner) decode(ctx context.Context, step Step, n int) (matrix.Cell, []stream.Record, error) {
	c := &cell{
		r: r, step: step, n: n, start: make(chan struct{}), over: make(chan struct{}),
		current:   make([]atomic.Pointer[string], step.Concurrency),
		hasLooped: make([]atomic.Bool, step.Concurrency),
	}
	if v := r.barrier(ctx); v != nil {
		return c.unmeasured(ctx, *v)
	}
	tmpls, v := c.prime(ctx)
	if v != nil {
		return c.unmeasured(ctx, *v)
	}
	if v := c.connect(ctx, tmpls); v != nil {
		return c.unmeasured(ctx, *v)
	}
	c.measure(ctx)
	if v := c.verdict.Load(); ctx.Err() == nil && (v == nil || !v.fatal) {
		c.undrained = r.barrier(ctx)
	}
	return c.fold(ctx)
}

// unmeasured is the cell of a verdict that came before the start.
func (c *cell) unmeasured(ctx context.Context, v verdict) (matrix.Cell, []stream.Record, error) {
	out := c.r.blank(c.step)
	if err := context.Cause(ctx); err != nil {
		out.Raise(matrix.Interrupted, interruption(err), "the run was ended before the window opened")
		return out, c.primes, err
	}
	out.Raise(v.status, v.reason, v.message)
	if v.fatal {
		return out, c.primes, errors.New(v.message)
	}
	return out, c.primes, nil
}

// connect brings C connections up. A cell with fewer would not be the cell.
func (c *cell) connect(ctx context.Context, tmpls []*template) *verdict {
	c.r.stage(Connecting, 0)
	errs := make([]error, c.step.Concurrency)
	gauges := make([]*gauge, c.step.Concurrency)
	var wg sync.WaitGroup
	for i := range c.step.Concurrency {
		s := &slot{lane: c.r.newLane(&c.lags), c: c, n: i, tmpl: tmpls[i%len(tmpls)]}
		c.slots, gauges[i] = append(c.slots, s), &s.live
		wg.Go(func() { s.ready, errs[i] = c.r.client.Connect(ctx) })
	}
	wg.Wait()
	c.r.gauges(gauges)
	failed, first := 0, error(nil)
	for _, err := range errs {
		if err != nil {
			failed++
			first = err
		}
	}
	if failed == 0 {
		return nil
	}
	for _, s := range c.slots {
		if s.ready != nil {
			s.ready.Close()
		}
	}
	return &verdict{matrix.Failed, "connect", fmt.Sprintf("%d of %d connections failed: %s",
		failed, c.step.Concurrency, c.r.redact.String(first.Error())), failed == c.step.Concurrency}
}

// measure starts the burst, holds the window and ends the streams.
func (c *cell) measure(ctx context.Context) {
	streams, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var wg sync.WaitGroup
	for _, s := range c.slots {
		wg.Go(func() { s.work(streams) })
	}
	c.watch = c.r.newWatch()
	c.began = stamp.Now()
	close(c.start)
	c.hold(ctx)
	c.r.stage(Closing, 0)
	c.closing.Store(true)
	c.abortAll()
	if err := context.Cause(ctx); err != nil {
		end(err)
	} else {
		end(errClosed)
	}
	wg.Wait()
	c.aborts.Wait()
}

// hold waits for readiness, settles, and keeps the window open; it returns early
// with a verdict or when the run is ended.
func (c *cell) hold(ctx context.Context) {
	c.r.stage(Starting, 0)
	settled, ok := c.settled(ctx)
	if !ok {
		return
	}
	c.r.stage(Settling, settled)
	if !c.wait(ctx, settled) {
		return
	}
	c.from = takeUsage()
	c.window = window{open: settled, end: settled.Add(c.r.cfg.Duration)}
	c.r.stage(Measuring, c.window.end)
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	end := c.window.end // which an interrupt moves
	wg.Go(func() { c.watch.run(watching, end) })
	if !c.wait(ctx, c.window.end) {
		c.window.end = min(c.window.end, stamp.Now())
	}
	c.to = takeUsage()
	stop() // a scrape under way is given up: the streams are to be closed
	wg.Wait()
}

// wait sleeps until the instant; false: the cell or the run was ended first.
func (c *cell) wait(ctx context.Context, until stamp.Instant) bool {
	t := time.NewTimer(until.Sub(stamp.Now()))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.over:
	case <-ctx.Done():
	}
	return false
}

// pollEvery is how often readiness looks at the slots' atomics. What it finds
// carries the stream's own instants, so the pace costs no accuracy.
const pollEvery = 50 * time.Millisecond

// settled returns the instant at which the window opens: settle after every slot
// has produced a token since the start, with waiting at its baseline where the
// server tells; or the deadline.
func (c *cell) settled(ctx context.Context) (stamp.Instant, bool) {
	deadline := c.began.Add(c.ready)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	produced := make([]stamp.Instant, len(c.slots)) // first token since the start
	for {
		last := c.produced(produced)
		if last != 0 && c.watch.quiet(ctx, last) {
			return max(last, c.watch.quietAt).Add(c.r.cfg.Settle), true
		}
		if now := stamp.Now(); now >= deadline {
			c.giveUpReady(produced)
			return now, true
		}
		select {
		case <-tick.C:
		case <-c.over:
			return 0, false
		case <-ctx.Done():
			return 0, false
		}
	}
}

// produced notes each slot's first token and returns the last of them, 0 while
// one is missing.
func (c *cell) produced(at []stamp.Instant) stamp.Instant {
	var last stamp.Instant
	missing := false
	for i, s := range c.slots {
		if at[i] == 0 {
			at[i] = stamp.Instant(s.live.firstAt.Load())
		}
		missing = missing || at[i] == 0
		last = max(last, at[i])
	}
	if missing {
		return 0
	}
	return last
}

// giveUpReady notes why the window opens without readiness.
func (c *cell) giveUpReady(produced []stamp.Instant) {
	missing := 0
	for _, at := range produced {
		if at == 0 {
			missing++
		}
	}
	c.notReady = fmt.Sprintf("%d of %d slots had produced no token after %v", missing, len(c.slots), c.ready)
	if missing == 0 {
		c.notReady = fmt.Sprintf("the server still had requests waiting after %v", c.ready)
	}
}

// abortTime bounds the aborts at the close of a cell.
const abortTime = 2 * time.Second

// abortAll tells an engine that would go on generating to stop, while the
// streams are still open.
func (c *cell) abortAll() {
	if !c.r.info.CanAbort {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortTime)
	defer cancel()
	var wg sync.WaitGroup
	lanes := make(chan struct{}, 16)
	for i := range c.current {
		id := c.current[i].Load()
		if id == nil {
			continue
		}
		lanes <- struct{}{}
		wg.Go(func() {
			c.r.abort(ctx, *id)
			<-lanes
		})
	}
	wg.Wait()
}
