package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// manySettings are those of -many.
type manySettings struct {
	streams []int
	hold    time.Duration // how long all of them are open
	every   time.Duration // between two events of a stream
	settle  time.Duration // longest wait for the memory afterwards
	over    float64       // MB above the start that it may keep
}

// perSecond is how many streams are begun in a second.
const perSecond = 1000

// many opens the numbers of streams, one after the other, through one process.
func many(ctx context.Context, program string, set manySettings, w io.Writer) (*tally, error) {
	t := newTally()
	e, err := newEngine(t, time.Hour) // a slow machine is no stale connection
	if err != nil {
		return nil, err
	}
	defer e.close()
	p, err := start(ctx, program, e.addr(), smallRing...)
	if err != nil {
		return nil, err
	}
	defer p.end(t)
	// The start is that of a proxy that has served: what it makes once is there.
	if err := openAll(ctx, p, t, 1, 64, set.every/10, 20); err != nil {
		return nil, err
	}
	e.most.Store(0)
	before, _, err := p.settle(ctx, settleLimit, steady(keepAlive))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "before: %.1f MB, %d descriptors\n", before.rss, before.fds)
	for i, n := range set.streams {
		ramp := time.Duration(n) * time.Second / perSecond
		events := int((ramp + set.hold) / set.every)
		watching, stop := context.WithCancel(ctx)
		var samples []sample
		var wg sync.WaitGroup
		wg.Go(func() { samples = p.watch(watching, 250*time.Millisecond, t, nil) })
		release := e.hold()
		wg.Go(func() {
			defer release()
			awaitOpen(watching, e, n)
		})
		err := openAll(ctx, p, t, uint64(1000000*(i+1)), n, set.every, events)
		stop()
		wg.Wait()
		if err != nil {
			return nil, err
		}
		open := e.most.Swap(0)
		if open != int64(n) {
			t.fault("open at once", fmt.Errorf("%d of %d streams", open, n))
		}
		peak := most(samples, rss)
		after, took, err := p.settle(ctx, set.settle, func(s sample) bool { return s.fds <= before.fds && s.rss <= before.rss+set.over })
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(w, "%d streams: %d open at once, %d events each; peak %.0f MB, %.1f KB a stream, %.0f descriptors; %v after their end %.1f MB, %d descriptors\n",
			n, open, events, peak, (peak-before.rss)*1024/float64(n), most(samples, fds), took.Round(time.Second/4), after.rss, after.fds)
		if after.fds > before.fds {
			t.fault("descriptors", fmt.Errorf("%d after %d streams, %d before", after.fds, n, before.fds))
		}
		if after.rss > before.rss+set.over {
			t.fault("memory", fmt.Errorf("%.1f MB, %v after %d streams; before them %.1f and %.0f may stay", after.rss, took.Round(time.Second), n, before.rss, set.over))
		}
	}
	return t, p.unharmed(ctx, t)
}

// openLimit is how long the last stream may take to be open.
const openLimit = 2 * time.Minute

// awaitOpen waits until n streams are open at the engine; who gives up is told
// by the number that were at most.
func awaitOpen(ctx context.Context, e *engine, n int) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(openLimit)
	for e.open.Load() < int64(n) {
		select {
		case <-tick.C:
		case <-limit:
			return
		case <-ctx.Done():
			return
		}
	}
}

// openAll runs n streams with ids from first on, perSecond begun in a second, to
// their ends.
func openAll(ctx context.Context, p *proxy, t *tally, first uint64, n int, every time.Duration, events int) error {
	var wg sync.WaitGroup
	begun := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := 0; i < n; {
		for ; i < n && time.Since(begun) >= time.Duration(i)*time.Second/perSecond; i++ {
			s := script{ID: first + uint64(i), Events: events, Text: 24, Every: every}
			wg.Go(func() {
				c := client{addr: p.addr, tally: t}
				defer c.hangUp()
				if err := c.do(ctx, s, conduct{}); err != nil {
					t.fault("stream", err)
					return
				}
				t.count("streams, whole")
			})
		}
		<-tick.C
	}
	wg.Wait()
	return ctx.Err()
}

// unharmed notes as faults what the proxy itself counted of them.
func (p *proxy) unharmed(ctx context.Context, t *tally) error {
	if !p.Alive() {
		t.fault("process", fmt.Errorf("the proxy ended:\n%s", p.tail()))
		return nil
	}
	for _, c := range []string{"streamgauge_panics_total", "streamgauge_records_dropped_total"} {
		n, err := p.counter(ctx, c, "")
		if err != nil {
			return err
		}
		if n > 0 {
			t.fault("metrics", fmt.Errorf("%s is %v", c, n))
		}
	}
	return nil
}
