//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

// TestIdleLimit: an engine's silence is limited, counted from its last byte.
func TestIdleLimit(t *testing.T) {
	const idle = 400 * time.Millisecond
	st := newStand(t, Limits{Idle: idle})
	l := st.open("")
	tick := time.NewTicker(idle / 8)
	defer tick.Stop()
	begun, last := time.Now(), time.Time{}
	for range 16 { // twice the limit in all
		<-tick.C
		last = time.Now()
		l.say("2\r\nok\r\n")
	}
	e := l.end()
	if !errors.Is(e.Err, os.ErrDeadlineExceeded) || e.Gone || e.Whole {
		t.Errorf("end: got %+v, want the deadline", e)
	}
	if took := time.Since(last); took < idle {
		t.Errorf("ended %v after the last byte, %v after the start: want %v of silence", took, time.Since(begun), idle)
	}
	if got, want := l.observed(), bytes.Repeat([]byte("ok"), 16); !bytes.Equal(got, want) {
		t.Errorf("observed: got %q, want all that came", got)
	}
}

// TestIdleLimitAfterAStall: what an engine sent while its client did not read was
// received late and is stamped long ago. Its silence begins when it was read.
func TestIdleLimitAfterAStall(t *testing.T) {
	const idle = 400 * time.Millisecond
	st := newStand(t, Limits{Idle: idle})
	l := st.prepare("")
	long := strings.Repeat("x", 16<<20) // more than the client's socket takes
	st.loop.Carry(l.s, []byte(long))
	l.say("5\r\nhello\r\n")
	<-time.After(2 * idle)
	if !l.open() {
		t.Fatal("the stream ended while its client was slow")
	}
	l.read(len(long) + len("5\r\nhello\r\n"))
	read := time.Now()
	if e := l.end(); !errors.Is(e.Err, os.ErrDeadlineExceeded) {
		t.Errorf("end: got %+v, want the deadline", e)
	}
	if took := time.Since(read); took < idle/2 {
		t.Errorf("ended %v after the client had all, want %v of silence", took, idle)
	}
}

// TestWriteLimit: a client that does not take its bytes is given up; the idle
// limit does not run meanwhile, since the engine is not read.
func TestWriteLimit(t *testing.T) {
	const limit = 900 * time.Millisecond // TCP itself may hold a flood up for a third of it
	st := newStand(t, Limits{Idle: limit * 2 / 3, Write: limit})
	l := st.open("")
	begun := time.Now()
	stop := l.flood()
	defer func() { _ = stop() }()
	e := l.end()
	if took := time.Since(begun); !e.Gone || e.Whole || took < limit {
		t.Errorf("end: got %+v after %v, want the client given up after %v", e, took, limit)
	}
}

// TestStoppedLoop: a loop that was elsewhere for longer than a limit, in the turn in
// which it looks at the limits, ends nobody for what lies in a socket.
func TestStoppedLoop(t *testing.T) {
	const limit = 300 * time.Millisecond
	flood := strings.Repeat("x", 32<<20) // more than two sockets take
	answered := func(with string) func(*stand) (*peer, *peer) {
		return func(st *stand) (*peer, *peer) {
			client, engine := st.asks()
			engine.say(with)
			client.wants(with)
			return client, engine
		}
	}
	for _, c := range []struct {
		name   string
		limits Limits
		begin  func(st *stand) (client, engine *peer) // up to the silence
		comes  func(client, engine *peer)             // while the loop is elsewhere
		rest   func(client, engine *peer)
	}{
		{
			"a body", Limits{Idle: limit},
			answered(sizedHead),
			func(_, engine *peer) { engine.say("01234") },
			func(client, engine *peer) {
				engine.say("56789")
				client.wants("0123456789")
			},
		},
		{
			"a head", Limits{Header: limit},
			(*stand).asks,
			func(_, engine *peer) { engine.say(okay) },
			func(client, _ *peer) { client.wants(okay) },
		},
		{
			"a client that reads again", Limits{Write: limit},
			func(st *stand) (*peer, *peer) {
				client, engine := st.asks()
				engine.say("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(flood)) + "\r\n\r\n")
				go func() { _, _ = io.WriteString(engine.TCPConn, flood) }()
				eventually(st.t, "the loop waits for the client", func() bool { return st.asked()&takes != 0 })
				return client, engine
			},
			func(client, _ *peer) {
				_ = client.SetReadDeadline(time.Now().Add(limit))
				_, _ = client.rest() // of what the loop has sent
				_ = client.SetReadDeadline(time.Now().Add(20 * time.Second))
			},
			func(client, _ *peer) { client.read(1 << 20) },
		},
		{
			"a client's next request", Limits{Await: limit},
			answered(okay),
			func(client, _ *peer) { client.say(request) },
			func(client, engine *peer) {
				engine.request()
				engine.say(okay)
				client.wants(okay)
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, c.limits)
			st.take()
			client, engine := c.begin(st)
			release := st.holdTurn(func() { st.loop.lookSoon() })
			c.comes(client, engine)
			<-time.After(limit + limit/4)
			release()
			c.rest(client, engine)
		})
	}
}

