package loadgen

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

// want holds a cell's verdict against what it must be.
func want(t *testing.T, c matrix.Cell, status matrix.Status, reason, message string) {
	t.Helper()
	if c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		t.Errorf("L=%d C=%d: %s (%s): %q, want %s (%s) with %q", c.Context, c.Concurrency, c.Status, c.Reason, c.Message, status, reason, message)
	}
}

// TestR12: a server that ignores ignore_eos and stops after a few tokens, again
// and again. The cell keeps C by restarting; it is short only when a length was
// to be forced.
func TestR12(t *testing.T) {
	p := profile(t, "plain")
	p.EOS, p.DeafToEOS = sim.Lengths{Median: 7}, true
	for _, force := range []bool{true, false} {
		bubble(t, p, sim.Options{}, func(r *rig) {
			cfg := oneCell(4)
			cfg.ForceLength, cfg.MaxTokens = force, 2048
			c := cellOf(t, r.run(cfg), matrix.Decode, 0, 4)
			if force {
				want(t, c, matrix.Short, "short", "of the 2048 tokens asked")
			} else {
				want(t, c, matrix.Valid, "", "")
			}
			if math.Abs(c.AvgActive.V-4) > .01 || c.Completed.V < 300 {
				t.Errorf("%.2f active, %d completed; want 4 kept by restarting", c.AvgActive.V, c.Completed.V)
			}
			if !warned(c, "many_restarts") {
				t.Errorf("warnings %v, want many_restarts", c.Warnings)
			}
		})
	}
}

// TestR14: the server's own refusal of a length is capacity, not failure.
func TestR14(t *testing.T) {
	p := profile(t, "plain")
	p.MaxModelLen = 4096
	for _, dialect := range []sim.Dialect{sim.VLLM, sim.SGLang} {
		t.Run(string(dialect), func(t *testing.T) {
			p.Dialect = dialect
			bubble(t, p, sim.Options{}, func(r *rig) {
				info, err := engine.Probe(context.Background(), r.deps.Target, "")
				if err != nil {
					t.Fatal(err)
				}
				info.MaxModelLen = 0 // a server that does not tell its limit
				r.deps.Info = &info
				out := r.run(Config{Contexts: []int{2048, 3072}, Concurrency: []int{2}, MaxTokens: 1200, Duration: 2 * time.Second, Settle: time.Second})
				want(t, cellOf(t, out, matrix.Decode, 2048, 2), matrix.Valid, "", "")
				c := cellOf(t, out, matrix.Decode, 3072, 2)
				want(t, c, matrix.OverCapacity, "model_limit", "4096")
				if c.TotalTokS.OK {
					t.Errorf("total %v of a cell that was not run", c.TotalTokS.V)
				}
			})
		})
	}
}

// TestR15: a server that admits 16. The rest waits with or without headers; the
// cell says so and keeps its numbers, larger ones are skipped.
func TestR15(t *testing.T) {
	for _, late := range []sim.Late{sim.AtOnce, sim.AtAdmission} {
		p := profile(t, "plain")
		p.MaxRunning, p.LateHeaders = 16, late
		p.Speed.TBT = sim.NewSurface([]sim.Sample{{Time: 50 * time.Millisecond}})
		bubble(t, p, sim.Options{}, func(r *rig) {
			cfg := oneCell(16)
			cfg.Concurrency, cfg.KVRule, cfg.MaxTokens = []int{16, 64, 128}, matrix.KVOff, 20000
			out := r.run(cfg)
			want(t, cellOf(t, out, matrix.Decode, 0, 16), matrix.Valid, "", "")
			want(t, cellOf(t, out, matrix.Decode, 0, 128), matrix.Skipped, "larger", "concurrency 64")
			c := cellOf(t, out, matrix.Decode, 0, 64)
			want(t, c, matrix.OverCapacity, "admitted", "admitted 16 of 64")
			// A stream decodes from its first event to its last, so each of the 16
			// lacks up to one gap of 50 ms where the window cuts it.
			gap := .05 / c.MeasuredS.V
			if math.Abs(c.AvgActive.V-64) > .01 || c.AvgDecoding.V > 16.001 || c.AvgDecoding.V < 16*(1-gap)-.001 {
				t.Errorf("%.3f active and %.3f decoding, want 64, and 16 less a gap a stream", c.AvgActive.V, c.AvgDecoding.V)
			}
			if math.Abs(c.TotalTokS.V-320) > 2 {
				t.Errorf("total %.1f tok/s, want the measured 320", c.TotalTokS.V)
			}
			if !c.ActiveServer.OK || c.ActiveServer.V != 16 {
				t.Errorf("server's running gauge %v, want 16", c.ActiveServer)
			}
		})
	}
}

