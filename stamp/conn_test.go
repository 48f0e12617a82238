package stamp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// tcpPair returns the two ends of a loopback connection: plain, and as
// accepted by a wrapped listener.
func tcpPair(t testing.TB, user bool) (peer *net.TCPConn, c *Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := WrapListener(ln, user).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dialed.Close()
		accepted.Close()
	})
	return dialed.(*net.TCPConn), accepted.(*Conn)
}

func needKernel(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("kernel stamps need Linux")
	}
}

// warm switches stamping on for the host and keeps it on for the test. The
// kernel does it in deferred work: packets come without a stamp until then.
func warm(t testing.TB) {
	t.Helper()
	peer, c := tcpPair(t, false)
	buf := make([]byte, 1)
	for begin := time.Now(); time.Since(begin) < 5*time.Second; {
		peer.Write(buf)
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
		if _, src := c.Stamp(); src == Kernel {
			return
		}
	}
	t.Fatal("no kernel stamp in 5 s of reads")
}

func TestStampLiesBetweenWriteAndRead(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		user         bool
		want         Source
	}{
		{"kernel", "the segment is stamped inside the sender's write", false, Kernel},
		{"user", "asked for", true, User},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.user {
				needKernel(t)
				warm(t)
			}
			peer, c := tcpPair(t, tt.user)
			buf := make([]byte, 64)
			for i := range 200 {
				before := Now()
				peer.Write([]byte("token"))
				written := Now()
				n, err := c.Read(buf)
				after := Now()
				if err != nil || string(buf[:n]) != "token" {
					t.Fatalf("read %d: got %q, %v, want token", i, buf[:n], err)
				}
				at, src := c.Stamp()
				if src != tt.want {
					t.Fatalf("read %d: got source %v, want %v", i, src, tt.want)
				}
				if at < before-Instant(pairNoise) || at > after {
					t.Fatalf("read %d: got stamp %v from the write, want within [0, %v]", i, at.Sub(before), after.Sub(before))
				}
				if src == Kernel && at > written+Instant(pairNoise) {
					t.Fatalf("read %d: got stamp %v after the write returned, want inside it (loopback)", i, at.Sub(written))
				}
			}
		})
	}
}

// A merged segment carries the newest stamp, and all of it carries the same.
func TestStampOfLateReads(t *testing.T) {
	needKernel(t)
	warm(t)
	peer, c := tcpPair(t, false)
	var last Instant
	for range 3 {
		last = Now()
		peer.Write(bytes.Repeat([]byte("x"), 200))
	}
	written := Now()
	buf := make([]byte, 200)
	var prev Instant
	for i := range 3 {
		if _, err := io.ReadFull(c, buf); err != nil {
			t.Fatal(err)
		}
		at, src := c.Stamp()
		if src != Kernel {
			t.Fatalf("read %d: got source %v, want kernel", i, src)
		}
		if at < prev {
			t.Errorf("read %d: got a stamp %v older than the read before, want none", i, prev.Sub(at))
		}
		if at > written+Instant(pairNoise) {
			t.Errorf("read %d: got a stamp %v after the last write, want before", i, at.Sub(written))
		}
		prev = at
	}
	if prev < last-Instant(pairNoise) {
		t.Errorf("last read: got a stamp %v before the last write began, want within it", last.Sub(prev))
	}
}

// What a read leaves in a merged segment must not take a later stamp, or the
// bytes before it would look like a segment of their own. So a small buffer gets
// all that was there, in pieces, with one stamp.
func TestStampOfAPartlyReadSegment(t *testing.T) {
	needKernel(t)
	warm(t)
	peer, c := tcpPair(t, false)
	var sent []byte
	for i := range 8 { // below the initial congestion window: all of it is there
		msg := bytes.Repeat([]byte{byte(i)}, 1000)
		sent = append(sent, msg...)
		peer.Write(msg)
	}
	buf := make([]byte, 999)
	n, err := c.Read(buf)
	if err != nil || n != len(buf) {
		t.Fatalf("got %d, %v, want a full buffer", n, err)
	}
	got := append([]byte(nil), buf...)
	first, _ := c.Stamp()
	peer.Write([]byte("later")) // grows the segment, if it is still there
	if err := c.Quiet(); !errors.Is(err, ErrDirty) {
		t.Errorf("Quiet: got %v, want ErrDirty", err)
	}
	for len(got) < len(sent) {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
		if at, src := c.Stamp(); at != first || src != Kernel {
			t.Fatalf("after %d bytes: got %v %v, want the first read's instant: it is one segment", len(got), at.Sub(first), src)
		}
	}
	if !bytes.Equal(got, sent) {
		t.Error("got other bytes than were sent")
	}
	if n, err := c.Read(buf); string(buf[:n]) != "later" || err != nil {
		t.Errorf("got %q, %v, want later", buf[:n], err)
	}
	if at, _ := c.Stamp(); at <= first {
		t.Errorf("next segment: got %v, want a later instant", at.Sub(first))
	}
}

