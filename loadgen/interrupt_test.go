package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

// TestInterrupt ends a run at random instants: it is over soon, its file is
// readable with a footer, and the cell it was in says so.
func TestInterrupt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		after := time.Duration(rng.Int64N(int64(40 * time.Second)))
		t.Run(after.String(), func(t *testing.T) {
			p := profile(t, "plain")
			p.Linger = time.Second
			p.Speed.TBT = sim.NewSurface([]sim.Sample{{Time: 50 * time.Millisecond}})
			bubble(t, p, sim.Options{}, func(r *rig) {
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(after, cancel)
				begin := time.Now()
				out, err := r.start(ctx, Config{
					Contexts: []int{2048}, Concurrency: []int{2, 8, 32}, Duration: 10 * time.Second, Settle: time.Second,
				})
				if d := time.Since(begin) - after; d > 5*time.Second {
					t.Errorf("the run went on for %v", d)
				}
				if out.Header.Type == "" {
					if !errors.Is(err, context.Canceled) || out.Outcome != Stopped {
						t.Errorf("outcome %q, error %v; want the interrupt", out.Outcome, err)
					}
					return
				}
				if err != nil || out.Outcome != Stopped {
					t.Errorf("outcome %s, error %v; want %s and none", out.Outcome, err, Stopped)
				}
				f := r.file()
				if f.End == nil || f.End.Outcome != Stopped || len(f.Bad) != 0 || len(f.Cells) != len(out.Cells) || len(f.Records) != out.Records {
					t.Errorf("run file: end %+v, %d bad lines, %d cells, %d records; want %d and %d", f.End, len(f.Bad), len(f.Cells), len(f.Records), len(out.Cells), out.Records)
				}
				for i, c := range f.Cells {
					if i < len(f.Cells)-1 && c.Status != matrix.Valid {
						t.Errorf("cell %d: %s (%s), want valid", i, c.Status, c.Message)
					}
				}
			})
		})
	}
}

// TestInterruptedWindow keeps the numbers of the part that was measured.
func TestInterruptedWindow(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(6*time.Second, cancel)
		out, err := r.start(ctx, oneCell(4))
		if err != nil {
			t.Fatal(err)
		}
		c := cellOf(t, out, matrix.Decode, 0, 4)
		want(t, c, matrix.Interrupted, "interrupt", "into the window of 10s")
		if c.MeasuredS.V < 3 || c.MeasuredS.V > 5 || c.TotalTokS.V < 395 || c.TotalTokS.V > 405 {
			t.Errorf("%.1f tok/s in %.2f s, want 400 in the time measured", c.TotalTokS.V, c.MeasuredS.V)
		}
		for _, rec := range r.file().Records {
			if rec.Phase == stream.Warmup && (rec.End != stream.Cancelled || rec.Reason != "interrupt") {
				t.Errorf("%s: %s (%s), want cancelled (interrupt)", rec.ID, rec.End, rec.Reason)
			}
		}
	})
}

func TestMaxTime(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		cfg := oneCell(1)
		cfg.MaxTime = 5 * time.Second
		out, err := r.start(context.Background(), cfg)
		if err != nil || out.Outcome != Stopped {
			t.Fatalf("outcome %s, error %v; want %s", out.Outcome, err, Stopped)
		}
		want(t, cellOf(t, out, matrix.Decode, 0, 1), matrix.Interrupted, "max_time", "")
	})
}

// TestR26: a connection that never comes up holds nothing: not the cell beyond
// its connect time, not the interrupt.
func TestR26(t *testing.T) {
	for _, interrupt := range []bool{false, true} {
		t.Run(fmt.Sprintf("interrupt %v", interrupt), func(t *testing.T) {
			bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
				var dials atomic.Int32
				dial := r.deps.Dialer.Dial
				r.deps.Dialer.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if dials.Add(1) == 3 {
						<-ctx.Done() // a full backlog: the SYN is not answered
						return nil, ctx.Err()
					}
					return dial(ctx, network, addr)
				}
				cfg := oneCell(1) // the dials are made one after the other
				cfg.Concurrency = []int{1, 2}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				begin := time.Now()
				if interrupt {
					time.AfterFunc(15*time.Second, cancel)
				}
				out, err := r.start(ctx, cfg)
				if interrupt {
					if d := time.Since(begin); d > 20*time.Second || out.Outcome != Stopped || err != nil {
						t.Errorf("outcome %s, error %v after %v", out.Outcome, err, d)
					}
					return
				}
				if err != nil || len(out.Cells) != 2 {
					t.Fatalf("%d cells, error %v", len(out.Cells), err)
				}
				want(t, out.Cells[1], matrix.Failed, "connect", "1 of 2 connections failed")
			})
		})
	}
}
