//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leave is how a client goes.
var leave = []struct {
	name string
	do   func(*net.TCPConn) error
}{
	{"FIN", (*net.TCPConn).Close},
	{"RST", func(c *net.TCPConn) error { _ = c.SetLinger(0); return c.Close() }},
	{"half-close", (*net.TCPConn).CloseWrite},
}

// flood has the engine write one endless chunk. It returns what ends that: the
// error of the writing, which is stop's deadline if nothing went wrong.
func (l *line) flood() (stop func() error) {
	over := make(chan error, 1)
	go func() {
		_, err := io.WriteString(l.engine, "fffffffffffff\r\n")
		for piece := []byte(strings.Repeat("x", 16<<10)); err == nil; {
			_, err = l.engine.Write(piece)
		}
		over <- err
	}()
	return func() error {
		_ = l.engine.SetWriteDeadline(time.Unix(1, 0))
		return <-over
	}
}

// full waits until the client's socket has taken what it can, and the engine's is
// full too: it is not read any more.
func (l *line) full() {
	l.t.Helper()
	eventually(l.t, "both sockets are full", func() bool {
		return queued(l.t, l.down, unix.SIOCOUTQ) > 0 && queuedOf(l.t, l.engine, unix.SIOCOUTQ) > 0
	})
}

func noError() error { return nil }

// TestClientLeaves: whichever way it goes and whatever is going on, its stream
// ends, and the engine's connection with a reset.
func TestClientLeaves(t *testing.T) {
	for _, phase := range []struct {
		name string
		into func(l *line) (stop func() error)
	}{
		{"silent", func(l *line) func() error { l.read(len(head)); return noError }},
		{"in a chunk", func(l *line) func() error {
			l.say("5\r\nhel")
			l.read(len(head) + 6)
			return noError
		}},
		{"flowing", func(l *line) func() error {
			stop := l.flood()
			l.read(64 << 10)
			return stop
		}},
		{"its socket full", func(l *line) func() error {
			stop := l.flood()
			l.full()
			return stop
		}},
	} {
		for _, how := range leave {
			t.Run(phase.name+", "+how.name, func(t *testing.T) {
				st := newStand(t, Limits{})
				l := st.open("")
				stop := phase.into(l)
				left := time.Now()
				if err := how.do(l.client); err != nil {
					t.Fatal(err)
				}
				if e := l.end(); !e.Gone || e.Whole {
					t.Errorf("end: got %+v, want the client gone", e)
				}
				t.Logf("after %v", time.Since(left))
				// A socket tells of its reset once: to a write or to a read.
				err := stop()
				_, rerr := io.Copy(io.Discard, l.engine)
				if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(rerr, syscall.ECONNRESET) {
					t.Errorf("the engine: got %v and %v, want a reset", err, rerr)
				}
				if n := st.loop.Open(); n != 0 {
					t.Errorf("got %d streams open, want none", n)
				}
			})
		}
	}
}

// TestHalfClosedStays: a client that may close its sending side gets the whole
// body; one that has closed both is found out by what is sent to it.
func TestHalfClosedStays(t *testing.T) {
	t.Run("half-close", func(t *testing.T) {
		st := newStand(t, Limits{})
		l := st.open("", halfClosedStays)
		if err := l.client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		want := head
		for range 3 {
			l.send("5\r\nhello\r\n")
			want += "5\r\nhello\r\n"
			if !l.open() {
				t.Fatal("the stream ended")
			}
		}
		l.say("0\r\n\r\n")
		if got, err := l.rest(); got != want+"0\r\n\r\n" || err != nil {
			t.Errorf("client: got %q, %v, want %q", got, err, want)
		}
		if e := l.end(); !e.Whole {
			t.Errorf("end: got %+v, want a whole body", e)
		}
	})
	t.Run("half-close, full", func(t *testing.T) {
		st := newStand(t, Limits{})
		l := st.open("", halfClosedStays)
		stop := l.flood()
		defer func() { _ = stop() }()
		l.full()
		if err := l.client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		l.read(4 << 20) // more than was queued: it goes on
		if !l.open() {
			t.Error("the stream ended")
		}
	})
	t.Run("RST, silent", func(t *testing.T) {
		st := newStand(t, Limits{})
		l := st.open("", halfClosedStays)
		l.read(len(head))
		if err := leave[1].do(l.client); err != nil {
			t.Fatal(err)
		}
		if e := l.end(); !e.Gone { // nothing more needs to be sent
			t.Errorf("end: got %+v, want the client gone", e)
		}
	})
	for _, how := range leave[:2] {
		t.Run(how.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			l := st.open("", halfClosedStays)
			l.read(len(head))
			if err := how.do(l.client); err != nil {
				t.Fatal(err)
			}
			for l.open() {
				if _, err := io.WriteString(l.engine, "5\r\nhello\r\n"); err != nil {
					break
				}
			}
			if e := l.end(); !e.Gone {
				t.Errorf("end: got %+v, want the client gone", e)
			}
		})
	}
}

