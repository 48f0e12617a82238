//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package stamp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// rawPair is tcpPair with our end taken out of the runtime's poller.
func rawPair(t *testing.T, user bool) (peer *net.TCPConn, r *Raw) {
	t.Helper()
	peer, c := tcpPair(t, user)
	r, rest, err := c.Detach()
	if err != nil || len(rest) > 0 {
		t.Fatalf("Detach: %q, %v", rest, err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return peer, r
}

// recv waits until there is something to receive.
func (r *Raw) recv(t *testing.T, p []byte) (int, Instant, Source, error) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond / 10)
	defer tick.Stop()
	rc := NewReceiver()
	for range 50_000 {
		if n, at, src, err := r.Recv(rc, p); !errors.Is(err, syscall.EAGAIN) {
			return n, at, src, err
		}
		<-tick.C
	}
	t.Fatal("nothing came")
	return 0, 0, User, nil
}

// TestDetachAndAttach takes a socket to and fro: bytes, stamps and the connection
// itself go on, and no descriptor stays.
func TestDetachAndAttach(t *testing.T) {
	for _, tt := range []struct {
		name string
		user bool
		src  Source
	}{{"kernel", false, Kernel}, {"user", true, User}} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.user {
				warm(t)
			}
			peer, c := tcpPair(t, tt.user)
			fds := len(openFiles(t))
			buf := make([]byte, 64)
			var last Instant
			later := func(where string, at Instant, src Source) {
				t.Helper()
				if src != tt.src || at <= last || at > Now() {
					t.Errorf("%s: got a stamp %v after the one before by %v, want a later one by %v", where, at.Sub(last), src, tt.src)
				}
				last = at
			}
			for round := range 20 {
				if _, err := peer.Write([]byte("conn")); err != nil {
					t.Fatal(err)
				}
				n, err := io.ReadFull(c, buf[:4])
				if string(buf[:n]) != "conn" || err != nil {
					t.Fatalf("round %d: read %q, %v", round, buf[:n], err)
				}
				at, src := c.Stamp()
				later("conn", at, src)
				r, rest, err := c.Detach()
				if err != nil || len(rest) > 0 {
					t.Fatalf("round %d: Detach: %q, %v", round, rest, err)
				}
				if _, err := c.Read(buf); !errors.Is(err, net.ErrClosed) {
					t.Errorf("round %d: a read of the detached Conn: %v, want net.ErrClosed", round, err)
				}
				if _, err := peer.Write([]byte("raw")); err != nil {
					t.Fatal(err)
				}
				n, at, src, err = r.recv(t, buf)
				if string(buf[:n]) != "raw" || err != nil {
					t.Fatalf("round %d: Recv: %q, %v", round, buf[:n], err)
				}
				later("raw", at, src)
				if n, err := r.Send([]byte("back")); n != 4 || err != nil {
					t.Fatalf("round %d: Send: %d, %v", round, n, err)
				}
				if n, err := io.ReadFull(peer, buf[:4]); string(buf[:n]) != "back" {
					t.Fatalf("round %d: the peer got %q, %v, want no FIN", round, buf[:n], err)
				}
				if c, err = r.Attach(); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Attach(); err == nil {
					t.Error("a Raw was attached twice")
				}
				if at, src := c.Stamp(); at != last || src != tt.src {
					t.Errorf("round %d: after Attach got %v (%v), want the last read's %v", round, at, src, last)
				}
			}
			if now := len(openFiles(t)); now != fds {
				t.Errorf("got %d descriptors, %d before", now, fds)
			}
			// Deadlines work again, and both ends see the end.
			if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a read under a deadline: %v", err)
			}
			_ = c.Close()
			if n, err := peer.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("the peer: got %d, %v, want io.EOF", n, err)
			}
		})
	}
}

