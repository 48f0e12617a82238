package proxy

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/streamgauge/streamgauge/sim"
)

// TestReady: without any traffic /readyz follows the engine, by the proxy's own
// question; where it asks none, only what requests met counts.
func TestReady(t *testing.T) {
	for _, c := range []struct {
		name                 string
		every                time.Duration
		status               int // of the models answer
		start, back, lost    bool
		warnings, recoveries int
	}{
		{"asked", time.Minute, 200, false, true, false, 2, 1},
		{"a 401 is an answer too", time.Minute, 401, false, true, false, 2, 1},
		{"nothing asked", -1, 200, true, true, true, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				down.Store(true)
				upLn := fasthttputil.NewInmemoryListener()
				up := sim.ServeScript(upLn, sim.Always(sim.Script{Status: c.status, Framing: sim.ByLength}))
				defer up.Close()
				logs := &lockedBuffer{}
				p, err := New(Config{Upstreams: []string{"http://engine:80"}, ModelsEvery: c.every,
					Dial: func(context.Context, string, string) (net.Conn, error) {
						if down.Load() {
							return nil, errors.New("refused")
						}
						return upLn.Dial()
					}}, zerolog.New(logs))
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := p.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				ready := func(when string, want bool) {
					t.Helper()
					synctest.Wait()
					if why := p.notReady(); (why == "") != want {
						t.Errorf("%s: got %q, want ready %v", when, why, want)
					}
				}
				ready("the engine is away at the start", c.start)
				<-time.After(time.Minute)
				ready("it still is", c.start)
				down.Store(false)
				<-time.After(retryModels + time.Second)
				ready("the engine is back", c.back)
				if n := p.backends[0].state(0).Failures; n != 0 {
					t.Errorf("ready with %d failures in a row", n)
				}
				down.Store(true)
				<-time.After(time.Minute + time.Second)
				ready("the engine is away again", c.lost)
				if n := strings.Count(logs.String(), `"level":"warn","error"`); n != c.warnings {
					t.Errorf("%d warnings, want one each time it went away:\n%s", n, logs)
				}
				if n := strings.Count(logs.String(), "upstream answers"); n != c.recoveries {
					t.Errorf("%d recoveries told, want %d:\n%s", n, c.recoveries, logs)
				}
			})
		})
	}
}

// TestReadyAfterOneFailure: a request that fails makes the proxy ask at once
// whether the engine is there, not a whole --models-every later.
func TestReadyAfterOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memory(t, Config{ModelsEvery: time.Hour}, sim.Always(sim.Script{Framing: sim.ByLength}))
		defer func() { w.close(); <-time.After(time.Minute) }()
		synctest.Wait()
		if why := w.p.notReady(); why != "" {
			t.Fatalf("at the start: %s", why)
		}
		w.p.backends[0].failed()
		if why := w.p.notReady(); why != "no upstream answers" {
			t.Errorf("after a failure: got %q, want no upstream answers", why)
		}
		<-time.After(retryModels + time.Second)
		synctest.Wait()
		if why := w.p.notReady(); why != "" {
			t.Errorf("%v later: %s", retryModels, why)
		}
	})
}
