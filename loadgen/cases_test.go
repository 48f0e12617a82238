package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

// record returns the only record of that slot's seq-th stream.
func (r *rig) record(slot, seq int) stream.Record {
	r.t.Helper()
	var found []stream.Record
	for _, rec := range r.file().Records {
		if rec.Phase != stream.Prime && rec.Slot == slot && rec.Seq == seq {
			found = append(found, rec)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("%d records of slot %d, stream %d; want one", len(found), slot, seq)
	}
	return found[0]
}

// TestR9: a kept connection that turns out to be closed costs a restarting slot
// one retry on a fresh connection, and TTFT counts from the retry's send.
func TestR9(t *testing.T) {
	short := sim.Script{Writes: sim.MustWrites(`ROLE@20 | C("a")@50 | C("b")@60 | FIN("length") U(20,2) D @70`)}
	for _, tt := range []struct {
		name   string
		first  sim.Script // of the slot's first connection
		second sim.Script // of what comes next, on the kept connection if it still is
		plays  int        // requests that the server has read by the slot's second stream
	}{
		// Nothing tells of it in memory before the next request is written.
		{"FIN with the reply's end", sim.Script{Writes: short.Writes, End: sim.Close}, steady(50 * time.Millisecond), 2},
		// Read, and closed 300 ms later without a byte, as by a server whose idle
		// limit is over.
		{"read and left unanswered", short, sim.Script{Framing: sim.ByItself, End: sim.Drop, EndAt: 300 * time.Millisecond}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scripted(t, nil, func(n int, _ *sim.Played) sim.Script {
				switch n {
				case 0:
					return tt.first
				case 1:
					return tt.second
				}
				return steady(50 * time.Millisecond)
			}, func(r *scriptRig) {
				out := r.run(oneCell(1))
				want(t, cellOf(t, out, matrix.Decode, 0, 1), matrix.Valid, "", "")
				if first := r.record(0, 0); first.End != stream.Completed || first.Retries != 0 {
					t.Errorf("the first stream: %s, %d retries; want it completed with none", first.End, first.Retries)
				}
				rec := r.record(0, 1)
				if rec.Retries != 1 || rec.TTFTNS.V != int64(50*time.Millisecond) {
					t.Errorf("%d retries, TTFT %v; want one and the 50 ms since its send", rec.Retries, time.Duration(rec.TTFTNS.V))
				}
				m := r.measured()
				if len(m) != tt.plays {
					t.Fatalf("the server read %d requests, want %d", len(m), tt.plays)
				}
				last := m[len(m)-1]
				if last.Conn == m[0].Conn {
					t.Error("the last request came on the connection that was closed")
				}
				if tt.plays > 2 && (m[1].Conn != m[0].Conn || !bytes.Equal(m[1].Body, last.Body)) {
					t.Error("the retry is not of what the kept connection was asked")
				}
			})
		})
	}
}