func TestEvery(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		want   time.Duration
	}{
		{"no limits", Limits{}, time.Second},
		{"long ones", Limits{Idle: time.Hour, Await: time.Minute}, time.Second},
		{"an eighth of the shortest", Limits{Idle: time.Hour, Await: time.Minute, Write: 80 * time.Millisecond}, 10 * time.Millisecond},
		{"not without a pause", Limits{Idle: time.Millisecond}, 2 * time.Millisecond},
	} {
		if got := tt.limits.every(); got != tt.want {
			t.Errorf("%s: got a look every %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestCancel: it ends a stream with its error, once; before and after it is no
// matter.
func TestCancel(t *testing.T) {
	why := errors.New("enough")
	st := newStand(t, Limits{})
	t.Run("while it flows", func(t *testing.T) {
		l := st.open("")
		l.send("5\r\nhello\r\n")
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() { st.loop.Cancel(l.s, why) })
		}
		wait.Wait()
		if e := l.end(); !errors.Is(e.Err, why) || e.Gone || e.Whole {
			t.Errorf("end: got %+v, want %v", e, why)
		}
		if got := string(l.observed()); got != "hello" {
			t.Errorf("observed: got %q, want hello", got)
		}
		if got, _ := l.rest(); got != head+"5\r\nhello\r\n" {
			t.Errorf("client: got %q, want no end", got)
		}
	})
	t.Run("after the end, its slot taken", func(t *testing.T) {
		old := st.open("")
		old.say("0\r\n\r\n")
		old.end()
		l := st.open("")
		if l.s.down.slot != old.s.down.slot {
			t.Fatalf("got slot %d, want %d again", l.s.down.slot, old.s.down.slot)
		}
		st.loop.Cancel(old.s, why)
		l.send("5\r\nhello\r\n")
		l.say("0\r\n\r\n")
		if e := l.end(); !e.Whole {
			t.Errorf("end: got %+v, want a whole body: another stream was cancelled", e)
		}
	})
	t.Run("never carried", func(t *testing.T) {
		l := st.open("")
		st.loop.Cancel(&Stream{}, why)
		l.say("0\r\n\r\n")
		if e := l.end(); !e.Whole {
			t.Errorf("end: got %+v, want a whole body: another stream was cancelled", e)
		}
	})
}

// TestClose cuts what is open, and what comes later.
func TestClose(t *testing.T) {
	st := newStand(t, Limits{})
	var open []*line
	for range 5 {
		l := st.open("")
		l.send("5\r\nhello\r\n")
		open = append(open, l)
	}
	st.listen()
	idle := st.client()
	if n := st.loop.Open(); n != 5 {
		t.Errorf("got %d open, want 5", n)
	}
	st.loop.Close()
	st.loop.Close()
	open = append(open, st.open("5\r\nhello\r\n"))
	for _, l := range open {
		if e := l.end(); !errors.Is(e.Err, errClosed) || e.Gone || e.Whole {
			t.Errorf("end: got %+v, want %v", e, errClosed)
		}
		if got, _ := l.rest(); got != head+"5\r\nhello\r\n" {
			t.Errorf("client: got %q, want no end", got)
		}
		if got := string(l.observed()); got != "hello" {
			t.Errorf("observed: got %q, want hello", got)
		}
		st.loop.Cancel(l.s, context.Canceled)
	}
	late := st.open(wholeBody, staysOpen)
	if e := late.end(); !e.Whole {
		t.Errorf("end: got %+v, want a whole body", e)
	}
	late.read(len(head) + len(wholeBody))
	st.loop.Dismiss()
	for _, c := range []net.Conn{idle, late.client} {
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("a client that was waited for: got %q, %v, want its end", b, err)
		}
	}
	st.listen()
	if c, err := net.Dial("tcp", st.addr.String()); err == nil {
		_ = c.Close()
		t.Error("a closed loop listens")
	}
	if n := st.loop.Open(); n != 0 {
		t.Errorf("got %d open, want none", n)
	}
	st.front.nobody()
}

// wholeBody is a body that comes with its head and is detached still.
const wholeBody = "2\r\nok\r\n0\r\nX: 1\r\n\r\n"

