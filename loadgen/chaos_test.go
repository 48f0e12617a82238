package loadgen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
)

// mortal gives the rig's server a life: then its connections are reset and
// new ones refused, as when its process is killed.
func (r *rig) mortal(after time.Duration) {
	var mu sync.Mutex
	var conns []net.Conn
	dead := false
	dial := func(context.Context, string, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if dead {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		c, err := r.ln.Dial()
		conns = append(conns, c)
		return c, err
	}
	transport := memoryTransport(r.ln)
	transport.DialContext = dial
	r.deps.Target.Transport = transport
	r.deps.Dialer.Dial = dial
	time.AfterFunc(after, func() {
		mu.Lock()
		defer mu.Unlock()
		dead = true
		for _, c := range conns {
			_ = c.Close() // it may be closed
		}
		transport.CloseIdleConnections()
	})
}

// TestServerDiesAnywhere: at whatever instant the server is killed, the run is over
// within five seconds, says so in one sentence, and its file can be read.
func TestServerDiesAnywhere(t *testing.T) {
	cells := Config{Contexts: []int{0, 1024}, Concurrency: []int{1, 4}, Duration: time.Second, Settle: 200 * time.Millisecond, MaxTokens: 50}
	load := offer(10)
	load.Settle, load.Stages, load.Rates = time.Second, []Pace{{10, 4 * time.Second}, {20, 8 * time.Second}}, nil
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 20 {
		cfg, name := cells, "cells"
		if i%4 == 3 {
			cfg, name = load, "paced load"
		}
		at := time.Duration(rng.Int64N(int64(10 * time.Second)))
		t.Run(fmt.Sprintf("%s, after %v", name, at.Round(time.Millisecond)), func(t *testing.T) {
			bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
				r.mortal(at)
				begin := time.Now()
				out, err := r.start(context.Background(), cfg)
				if late := time.Since(begin.Add(at)); late > 5*time.Second {
					t.Errorf("the run went on for %v", late)
				}
				if err == nil || out.Header.Type != "" && out.Outcome != Broken {
					t.Errorf("outcome %q (%v), want %s", out.Outcome, err, Broken)
				}
				if out.Header.Type == "" {
					return // killed before anything was measured
				}
				run := r.file()
				if len(run.Bad) != 0 || run.End == nil || run.End.Outcome != Broken || len(run.Cells) != len(out.Cells) {
					t.Errorf("%d bad lines, end %+v, %d cells of %d", len(run.Bad), run.End, len(run.Cells), len(out.Cells))
				}
			})
		})
	}
}

// TestMetricsOutOfReach: where only the port of the metrics is gone, the run goes on.
func TestMetricsOutOfReach(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		metrics := memoryTransport(r.ln)
		dial, begin := metrics.DialContext, time.Now()
		metrics.DisableKeepAlives = true
		metrics.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if time.Since(begin) > 5*time.Second {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			return dial(ctx, network, addr)
		}
		r.deps.Target.Transport = metrics
		cfg := oneCell(2)
		cfg.Concurrency = []int{1, 2}
		out, err := r.start(context.Background(), cfg)
		if err != nil || out.Outcome != Done {
			t.Errorf("outcome %s (%v), want %s", out.Outcome, err, Done)
		}
		for _, c := range out.Cells {
			if c.Status == matrix.Failed && c.Reason != "drain" {
				t.Errorf("cell %d × %d: %s (%s)", c.Context, c.Concurrency, c.Reason, c.Message)
			}
		}
	})
}