// TestR9SeenFIN: a FIN that has arrived before a lane's next request costs no
// retry. Only a real socket tells of it.
func TestR9SeenFIN(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const event = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n"
	reply := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(event), event)
	closed := make(chan struct{}, 2)
	served := make(chan error, 1)
	go func() {
		for range 2 {
			c, err := ln.Accept()
			if err != nil {
				served <- err
				return
			}
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				_, err = io.Copy(io.Discard, req.Body)
			}
			if err == nil {
				_, err = io.WriteString(c, reply)
			}
			if err = errors.Join(err, c.Close()); err != nil {
				served <- err
				return
			}
			closed <- struct{}{}
		}
		served <- nil
	}()
	r, err := newRunner(oneCell(1).withDefaults(), Deps{Target: &engine.Target{URL: "http://" + ln.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	n := r.newLane(&lags{})
	for i := range 2 {
		n.body = append(n.body[:0], "{}"...)
		out := n.run(t.Context(), shot{id: "x", ttft: time.Minute, do: r.client.Do})
		if out.rec.End != stream.Completed || out.rec.Retries != 0 {
			t.Errorf("request %d: %s (%s), %d retries; want it completed with none", i, out.rec.End, out.rec.Error, out.rec.Retries)
		}
		<-closed
	}
	if err := errors.Join(<-served, ln.Close()); err != nil {
		t.Error(err)
	}
	if got := r.client.Stats(); got.Dials != 2 {
		t.Errorf("%d connections, want a fresh one for the second request", got.Dials)
	}
}

// released are a stream's events as a middle box lets them go that passes on
// whole buffers of size bytes.
func released(s sim.Script, size int) sim.Script {
	var out []sim.Write
	var held []byte
	for _, w := range s.Writes {
		if held = append(held, w.Bytes...); len(held) >= size {
			out = append(out, sim.Write{At: w.At, Bytes: held})
			held = nil
		}
	}
	s.Writes = out
	return s
}

// TestR22: a box on the way that releases every 16 KB is told of; an engine that
// sends an event a step is not, nor one whose few events share a write.
func TestR22(t *testing.T) {
	for _, tt := range []struct {
		name  string
		size  int // bytes of a release
		burst bool
	}{
		{"16 KB", 16 << 10, true},
		{"event by event", 1, false},
		{"three events a write", 3 * len(words[0]), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scripted(t, nil, func(int, *sim.Played) sim.Script { return released(steady(50*time.Millisecond), tt.size) }, func(r *scriptRig) {
				c := cellOf(t, r.run(oneCell(2)), matrix.Decode, 0, 2)
				i := slices.IndexFunc(c.Warnings, func(w matrix.Warning) bool { return w.Code == "bursts" })
				if fired := i >= 0; fired != tt.burst {
					t.Fatalf("warnings %v, want bursts: %v", c.Warnings, tt.burst)
				}
				if !tt.burst {
					return
				}
				per := (16<<10)/len(words[0]) + 1 // events of a release, ± one: words differ in length
				text := c.Warnings[i].Message
				var share, pause float64
				var most int
				if _, err := fmt.Sscanf(text, "%f %% of the events came in bursts, up to %d at one instant, behind pauses of up to %f ms", &share, &most, &pause); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				// The first release in the window has no pause in it.
				if share < 80 || math.Abs(float64(most-per)) > 10 || math.Abs(pause-10*float64(most)) > 25 {
					t.Errorf("%q, want all but one release, about %d at once and %d ms apart", text, per, 10*per)
				}
				if math.Abs(c.TotalTokS.V-200) > 25 {
					t.Errorf("total %.1f tok/s, want the 200 that came, to a release", c.TotalTokS.V)
				}
			})
		})
	}
}

// TestR23: an answer that is no stream is a failed stream with the server's
// message, and the slot waits as told; a redirect is not followed; a stream that
// ends with its HTTP/1.0 connection is measured as any other.
func TestR23(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			busy := sim.Script{
				Status: status, Header: []string{"Content-Type: application/json", "Retry-After: 2"},
				Writes: []sim.Write{{Bytes: []byte(`{"error":{"message":"slow down, please","type":"rate_limit"}}`)}},
			}
			scripted(t, nil, func(n int, _ *sim.Played) sim.Script {
				if n == 0 {
					return busy
				}
				return steady(50 * time.Millisecond)
			}, func(r *scriptRig) {
				cfg := oneCell(1)
				cfg.MaxFailed = .9
				want(t, cellOf(t, r.run(cfg), matrix.Decode, 0, 1), matrix.Valid, "", "")
				m := r.measured()
				if d := m[1].Read.Sub(m[0].Read); d != 2*time.Second {
					t.Errorf("the slot came back after %v, want the 2s of Retry-After", d)
				}
				rec := r.record(0, 0)
				if int(rec.Status) != status || rec.End != stream.Failed || rec.Reason != "http_status" || !strings.Contains(string(rec.Error), "slow down, please") {
					t.Errorf("%d: %s (%s) %q, want failed (http_status) with the message", rec.Status, rec.End, rec.Reason, rec.Error)
				}
			})
		})
	}
	t.Run("307", func(t *testing.T) {
		away := sim.Script{Status: 307, Header: []string{"Location: http://elsewhere.test/v1/chat/completions"}}
		scripted(t, nil, func(int, *sim.Played) sim.Script { return away }, func(r *scriptRig) {
			out, err := r.start(context.Background(), oneCell(1))
			if err == nil || !strings.Contains(err.Error(), "http://elsewhere.test/v1/chat/completions, which is not followed") {
				t.Errorf("error %v, want one that names the target", err)
			}
			want(t, cellOf(t, out, matrix.Decode, 0, 1), matrix.Failed, "redirect", "http://elsewhere.test/v1/chat/completions")
			if n := len(r.measured()); n != 1 {
				t.Errorf("%d requests were sent, want one: nothing is tried again, or elsewhere", n)
			}
		})
	})
	t.Run("HTTP/1.0", func(t *testing.T) {
		scripted(t, nil, func(int, *sim.Played) sim.Script {
			s := sim.Script{Framing: sim.ByHTTP10, Writes: steady(50 * time.Millisecond).Writes[:200]}
			s.Writes = append(s.Writes, sim.MustWrites(`FIN("length") U(20,200) D @2050`)...)
			return s
		}, func(r *scriptRig) {
			c := cellOf(t, r.run(oneCell(2)), matrix.Decode, 0, 2)
			want(t, c, matrix.Valid, "", "")
			if c.TTFTMS.V != 50 || math.Abs(c.TBTMS.V-10) > .01 || math.Abs(c.TotalTokS.V-2*200/2.05) > 2 {
				t.Errorf("TTFT %v, TBT %v, total %v; want 50, 10 ms and 200 tokens each 2.05 s", c.TTFTMS.V, c.TBTMS.V, c.TotalTokS.V)
			}
			if rec := r.record(1, 0); rec.End != stream.Completed || rec.Tokens != 200 || rec.Retries != 0 {
				t.Errorf("%s with %d tokens, %d retries; want completed with 200 and none", rec.End, rec.Tokens, rec.Retries)
			}
			if m := r.measured(); m[0].Conn == m[2].Conn || m[1].Conn == m[2].Conn {
				t.Error("a connection that ended with its reply was used again")
			}
		})
	})
}

