package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// watch samples the proxy until the context is over.
func (p *proxy) watch(ctx context.Context, every time.Duration, t *tally, each func(sample)) (all []sample) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return all
		}
		s, err := p.sample()
		if err != nil {
			t.fault("process", err)
			return all
		}
		s.requests = t.done()
		all = append(all, s)
		if each != nil {
			each(s)
		}
	}
}

func rss(s sample) float64 { return s.rss }
func fds(s sample) float64 { return float64(s.fds) }

// quarters are the means over the first and over the last quarter of the time.
func quarters(all []sample, of func(sample) float64) (first, last float64) {
	if len(all) < 4 {
		return 0, 0
	}
	begin, end := all[0].at, all[len(all)-1].at
	quarter := end.Sub(begin) / 4
	mean := func(in func(sample) bool) float64 {
		var sum, n float64
		for _, s := range all {
			if in(s) {
				sum += of(s)
				n++
			}
		}
		return sum / n
	}
	return mean(func(s sample) bool { return !s.at.After(begin.Add(quarter)) }), mean(func(s sample) bool { return !s.at.Before(end.Add(-quarter)) })
}

// most is the highest of the samples.
func most(all []sample, of func(sample) float64) float64 {
	if len(all) == 0 {
		return 0
	}
	return of(slices.MaxFunc(all, func(a, b sample) int {
		switch x, y := of(a), of(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}))
}

// settle waits, for a while at most, until the proxy is as wanted; it returns the
// last sample and how long that took.
func (p *proxy) settle(ctx context.Context, longest time.Duration, wanted func(sample) bool) (sample, time.Duration, error) {
	begun := time.Now()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := p.sample()
		if took := time.Since(begun); err != nil || wanted(s) || took > longest {
			return s, took, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, time.Since(begun), fmt.Errorf("waiting for the proxy to settle: %w", ctx.Err())
		}
	}
}

// steady is true of a process whose descriptors have been the same for a while.
func steady(while time.Duration) func(sample) bool {
	var last sample
	return func(s sample) bool {
		if s.fds != last.fds {
			last = s
		}
		return s.at.Sub(last.at) > while
	}
}
