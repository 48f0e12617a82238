package proxy

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// ebb gives memory back to the system when a burst of requests is over. The
// runtime would keep what the burst took until its next collection, and a proxy
// that has nothing to do collects every two minutes.
type ebb struct {
	mu    sync.Mutex
	peak  int         // requests open at once since memory was last given back
	timer *time.Timer // runs while the burst may be over
	done  sync.WaitGroup
}

const (
	// ebbFrom is the number of open requests from which they are a burst.
	ebbFrom = 16
	// ebbAfter is how long it must be over: collecting more often would cost
	// more than the memory is worth.
	ebbAfter = 2 * time.Second
)

// open notes how many requests are open.
func (e *ebb) open(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.peak = max(e.peak, n)
	over := e.peak >= ebbFrom && n <= e.peak/4
	switch {
	case over && e.timer == nil:
		e.done.Add(1)
		e.timer = time.AfterFunc(ebbAfter, e.give)
	case !over && e.timer != nil:
		e.halt()
	}
}

// halt takes the timer back; the caller holds mu.
func (e *ebb) halt() {
	if e.timer != nil && e.timer.Stop() {
		e.timer = nil
		e.done.Done()
	}
}

func (e *ebb) give() {
	defer e.done.Done()
	// Twice, since the pools let go in two steps of what they hold.
	runtime.GC()
	debug.FreeOSMemory()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.peak, e.timer = 0, nil
}

// stop ends it.
func (e *ebb) stop() {
	e.mu.Lock()
	e.halt()
	e.mu.Unlock()
	e.done.Wait()
}