func openFiles(t *testing.T) []os.DirEntry {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDetachReturnsTheRest: what a read had left over comes with the socket, and
// has that read's stamp; what is still in the socket stays there.
func TestDetachReturnsTheRest(t *testing.T) {
	warm(t)
	peer, c := tcpPair(t, false)
	sent := bytes.Repeat([]byte("0123456789"), 50)
	peer.Write(sent)
	buf := make([]byte, 1024)
	if _, err := io.ReadFull(c, buf[:7]); err != nil {
		t.Fatal(err)
	}
	first, _ := c.Stamp()
	peer.Write([]byte("more"))
	r, rest, err := c.Detach()
	if err != nil || !bytes.Equal(rest, sent[7:]) {
		t.Fatalf("got %q, %v, want the rest of the first segment", rest, err)
	}
	defer r.Close()
	if at, src := c.Stamp(); at != first || src != Kernel {
		t.Errorf("got %v (%v) after Detach, want %v", at, src, first)
	}
	n, at, src, err := r.recv(t, buf)
	if string(buf[:n]) != "more" || err != nil || at <= first || src != Kernel {
		t.Errorf("got %q, %v, %v after the first by %v, want more, later", buf[:n], err, at.Sub(first), src)
	}
}

// TestOneSegmentOneInstant: parts of a segment have its instant, whether they are
// read before the socket goes back or after.
func TestOneSegmentOneInstant(t *testing.T) {
	warm(t)
	peer, r := rawPair(t, false)
	peer.Write([]byte("0123456789"))
	buf := make([]byte, 64)
	n, first, src, err := r.recv(t, buf[:4])
	if n != 4 || err != nil || src != Kernel {
		t.Fatalf("got %q, %v, %v", buf[:n], src, err)
	}
	_, second, _, err := r.recv(t, buf[:3])
	if err != nil || second != first {
		t.Errorf("the same segment: got %v later (%v), want the same instant", second.Sub(first), err)
	}
	c, err := r.Attach()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.Read(buf); string(buf[:n]) != "789" || err != nil {
		t.Fatalf("got %q, %v", buf[:n], err)
	}
	if at, src := c.Stamp(); at != first || src != Kernel {
		t.Errorf("the same segment after Attach: got %v later by %v, want the same instant", at.Sub(first), src)
	}
}

// TestDetachErrors: what has no socket of its own stays as it was.
func TestDetachErrors(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	pipe := Wrap(a, false)
	defer pipe.Close()
	_, secret := tcpPair(t, false)
	secret.ServeTLS(&tls.Config{})
	for name, c := range map[string]*Conn{"pipe": pipe, "TLS": secret} {
		if _, _, err := c.Detach(); !errors.Is(err, errors.ErrUnsupported) || c.Detachable() {
			t.Errorf("%s: got %v, detachable %v, want it unsupported", name, err, c.Detachable())
		}
	}
	go b.Write([]byte("x"))
	if n, err := pipe.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("the pipe afterwards: %d, %v", n, err)
	}
	_, closed := tcpPair(t, false)
	closed.Close()
	if r, _, err := closed.Detach(); r != nil || err == nil {
		t.Errorf("a closed Conn: got %v, %v, want an error", r, err)
	}
}

// TestDialedDetaches: the upstream's side of a proxy is dialed.
func TestDialedDetaches(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := (&Dialer{}).DialContext(context.Background(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := c.Detach()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	if err := r.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed twice: got %v, want net.ErrClosed", err)
	}
}

// TestRawEndings: what Recv, Send and Readable say of how the peer is.
func TestRawEndings(t *testing.T) {
	buf := make([]byte, 16)
	t.Run("nothing there", func(t *testing.T) {
		_, r := rawPair(t, false)
		if _, _, _, err := r.Recv(NewReceiver(), buf); !errors.Is(err, syscall.EAGAIN) || r.Readable() {
			t.Errorf("got %v, readable %v, want EAGAIN", err, r.Readable())
		}
		if n, err := r.Send(nil); n != 0 || err != nil {
			t.Errorf("sending nothing: got %d, %v", n, err)
		}
	})
	t.Run("FIN", func(t *testing.T) {
		peer, r := rawPair(t, false)
		peer.Write([]byte("x"))
		peer.Close()
		if !r.Readable() {
			t.Error("a byte before the FIN is not readable")
		}
		if n, _, _, err := r.recv(t, buf); n != 1 || err != nil {
			t.Errorf("got %d, %v, want the byte before the FIN", n, err)
		}
		if _, _, _, err := r.recv(t, buf); !errors.Is(err, io.EOF) || r.Readable() {
			t.Errorf("got %v, readable %v, want io.EOF", err, r.Readable())
		}
	})
	t.Run("RST", func(t *testing.T) {
		peer, r := rawPair(t, false)
		peer.SetLinger(0)
		peer.Close()
		if _, _, _, err := r.recv(t, buf); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v, want ECONNRESET", err)
		}
		if _, err := r.Send([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("sending: got %v, want EPIPE, and no signal", err)
		}
	})
	t.Run("a full socket", func(t *testing.T) {
		peer, r := rawPair(t, false)
		piece, sent := make([]byte, 64<<10), 0
		for {
			n, err := r.Send(piece)
			sent += n
			if errors.Is(err, syscall.EAGAIN) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r.Close() // what was sent still goes out
		if n, err := io.Copy(io.Discard, peer); n != int64(sent) || err != nil {
			t.Errorf("the peer got %d bytes, %v, want %d", n, err, sent)
		}
	})
	t.Run("Abort", func(t *testing.T) {
		peer, r := rawPair(t, false)
		if err := r.Abort(); err != nil {
			t.Error(err)
		}
		if _, err := peer.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the peer: got %v, want ECONNRESET", err)
		}
	})
}

// TestRecvAllocations: a Receiver is made once and used for all.
func TestRecvAllocations(t *testing.T) {
	peer, r := rawPair(t, false)
	rc, buf, token := NewReceiver(), make([]byte, 256), make([]byte, 200)
	got := testing.AllocsPerRun(500, func() {
		if _, err := peer.Write(token); err != nil {
			t.Fatal(err)
		}
		if n, _, _, err := r.Recv(rc, buf); n != len(token) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
		if _, err := r.Send(token); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(peer, buf[:len(token)]); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations a token, want 0", got)
	}
}