// TestR18: a first token after 700 s counts when the time for it is given; the
// stall limit is another one.
func TestR18(t *testing.T) {
	slow := sim.Script{Writes: sim.MustWrites(`C("a")@700000 | FIN("length") U(20,1) D @700001`)}
	for _, c := range []struct {
		name   string
		ttft   time.Duration
		status matrix.Status
		reason string
	}{
		{"long enough", 800 * time.Second, matrix.Valid, ""},
		{"too short", 600 * time.Second, matrix.Failed, "prime"},
	} {
		t.Run(c.name, func(t *testing.T) {
			scripted(t, func() sim.Script { return slow }, func(int, *sim.Played) sim.Script { return steady(700 * time.Second) }, func(r *scriptRig) {
				// The switches are not what is slow here.
				cfg := oneCell(1)
				cfg.TTFTTimeout = c.ttft
				out := r.run(cfg)
				got := cellOf(t, out, matrix.Decode, 0, 1)
				want(t, got, c.status, c.reason, "")
				if c.status == matrix.Valid && got.TTFTMS.V != 700e3 {
					t.Errorf("TTFT %.0f ms, want 700000", got.TTFTMS.V)
				}
			})
		})
	}
}

// TestR19: the next cell starts when the server is idle again, not when we have
// left; one that does not get idle fails it; SGLang is told to abort.
func TestR19(t *testing.T) {
	for _, c := range []struct {
		name    string
		dialect sim.Dialect
		linger  time.Duration
		drain   time.Duration // from the close of the first cell to the next prime
		status  matrix.Status
	}{
		{"waits for a slow server", sim.VLLM, 20 * time.Second, 20 * time.Second, matrix.Valid},
		{"gives up on one that keeps running", sim.VLLM, 10 * time.Minute, 2 * time.Minute, matrix.Failed},
		{"SGLang is told", sim.SGLang, 20 * time.Second, 0, matrix.Valid},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := profile(t, "plain")
			p.Dialect, p.Linger = c.dialect, c.linger
			p.Speed.TBT = sim.NewSurface([]sim.Sample{{Time: 50 * time.Millisecond}})
			bubble(t, p, sim.Options{}, func(r *rig) {
				cfg := oneCell(2)
				cfg.Concurrency = []int{2, 4}
				out := r.run(cfg)
				want(t, cellOf(t, out, matrix.Decode, 0, 2), matrix.Valid, "", "")
				second := cellOf(t, out, matrix.Decode, 0, 4)
				if c.status == matrix.Failed {
					want(t, second, matrix.Failed, "drain", "2 running")
					return
				}
				want(t, second, matrix.Valid, "", "")
				var last, next time.Duration // the first cell's streams end, the second's begin
				for _, q := range r.srv.Truth().Requests() {
					if strings.Contains(q.ID, "-c1-s") {
						last = max(last, q.Ended)
					}
					if strings.Contains(q.ID, "-c2-p") {
						next = q.Arrived
					}
				}
				if d := next - last; d < quietFor || d > quietFor+300*time.Millisecond {
					t.Errorf("the next cell begins %v after the server's last request ended, want %v of quiet", d, quietFor)
				}
				first := out.Cells[0]
				closed := time.Duration(first.OpenNS.V) + cfg.Duration
				if d := next + r.srv.Truth().Start.Sub(out.Header.Start) - closed; d < c.drain || d > c.drain+time.Second {
					t.Errorf("drained in %v, want %v and at most a second", d, c.drain)
				}
			})
		})
	}
}

// TestBusyPrime: a server that is busy when a cell is primed is asked again, at
// the time it names.
func TestBusyPrime(t *testing.T) {
	busy := sim.Script{Status: 503, Header: []string{"Content-Type: application/json", "Retry-After: 4"}, Writes: []sim.Write{{Bytes: []byte(`{"error":{"message":"busy"}}`)}}}
	n := 0
	scripted(t, func() sim.Script {
		if n++; n == 2 { // the first is the negotiation's
			return busy
		}
		return oneToken
	}, func(int, *sim.Played) sim.Script { return steady(50 * time.Millisecond) }, func(r *scriptRig) {
		begin := time.Now()
		want(t, cellOf(t, r.run(oneCell(1)), matrix.Decode, 0, 1), matrix.Valid, "", "")
		first := r.measured()[0].Read
		if d := first.Sub(begin); d < 4*time.Second || d > 5*time.Second {
			t.Errorf("the cell began after %v, want the 4s of Retry-After", d)
		}
	})
}