// TestR27: of two choices in one reply each token counts once.
func TestR27(t *testing.T) {
	var writes []sim.Write
	for i := range 400 {
		writes = append(writes, sim.Write{At: 50*time.Millisecond + time.Duration(i/2)*10*time.Millisecond + time.Duration(i%2)*time.Millisecond,
			Bytes: []byte(strings.Replace(string(words[i]), `"index":0`, fmt.Sprintf(`"index":%d`, i%2), 1))})
	}
	writes = append(writes, sim.MustWrites(`U(20,400) D @2050`)...)
	scripted(t, nil, func(int, *sim.Played) sim.Script { return sim.Script{Writes: writes} }, func(r *scriptRig) {
		cfg := oneCell(1)
		cfg.Extra = map[string]any{"n": 2}
		c := cellOf(t, r.run(cfg), matrix.Decode, 0, 1)
		want(t, c, matrix.Valid, "", "")
		rec := r.record(0, 0)
		if rec.Tokens != 400 || rec.GeneratedEvents != 400 || rec.TTFTNS.V != int64(50*time.Millisecond) {
			t.Errorf("%d tokens in %d events, TTFT %v; want 400 in 400, 50 ms", rec.Tokens, rec.GeneratedEvents, time.Duration(rec.TTFTNS.V))
		}
		if rec.Gaps.P50NS.V < 99e5 || rec.Gaps.P50NS.V > 101e5 {
			t.Errorf("median gap %d ns, want the 10 ms between events of one choice", rec.Gaps.P50NS.V)
		}
		if math.Abs(c.TotalTokS.V-400/2.05) > 2 {
			t.Errorf("total %.1f tok/s, want 400 tokens each 2.05 s", c.TotalTokS.V)
		}
	})
}

// TestR28: the arguments of a tool call are tokens, counted by the server's usage.
func TestR28(t *testing.T) {
	var writes []sim.Write
	for i := range 100 {
		text := fmt.Sprintf(`data: {"id":"r1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%s%d "}}]},"finish_reason":null}]}`,
			lexicon[i*37%len(lexicon)], i)
		writes = append(writes, sim.Write{At: 50*time.Millisecond + time.Duration(i)*20*time.Millisecond, Bytes: []byte(text + "\n\n")})
	}
	writes = append(writes, sim.MustWrites(`FIN("tool_calls") U(20,300) D @2050`)...)
	scripted(t, nil, func(int, *sim.Played) sim.Script { return sim.Script{Writes: writes} }, func(r *scriptRig) {
		c := cellOf(t, r.run(oneCell(1)), matrix.Decode, 0, 1)
		want(t, c, matrix.Valid, "", "")
		rec := r.record(0, 0)
		if rec.Tokens != 300 || rec.TokensFrom != stream.FromUsageFinal || rec.TTFTNS.V != int64(50*time.Millisecond) {
			t.Errorf("%d tokens from %s, TTFT %v; want 300 from usage_final, 50 ms", rec.Tokens, rec.TokensFrom, time.Duration(rec.TTFTNS.V))
		}
		if c.TTFTMS.V != 50 || math.Abs(c.TotalTokS.V-300/2.05) > 3 {
			t.Errorf("TTFT %v ms, total %v tok/s; want 50 and 300 tokens each 2.05 s", c.TTFTMS.V, c.TotalTokS.V)
		}
	})
}
