package proxy

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestEbb(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps func(e *ebb)
		gives bool
	}{
		{"a burst that is over", func(e *ebb) { e.open(ebbFrom); e.open(0) }, true},
		{"most of it is enough", func(e *ebb) { e.open(4 * ebbFrom); e.open(ebbFrom) }, true},
		{"half of it is not", func(e *ebb) { e.open(4 * ebbFrom); e.open(2 * ebbFrom) }, false},
		{"a few requests are no burst", func(e *ebb) { e.open(ebbFrom - 1); e.open(0) }, false},
		{"the next burst comes first", func(e *ebb) { e.open(ebbFrom); e.open(0); <-time.After(ebbAfter / 2); e.open(ebbFrom) }, false},
		{"the proxy ends first", func(e *ebb) { e.open(ebbFrom); e.open(0); e.stop() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var e ebb
				before := collections()
				tt.steps(&e)
				<-time.After(2 * ebbAfter)
				if got := collections() - before; (got >= 2) != tt.gives {
					t.Errorf("got %d forced collections, want two: %v", got, tt.gives)
				}
				e.stop()
				if tt.gives && e.peak != 0 {
					t.Errorf("got peak %d afterwards, want 0", e.peak)
				}
			})
		})
	}
}

// collections counts those that were asked for.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumForcedGC
}