// TestAwait: a client is handed on when it sends, and closed in all other ends: one
// that has connected, and one whose stream is over.
func TestAwait(t *testing.T) {
	const silence = 50 * time.Millisecond
	for _, way := range []struct {
		name   string
		limits Limits // of the silence
		// ready returns a client, and what begins the waiting for it.
		ready func(st *stand) (c *net.TCPConn, wait func())
	}{
		{"connected", Limits{First: silence, Await: time.Hour}, func(st *stand) (*net.TCPConn, func()) {
			ln := listen(st.t)
			c := dial(st.t, ln.Addr())
			return c, func() { st.listenOn(ln) }
		}},
		{"its stream over", Limits{First: time.Hour, Await: silence}, func(st *stand) (*net.TCPConn, func()) {
			l := st.prepare(wholeBody, staysOpen)
			return l.client, func() {
				st.loop.Carry(l.s, []byte(head))
				if l.end().Whole {
					l.read(len(head) + len(wholeBody))
				}
			}
		}},
		{"its stream over, in the loop", Limits{First: time.Hour, Await: silence}, func(st *stand) (*net.TCPConn, func()) {
			l := st.prepare("", staysOpen, halfClosedStays)
			return l.client, func() {
				st.loop.Carry(l.s, []byte(head))
				_, _ = io.WriteString(l.engine, "0\r\n\r\n") // it fails when the client was reset
				if l.end().Whole {
					l.read(len(head) + len("0\r\n\r\n"))
				}
			}
		}},
	} {
		for _, c := range []struct {
			name   string
			do     func(st *stand, c *net.TCPConn) error
			handed string // what the one who gets it reads; "": it is closed
		}{
			{"it sends", func(_ *stand, c *net.TCPConn) error { _, err := io.WriteString(c, "GET"); return err }, "GET"},
			{"it sends and half-closes", func(_ *stand, c *net.TCPConn) error {
				_, err := io.WriteString(c, "GET")
				return errors.Join(err, c.CloseWrite())
			}, "GET"},
			{"it leaves", func(_ *stand, c *net.TCPConn) error { return c.CloseWrite() }, ""},
			{"it is reset", func(_ *stand, c *net.TCPConn) error { _ = c.SetLinger(0); return c.Close() }, ""},
			{"it is silent", func(*stand, *net.TCPConn) error { return nil }, ""},
			{"it is dismissed", func(st *stand, _ *net.TCPConn) error { st.loop.Dismiss(); return nil }, ""},
		} {
			for _, first := range []bool{false, true} { // it happens before the wait begins, or during it
				if first && (way.name == "connected" && c.name == "it is dismissed" || c.handed != "" && way.name == "its stream over, in the loop") {
					continue // nothing is listened to; and that is TestPipelined
				}
				t.Run(way.name+"/"+c.name, func(t *testing.T) {
					var limits Limits
					if c.name == "it is silent" {
						limits = way.limits
					}
					st := newStand(t, limits)
					client, wait := way.ready(st)
					if first {
						if err := c.do(st, client); err != nil {
							t.Fatal(err)
						}
					}
					begun := time.Now()
					wait()
					if !first {
						if c.name != "it is silent" {
							eventually(t, "it is waited for", func() bool { return st.sockets() == 1 })
						}
						if err := c.do(st, client); err != nil {
							t.Fatal(err)
						}
					}
					if c.handed == "" {
						if b, err := io.ReadAll(client); c.name != "it is reset" && (len(b) > 0 || err != nil) {
							t.Errorf("client: got %q, %v, want its end", b, err)
						}
						if took := time.Since(begun); limits != (Limits{}) && took < silence {
							t.Errorf("let go after %v, want %v", took, silence)
						}
						eventually(t, "it is let go", func() bool { return st.sockets() == 0 })
						st.front.nobody()
						return
					}
					got := st.front.serve()
					if got.early != c.handed || got.x != nil {
						t.Errorf("got %q, %v, want %q", got.early, got.x, c.handed)
					}
					if at, src := got.raw.Stamp(); at == 0 || at > stamp.Now() {
						t.Errorf("its stamp by %v is %v ahead", src, at.Sub(stamp.Now()))
					}
					_ = got.raw.Close()
					if n := st.sockets(); n != 0 {
						t.Errorf("got %d sockets, want none", n)
					}
				})
			}
		}
	}
}

// TestDismissLeavesStreams: they go on; only who is waited for goes, then and
// later.
func TestDismissLeavesStreams(t *testing.T) {
	st := newStand(t, Limits{})
	l := st.open("")
	st.listen()
	idle := st.client()
	st.loop.Dismiss()
	late := st.open(wholeBody, staysOpen)
	late.read(len(head) + len(wholeBody))
	for _, c := range []net.Conn{idle, late.client} {
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("got %q, %v, want its end", b, err)
		}
	}
	l.send("5\r\nhello\r\n")
	l.say("0\r\n\r\n")
	if e := l.end(); !e.Whole {
		t.Errorf("end: got %+v, want a whole body", e)
	}
	st.front.nobody()
}
