package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// The heap may grow by headroom beyond what lives before the collector runs, or by
// leastPercent of it, whichever is more. A window allocates next to nothing but
// the slowly growing memories of its streams, so a heap twice as large would spare
// only a few cycles of some milliseconds; but a small one that may grow by a tenth
// only is collected several times a second, and that was a twelfth of all the work.
const (
	headroom     = 3 << 20 // bytes
	leastPercent = 10
	mostPercent  = 100
)

// weighEvery is how often the heap is looked at.
const weighEvery = time.Second

// thrifty keeps the collector to that until the func it returns is called; GOGC of
// the environment stands. It is not for the demo, where engine and proxy live in
// the same process and allocate all the time: there it held requests up by
// milliseconds.
func thrifty() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(mostPercent)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		tick := time.NewTicker(weighEvery)
		defer tick.Stop()
		for now := mostPercent; ; {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			metrics.Read(live)
			// To set it stops the world, for some microseconds.
			if p := percentFor(live[0].Value.Uint64()); 4*p < 3*now || 3*p > 4*now {
				now = p
				debug.SetGCPercent(p)
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
		debug.SetGCPercent(before)
	}
}

// percentFor is what a heap of so many live bytes may grow by.
func percentFor(live uint64) int {
	if live == 0 {
		return mostPercent
	}
	return int(min(max(100*headroom/live, leastPercent), mostPercent))
}