// TestFatalAnswers: what no other cell can do better ends the run, in one
// sentence, with what was measured in the file.
func TestFatalAnswers(t *testing.T) {
	body := func(status int, text string, header ...string) sim.Script {
		return sim.Script{Status: status, Header: append([]string{"Content-Type: application/json"}, header...), Writes: []sim.Write{{Bytes: []byte(text)}}}
	}
	for _, c := range []struct {
		name   string
		answer sim.Script
		reason string
		says   string
	}{
		{"the key is refused mid-run", body(401, `{"error":{"message":"Incorrect API key provided"}}`), "unauthorized", "refuses the key: Incorrect API key"},
		{"the model is gone", body(404, "{\"error\":{\"message\":\"The model `m` does not exist.\"}}"), "not_found", "does not exist"},
		{"a redirect names its target", body(307, ``, "Location: http://elsewhere.test/v1"), "redirect", "http://elsewhere.test/v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			scripted(t, nil, func(n int, _ *sim.Played) sim.Script {
				if n < 2 {
					return steady(50 * time.Millisecond)
				}
				return c.answer
			}, func(r *scriptRig) {
				cfg := oneCell(2)
				cfg.Concurrency = []int{2, 1, 4}
				out, err := r.start(context.Background(), cfg)
				if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, want one sentence with %q", err, c.says)
				}
				if out.Outcome != Broken || len(out.Cells) != 2 {
					t.Fatalf("outcome %s with %d cells, want %s after 2", out.Outcome, len(out.Cells), Broken)
				}
				want(t, out.Cells[0], matrix.Valid, "", "")
				want(t, out.Cells[1], matrix.Failed, c.reason, c.says)
				if f := r.file(); f.End == nil || f.End.Outcome != Broken || len(f.Cells) != 2 {
					t.Errorf("run file ends with %+v after %d cells", f.End, len(f.Cells))
				}
			})
		})
	}
}

// TestServerDies: refused connections end the run soon, and say so.
func TestServerDies(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		cfg := oneCell(4)
		cfg.Concurrency = []int{4, 2}
		var died time.Time
		time.AfterFunc(8*time.Second, func() {
			died = time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = r.srv.Shutdown(ctx)
		})
		out, err := r.start(context.Background(), cfg)
		if err == nil || !strings.Contains(err.Error(), "has stopped answering") {
			t.Errorf("error %v, want one that the server has stopped answering", err)
		}
		if d := time.Since(died); d > 5*time.Second {
			t.Errorf("the run went on for %v", d)
		}
		if len(out.Cells) != 1 {
			t.Fatalf("%d cells, want the one that broke", len(out.Cells))
		}
		want(t, out.Cells[0], matrix.Failed, "unreachable", "http://engine.test:8000")
		if f := r.file(); f.End == nil || f.End.Outcome != Broken {
			t.Errorf("run file ends with %+v", f.End)
		}
	})
}

// TestR10: silence after some tokens is a stall after its time, and the cell ends.
func TestR10(t *testing.T) {
	silent := sim.Script{Writes: sim.MustWrites(`C("a")@50 | C("b")@60 | C("c")@70`), End: sim.Hang}
	scripted(t, nil, func(int, *sim.Played) sim.Script { return silent }, func(r *scriptRig) {
		cfg := oneCell(1)
		cfg.StallTimeout = 2 * time.Second
		out := r.run(cfg)
		want(t, cellOf(t, out, matrix.Decode, 0, 1), matrix.Failed, "streams_failed", "no further token")
		rec := r.file().Records[1]
		if rec.End != stream.Failed || rec.Reason != "stall" || rec.EndNS.V != int64(2070*time.Millisecond) {
			t.Errorf("%s (%s) after %v, want failed (stall) 2 s after the last token", rec.End, rec.Reason, time.Duration(rec.EndNS.V))
		}
	})
}

func TestForeignLoad(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		l, err := newRunner(oneCell(1).withDefaults(), r.deps)
		if err != nil {
			t.Fatal(err)
		}
		// Someone else's stream, for as long as the run takes.
		l.switches, l.info = engine.Defaults(engine.VLLM, false), engine.Info{Model: "plain"}
		ctx, stop := context.WithCancel(context.Background())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			n := l.newLane(&lags{})
			n.body, _ = l.switches.Body(l.bodyInput("x", 20000, "", false))
			n.run(ctx, shot{id: "foreign", ttft: time.Minute, do: l.client.Do})
		}()
		<-time.After(time.Second)
		out := r.run(oneCell(2))
		stop()
		<-gone
		l.close()
		if len(out.Header.Warnings) != 1 || out.Header.Warnings[0].Code != "foreign_load" {
			t.Errorf("header warnings %v, want foreign_load", out.Header.Warnings)
		}
		c := cellOf(t, out, matrix.Decode, 0, 2)
		want(t, c, matrix.Valid, "", "")
		if !warned(c, "foreign_load") || c.ActiveServer.V != 3 {
			t.Errorf("warnings %v, server ran %v; want foreign_load and 3", c.Warnings, c.ActiveServer.V)
		}
	})
}