// TestSlowClient: what is held for a client that does not read is one receive at
// most, its engine is not read meanwhile, and afterwards all goes on as if
// nothing had been.
func TestSlowClient(t *testing.T) {
	st := newStand(t, Limits{})
	l := st.open("")
	const size = 12 << 20
	framing := fmt.Sprintf("%x\r\n", size)
	body := make([]byte, size)
	for i := 0; i < size; i += 64 {
		body[i], body[i+1], body[i+2] = byte(i>>22), byte(i>>14), byte(i>>6)
	}
	written := make(chan error, 1)
	go func() {
		_, err := fmt.Fprintf(l.engine, "%s%s\r\n0\r\n\r\n", framing, body)
		written <- err
	}()
	l.full()
	// All that came is in one of the client's two queues, or held here. A byte
	// whose receipt is not yet acknowledged is in both, for a moment.
	eventually(t, "one receive at most is held", func() bool {
		n := len(l.observed())
		inKernel := queued(t, l.down, unix.SIOCOUTQ) + queuedOf(t, l.client, unix.SIOCINQ)
		held := len(head) + len(framing) + n - inKernel
		return held > 0 && held <= receiveRoom && n == len(l.observed())
	})
	if got, want := l.read(len(head)+len(framing)), head+framing; got != want {
		t.Errorf("client: got %q, want %q", got, want)
	}
	if got := l.read(size); got != string(body) {
		t.Error("client: the data are not those sent")
	}
	if got, _ := l.rest(); got != "\r\n0\r\n\r\n" {
		t.Errorf("client: got %q at the end", got)
	}
	if e := l.end(); !e.Whole {
		t.Errorf("end: got %+v, want a whole body", e)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if string(l.observed()) != string(body) {
		t.Error("observed: the data are not those sent")
	}
}

// TestEndWhileFull: an end that finds the client's socket full is told when the
// client has it; an engine that dies meanwhile does not take the rest away.
func TestEndWhileFull(t *testing.T) {
	for _, c := range []struct {
		name, tail string
		whole      bool
	}{{"whole", "\r\n0\r\n\r\n", true}, {"cut", "", false}} {
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			l := st.open("")
			const size = 12 << 20
			go func() {
				_, _ = fmt.Fprintf(l.engine, "%x\r\n%s%s", size, strings.Repeat("x", size), c.tail)
				_ = l.engine.Close()
			}()
			l.full()
			n, err := io.Copy(io.Discard, l.client)
			if want := int64(len(head) + len("c00000\r\n") + size + len(c.tail)); n != want || err != nil {
				t.Errorf("client: got %d bytes, %v, want %d", n, err, want)
			}
			if e := l.end(); e.Whole != c.whole || e.Gone || !c.whole && !errors.Is(e.Err, io.ErrUnexpectedEOF) {
				t.Errorf("end: got %+v, want whole %v", e, c.whole)
			}
		})
	}
}

// TestEndBehindPending: an end that is known while bytes wait for the client is told
// when it has them, whichever end it is.
func TestEndBehindPending(t *testing.T) {
	long := strings.Repeat("x", 16<<20) // more than a socket takes
	for _, c := range []struct {
		name, early, want string
		whole             bool
	}{
		{"whole", "5\r\nhello\r\n0\r\nX: 1\r\n\r\n", "5\r\nhello\r\n0\r\nX: 1\r\n\r\n", true},
		{"malformed", "5\r\nhello\r\nzz", "5\r\nhello\r\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			l := st.prepare(c.early)
			st.loop.Carry(l.s, []byte(long))
			if !l.open() {
				t.Fatal("it ended before the client had anything")
			}
			if got := string(l.observed()); got != "hello" {
				t.Errorf("observed: got %q, want hello", got)
			}
			if got := l.read(len(long) + len(c.want)); got != long+c.want {
				t.Errorf("client: got …%q, want …%q", got[len(long):], c.want)
			}
			if e := l.end(); e.Whole != c.whole || e.Gone || (e.Err == nil) != c.whole || errors.Is(e.Err, io.ErrUnexpectedEOF) {
				t.Errorf("end: got %+v, want whole %v", e, c.whole)
			}
			if got, _ := l.rest(); got != "" {
				t.Errorf("client: got %q behind the end", got)
			}
		})
	}
}

// What was called to a stream must not reach the one that has its memory next.
func TestCancelsLeaveWithTheirStream(t *testing.T) {
	gone, open := &Stream{live: true}, &Stream{live: true}
	l := &Loop{open: 2, cancels: []cancel{{gone, io.EOF}, {open, io.EOF}, {gone, io.EOF}}}
	l.left(gone)
	if gone.live || l.open != 1 || len(l.cancels) != 1 || l.cancels[0].s != open {
		t.Errorf("live %v, %d open, cancels %v; want one stream, and its cancel alone", gone.live, l.open, l.cancels)
	}
}
