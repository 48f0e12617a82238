package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// soakSettings are those of a soak.
type soakSettings struct {
	length  time.Duration
	streams int
	seed    uint64
	sample  time.Duration
}

const (
	// rssFlat bounds the difference between the first and the last quarter.
	rssFlat = 0.10
	// keepAlive is longer than the proxy keeps an unused upstream connection.
	keepAlive = 3 * time.Second
	// workersIdle is longer than its server keeps workers without a connection:
	// it looks every 10 s for those that were idle so long.
	workersIdle = 21 * time.Second
	// settleLimit is the longest that is waited for a proxy to be without traffic.
	settleLimit = time.Minute
	// goroutinesOver is how many more there may be than in a process that has
	// served for a moment only.
	goroutinesOver = 4
)

// smallRing makes the ring of records one that is full after seconds, so that its
// filling is not taken for a leak.
var smallRing = []string{"--ring", "512"}

var soakFlags = append([]string{"--idle-timeout", silenceLimit.String(), "--header-timeout", silenceLimit.String()}, smallRing...)

// soak keeps slots busy with what draw says.
func soak(ctx context.Context, program string, set soakSettings, w io.Writer) (*tally, error) {
	t := newTally()
	e, err := newEngine(t, 200*time.Millisecond)
	if err != nil {
		return nil, err
	}
	defer e.close()
	fresh, err := served(ctx, program, e, set)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, program, e.addr(), soakFlags...)
	if err != nil {
		return nil, err
	}
	defer p.end(t)
	fmt.Fprintf(w, "%d slots for %v, seed %d\n", set.streams, set.length, set.seed)

	var samples []sample
	var watch sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	told := time.Now()
	watch.Go(func() {
		samples = p.watch(watching, set.sample, t, func(s sample) {
			if s.at.Sub(told) >= time.Minute {
				told = s.at
				fmt.Fprintf(w, "%.1f MB, %d descriptors, %d threads, %d requests\n", s.rss, s.fds, s.threads, s.requests)
			}
		})
	})
	slots(ctx, p, t, set)
	stop()
	watch.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	after, _, err := p.settle(ctx, settleLimit, steady(workersIdle))
	if err != nil {
		return nil, err
	}
	first, last := quarters(samples, rss)
	open, closed := quarters(samples, fds)
	fmt.Fprintf(w, "memory: %.1f MB in the first quarter, %.1f in the last (%+.1f %%), %.1f at most; descriptors: %.0f, %.0f; after the end %d, %d in a process that served for a moment\n",
		first, last, 100*(last/first-1), most(samples, rss), open, closed, after.fds, fresh.fds)
	if !(math.Abs(last/first-1) <= rssFlat) {
		t.fault("memory", fmt.Errorf("%.1f MB in the first quarter, %.1f in the last", first, last))
	}
	if after.fds > fresh.fds {
		t.fault("descriptors", fmt.Errorf("%d after the end, %d in a process that served for a moment", after.fds, fresh.fds))
	}
	if n := e.open.Load(); n != 0 {
		t.fault("abort", fmt.Errorf("%d streams are open at the engine after the end", n))
	}
	if n, err := p.counter(ctx, "streamgauge_loops_total", ""); err != nil || n == 0 {
		t.fault("metrics", fmt.Errorf("%v loops counted of streams that loop: %w", n, err))
	}
	if err := p.unharmed(ctx, t); err != nil {
		return nil, err
	}
	n, err := p.goroutines()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "goroutines: %d at the end, %d in a process that served for a moment\n", n, fresh.goroutines)
	if n > fresh.goroutines+goroutinesOver {
		t.fault("goroutines", fmt.Errorf("%d at the end, %d in a process that served for a moment", n, fresh.goroutines))
	}
	return t, nil
}

// idle is what a proxy without traffic holds.
type idle struct{ fds, goroutines int }

// served is what one holds that has served a single wave of streams.
func served(ctx context.Context, program string, e *engine, set soakSettings) (idle, error) {
	p, err := start(ctx, program, e.addr(), soakFlags...)
	if err != nil {
		return idle{}, err
	}
	defer p.Stop(syscall.SIGTERM)
	t := newTally()
	if err := openAll(ctx, p, t, 1, set.streams, 10*time.Millisecond, 20); err != nil {
		return idle{}, err
	}
	if t.print(io.Discard) > 0 {
		return idle{}, fmt.Errorf("streams failed before any fault: %v", t.first)
	}
	// One that is not plain: what the ordinary path opens with its first request stays.
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+p.addr+"/v1/models", nil)
	if err != nil {
		return idle{}, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return idle{}, err
	}
	_ = resp.Body.Close()
	s, _, err := p.settle(ctx, settleLimit, steady(workersIdle))
	if err != nil {
		return idle{}, err
	}
	n, err := p.goroutines()
	return idle{s.fds, n}, err
}

// slots run requests until the time is over, and the last ones to their ends.
func slots(ctx context.Context, p *proxy, t *tally, set soakSettings) {
	var ids atomic.Uint64
	var wg sync.WaitGroup
	end := time.Now().Add(set.length)
	for slot := range set.streams {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(set.seed, uint64(slot)))
			c := client{addr: p.addr, tally: t}
			defer c.hangUp()
			for time.Now().Before(end) && ctx.Err() == nil && p.Alive() {
				a := draw(rng, ids.Add(1))
				err := c.do(ctx, a.s, a.how)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					t.fault(a.kind, err)
				default:
					t.count(a.kind)
				}
				if rng.IntN(2) == 0 {
					c.hangUp()
				}
			}
		})
	}
	wg.Wait()
}