func TestReadWriteOnClosedPeer(t *testing.T) {
	for _, user := range []bool{false, true} {
		name := map[bool]string{false: "kernel", true: "user"}[user]
		t.Run(name+"/FIN", func(t *testing.T) {
			peer, c := tcpPair(t, user)
			peer.Write([]byte("bye"))
			peer.Close()
			got, err := io.ReadAll(c)
			if err != nil || string(got) != "bye" {
				t.Errorf("got %q, %v, want bye, nil", got, err)
			}
		})
		t.Run(name+"/RST", func(t *testing.T) {
			peer, c := tcpPair(t, user)
			peer.SetLinger(0)
			peer.Close()
			_, err := c.Read(make([]byte, 1))
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("got %v, want ECONNRESET", err)
			}
			var op *net.OpError
			if !errors.As(err, &op) || op.Op != "read" {
				t.Errorf("got %#v, want a *net.OpError of read", err)
			}
		})
		t.Run(name+"/closed here", func(t *testing.T) {
			_, c := tcpPair(t, user)
			c.Close()
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v, want net.ErrClosed", err)
			}
		})
		t.Run(name+"/empty buffer", func(t *testing.T) {
			_, c := tcpPair(t, user)
			if n, err := c.Read(nil); n != 0 || err != nil {
				t.Errorf("got %d, %v, want 0, nil without waiting", n, err)
			}
		})
	}
}

func TestAbortIsAReset(t *testing.T) {
	peer, c := tcpPair(t, false)
	blocked := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		blocked <- err
	}()
	if err := c.Abort(); err != nil {
		t.Fatal(err)
	}
	if err := <-blocked; !errors.Is(err, net.ErrClosed) {
		t.Errorf("blocked read: got %v, want net.ErrClosed", err)
	}
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("peer: got %v, want ECONNRESET", err)
	}
}

func TestDeadlineOnSocket(t *testing.T) {
	peer, c := tcpPair(t, false)
	buf := make([]byte, 8)
	c.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past deadline: got %v, want os.ErrDeadlineExceeded", err)
	}
	c.SetReadIdle(10 * time.Millisecond)
	_, err := c.Read(buf)
	var ne net.Error
	if !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("read idle: got %v, want a timeout", err)
	}
	c.SetReadIdle(0)
	peer.Write([]byte("late"))
	if n, err := c.Read(buf); string(buf[:n]) != "late" || err != nil {
		t.Errorf("after SetReadIdle(0): got %q, %v, want late, nil", buf[:n], err)
	}
}

func TestReadIdleIsRearmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, raw := net.Pipe()
		c := Wrap(raw, false)
		c.SetReadIdle(time.Second)
		go func() {
			for range 5 {
				<-time.After(900 * time.Millisecond)
				peer.Write([]byte("x"))
			}
		}()
		begin := time.Now()
		buf := make([]byte, 1)
		for i := range 5 {
			if _, err := c.Read(buf); err != nil {
				t.Fatalf("read %d: got %v, want nil: the peer was silent for 0.9 s only", i, err)
			}
			at, src := c.Stamp()
			want := FromTime(begin).Add(time.Duration(i+1) * 900 * time.Millisecond)
			if at != want || src != User {
				t.Errorf("read %d: got %v %v, want %v user", i, at.Sub(FromTime(begin)), src, want.Sub(FromTime(begin)))
			}
		}
		if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("silence: got %v, want os.ErrDeadlineExceeded", err)
		}
		if got, want := time.Since(begin), 5500*time.Millisecond; got != want {
			t.Errorf("gave up after %v, want %v", got, want)
		}
		peer.Close()
		if _, err := c.Read(buf); !errors.Is(err, io.EOF) {
			t.Errorf("closed: got %v, want io.EOF, also under a deadline", err)
		}
		c.Close()
	})
}

func TestWriteLimitIsPerWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, raw := net.Pipe()
		c := Wrap(raw, false)
		c.SetWriteLimit(time.Second)
		go func() {
			buf := make([]byte, 1)
			for range 3 {
				<-time.After(900 * time.Millisecond)
				peer.Read(buf)
			}
		}()
		for i := range 3 {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatalf("write %d: got %v, want nil", i, err)
			}
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("nobody reads: got %v, want os.ErrDeadlineExceeded", err)
		}
		c.SetWriteLimit(0)
		go peer.Read(make([]byte, 1))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Errorf("after SetWriteLimit(0): got %v, want nil", err)
		}
		peer.Close()
		c.Close()
	})
}

func TestQuiet(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(peer *net.TCPConn)
		want error
	}{
		{"nothing happened", func(*net.TCPConn) {}, nil},
		{"FIN", func(p *net.TCPConn) { p.Close() }, io.EOF},
		{"half closed", func(p *net.TCPConn) { p.CloseWrite() }, io.EOF},
		{"dirty", func(p *net.TCPConn) { p.Write([]byte("x")) }, ErrDirty},
		{"dirty, then FIN", func(p *net.TCPConn) { p.Write([]byte("x")); p.Close() }, ErrDirty},
		{"RST", func(p *net.TCPConn) { p.SetLinger(0); p.Close() }, syscall.ECONNRESET},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peer, c := tcpPair(t, false)
			c.SetReadDeadline(time.Now().Add(-time.Second)) // must not disturb
			tt.do(peer)
			if got := c.Quiet(); !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("in memory", func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		if got := Wrap(a, false).Quiet(); got != nil {
			t.Errorf("got %v, want nil: cannot be told", got)
		}
		a.Close()
	})
}

func TestWrapKeepsAConn(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	c := Wrap(a, false)
	if Wrap(c, true) != c {
		t.Error("got a second wrapping, want the same *Conn")
	}
	if c.NetConn() != a {
		t.Errorf("NetConn: got %v, want the wrapped conn", c.NetConn())
	}
}
