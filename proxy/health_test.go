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

	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/streamgauge/streamgauge/sim"
)

// TestEjection: an engine that cannot be reached is set aside after three
// failures, and taken back when it says that it is well, or after 5 s where it is
// not asked.
func TestEjection(t *testing.T) {
	for _, c := range []struct {
		name, path string
		sick       time.Duration // after its return it answers 503 for so long
		back       time.Duration // from its return until it is taken back, at most
		asked      bool
	}{
		{"not asked", "", 0, 5 * time.Second, false},
		{"asked", "/health", 0, 2 * time.Second, true},
		{"asked, and not well at once", "/health", 10 * time.Second, 12 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				var well time.Time
				upLn, dataLn, adminLn := fasthttputil.NewInmemoryListener(), fasthttputil.NewInmemoryListener(), fasthttputil.NewInmemoryListener()
				cfg := Config{Upstreams: []string{"http://engine:80"}, HealthPath: c.path,
					Dial: func(context.Context, string, string) (net.Conn, error) {
						if down.Load() {
							return nil, errors.New("refused")
						}
						return upLn.Dial()
					}}
				w := newWorld(t, cfg, func(_ int, p *sim.Played) sim.Script {
					if p.Target == "/health" && time.Now().Before(well) {
						return sim.Script{Status: 503, Framing: sim.ByLength}
					}
					return sim.Script{Framing: sim.ByLength}
				}, upLn, dataLn, adminLn, func() (net.Conn, error) { return dataLn.Dial() }, func() (net.Conn, error) { return adminLn.Dial() })
				defer func() { w.close(); <-time.After(time.Minute) }()
				up := func() string { return w.metric(`streamgauge_upstream_up{upstream="engine:80"}`) }

				<-time.After(20 * time.Second)
				if n := len(w.up.Played()); n != 0 || up() != "1" {
					t.Fatalf("an engine that is up was asked %d times, up is %s", n, up())
				}
				down.Store(true)
				for i, want := range []string{"1", "1", "0"} {
					if a := w.say(get("/x")); a.status != 502 {
						t.Fatalf("request %d: got %d, want 502", i, a.status)
					}
					if got := up(); got != want {
						t.Errorf("after %d failures up is %s, want %s", i+1, got, want)
					}
				}
				<-time.After(time.Second)
				back := time.Now()
				well = back.Add(c.sick)
				down.Store(false)
				for up() != "1" && time.Since(back) < time.Minute {
					<-time.After(100 * time.Millisecond)
				}
				if took := time.Since(back); took > c.back || took < c.sick {
					t.Errorf("taken back after %v, want at least %v and at most %v", took, c.sick, c.back)
				}
				asked := 0
				for _, p := range w.up.Played() {
					if p.Target == "/health" {
						asked++
					}
				}
				if (asked > 0) != c.asked {
					t.Errorf("it was asked %d times", asked)
				}
				if log := w.logs.String(); !strings.Contains(log, "set aside") {
					t.Errorf("the log does not tell: %s", log)
				}
			})
		})
	}
}

// With all set aside a request is still tried, and its answer takes the upstream
// back before any probe.
func TestAnAnswerTakesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		w := memory(t, Config{HealthPath: "/health", HealthEvery: time.Hour}, sim.Always(sim.Script{Framing: sim.ByLength}))
		defer func() { w.close(); <-time.After(time.Minute) }()
		dial := w.p.backends[0].client.Dialer.Dial
		w.p.backends[0].client.Dialer.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down.Load() {
				return nil, errors.New("refused")
			}
			return dial(ctx, network, addr)
		}
		down.Store(true)
		for range ejectAfter {
			w.say(get("/x"))
		}
		if a := w.ask("/readyz"); a.status != 503 {
			t.Errorf("/readyz is %d with nothing to send to, want 503", a.status)
		}
		down.Store(false)
		if a := w.say(get("/x")); a.status != 200 {
			t.Errorf("got %d, want the request tried all the same", a.status)
		}
		if a := w.ask("/readyz"); a.status != 200 {
			t.Errorf("/readyz is %d after an answer, want 200", a.status)
		}
	})
}
