//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package stamp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listenRaw is a listener of Raws, and its address.
func listenRaw(t *testing.T, addr string, user bool) (*RawListener, netip.AddrPort) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skip(err) // no IPv6
	}
	at := ln.Addr().(*net.TCPAddr).AddrPort()
	raw, err := ListenRaw(ln, user)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener it was: got %v, want it closed", err)
	}
	return raw, at
}

// accept waits for a connection.
func (l *RawListener) accept(t *testing.T) *Raw {
	t.Helper()
	tick := time.NewTicker(time.Millisecond / 10)
	defer tick.Stop()
	for range 50_000 {
		r, err := l.Accept()
		if err == nil {
			t.Cleanup(func() { r.Close() })
			return r
		}
		if !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
		<-tick.C
	}
	t.Fatal("nobody came")
	return nil
}

// up waits until a connection is there.
func (r *Raw) up(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond / 10)
	defer tick.Stop()
	for range 50_000 {
		up, err := r.Connected()
		if err != nil {
			t.Fatal(err)
		}
		if up {
			return
		}
		<-tick.C
	}
	t.Fatal("it does not come up")
}

// TestOpenedRaws: two that are opened without the runtime's poller talk to each other,
// and even the first byte, which lay there before the accept, has its stamp.
func TestOpenedRaws(t *testing.T) {
	for _, tt := range []struct {
		name, addr string
		user       bool
		src        Source
	}{
		{"kernel", "127.0.0.1:0", false, Kernel},
		{"kernel, IPv6", "[::1]:0", false, Kernel},
		{"user", "127.0.0.1:0", true, User},
	} {
		t.Run(tt.name, func(t *testing.T) {
			warm(t)
			ln, addr := listenRaw(t, tt.addr, tt.user)
			if r, err := ln.Accept(); r != nil || !errors.Is(err, syscall.EAGAIN) {
				t.Fatalf("got %v, %v before a connection, want EAGAIN", r, err)
			}
			out, err := DialRaw(addr, tt.user)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { out.Close() })
			out.up(t)
			buf := make([]byte, 64)
			talk := func(from, to *Raw, text string, accept func() *Raw) *Raw {
				t.Helper()
				begun := Now()
				if n, err := from.Send([]byte(text)); n != len(text) || err != nil {
					t.Fatalf("sent %d, %v", n, err)
				}
				sent := Now()
				if accept != nil {
					to = accept()
				}
				n, at, src, err := to.recv(t, buf)
				if string(buf[:n]) != text || err != nil || src != tt.src {
					t.Errorf("got %q by %v, %v, want %q by %v", buf[:n], src, err, text, tt.src)
				}
				if at < begun || at > Now() || src == Kernel && at > sent {
					t.Errorf("%s: got a stamp %v after the send, %v after its end", text, at.Sub(begun), at.Sub(sent))
				}
				if last, by := to.Stamp(); last != at || by != src {
					t.Errorf("Stamp: got %v by %v, want %v by %v", last, by, at, src)
				}
				return to
			}
			in := talk(out, nil, "first", func() *Raw { return ln.accept(t) })
			talk(in, out, "back", nil)
			talk(out, in, "again", nil)

			for name, r := range map[string]*Raw{"dialled": out, "accepted": in} {
				if got, _ := unix.FcntlInt(uintptr(r.FD()), unix.F_GETFL, 0); got&unix.O_NONBLOCK == 0 {
					t.Errorf("%s: it blocks", name)
				}
				if got, _ := unix.FcntlInt(uintptr(r.FD()), unix.F_GETFD, 0); got&unix.FD_CLOEXEC == 0 {
					t.Errorf("%s: children inherit it", name)
				}
			}
			if got := out.Peer(); got == nil || got.String() != addr.String() {
				t.Errorf("the dialled one's peer: got %v, want %v", got, addr)
			}
			theirs := in.Peer()
			back, err := out.Attach()
			if err != nil {
				t.Fatal(err)
			}
			defer back.Close()
			if want := back.LocalAddr(); theirs == nil || theirs.String() != want.String() {
				t.Errorf("the accepted one's peer: got %v, want %v", theirs, want)
			}
			c, err := in.Attach()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			back.Write([]byte("more"))
			if n, err := c.Read(buf); string(buf[:n]) != "more" || err != nil {
				t.Errorf("after Attach: got %q, %v", buf[:n], err)
			}
			if _, src := c.Stamp(); src != tt.src {
				t.Errorf("after Attach: a stamp by %v, want %v", src, tt.src)
			}
		})
	}
}

// TestOptionsOfOpenedRaws: they have those that net's connections have.
func TestOptionsOfOpenedRaws(t *testing.T) {
	ln, addr := listenRaw(t, "127.0.0.1:0", false)
	out, err := DialRaw(addr, false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in := ln.accept(t)
	plain, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	theirs, err := plain.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		name          string
		level, option int
	}{
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY},
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
	} {
		want := 0
		theirs.Control(func(fd uintptr) { want, err = unix.GetsockoptInt(int(fd), o.level, o.option) })
		if err != nil || want == 0 {
			t.Fatalf("%s of a net.Conn: %d, %v", o.name, want, err)
		}
		for name, fd := range map[string]int{"dialled": out.FD(), "accepted": in.FD()} {
			if got, err := unix.GetsockoptInt(fd, o.level, o.option); got != want || err != nil {
				t.Errorf("%s, %s: got %d, %v, want %d", name, o.name, got, err, want)
			}
		}
	}
}

// TestConnected: it is up at once through loopback, and an error if nobody listens;
// either way nobody has waited.
func TestConnected(t *testing.T) {
	ln, addr := listenRaw(t, "127.0.0.1:0", false)
	out, err := DialRaw(addr, false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if up, err := out.Connected(); !up || err != nil {
		t.Errorf("through loopback: got %v, %v, want it up", up, err)
	}
	// The address as a listener on both families has it.
	mapped, err := DialRaw(netip.AddrPortFrom(netip.AddrFrom16(addr.Addr().As16()), addr.Port()), false)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	mapped.up(t)
	ln.Close()
	refused, err := DialRaw(addr, false)
	if err == nil {
		defer refused.Close()
		var up bool
		if up, err = refused.Connected(); up {
			t.Error("it is up, and nobody listens")
		}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want ECONNREFUSED", err)
	}
}

// TestNotYetConnected: a connection that nobody takes is neither up nor failed.
func TestNotYetConnected(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port))
	for range 4 { // its queue takes one or two
		r, err := DialRaw(addr, false)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		up, err := r.Connected()
		if err != nil {
			t.Fatal(err)
		}
		if (r.Peer() != nil) != up {
			t.Errorf("up %v, and its peer is %v", up, r.Peer())
		}
		if !up {
			return
		}
	}
	t.Skip("the system takes connections beyond a listener's backlog")
}

// TestQuietRaw: an idle connection is, and no other.
func TestQuietRaw(t *testing.T) {
	for _, tt := range []struct {
		name            string
		do              func(*net.TCPConn)
		quiet, readable bool
	}{
		{"idle", func(*net.TCPConn) {}, true, false},
		{"bytes", func(c *net.TCPConn) { c.Write([]byte("x")) }, false, true},
		{"FIN", func(c *net.TCPConn) { c.CloseWrite() }, false, false},
		{"bytes and FIN", func(c *net.TCPConn) { c.Write([]byte("x")); c.CloseWrite() }, false, true},
		{"RST", func(c *net.TCPConn) { c.SetLinger(0); c.Close() }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peer, r := rawPair(t, false)
			tt.do(peer)
			if got := r.Quiet(); got != tt.quiet {
				t.Errorf("quiet: got %v, want %v", got, tt.quiet)
			}
			if tt.name == "RST" {
				return // it is told once
			}
			if got := r.Readable(); got != tt.readable {
				t.Errorf("readable: got %v, want %v", got, tt.readable)
			}
			if tt.readable {
				if n, _, _, err := r.recv(t, make([]byte, 8)); n != 1 || err != nil {
					t.Errorf("got %d, %v: a look has taken the byte", n, err)
				}
			}
		})
	}
	_, r := rawPair(t, false)
	r.Close()
	if r.Quiet() || r.Readable() || r.Peer() != nil {
		t.Error("a closed one is quiet, readable or has a peer")
	}
}

// TestAnother: it is the same socket, which listens until both are closed.
func TestAnother(t *testing.T) {
	for _, user := range []bool{false, true} {
		one, addr := listenRaw(t, "127.0.0.1:0", user)
		two, err := one.Another()
		if err != nil {
			t.Fatal(err)
		}
		if one.FD() == two.FD() {
			t.Errorf("both have descriptor %d", one.FD())
		}
		dial := func() (*net.TCPConn, error) {
			c, err := net.Dial("tcp", addr.String())
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { c.Close() })
			return c.(*net.TCPConn), nil
		}
		if _, err := dial(); err != nil {
			t.Fatal(err)
		}
		two.accept(t)
		if _, err := one.Accept(); !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("a connection was accepted twice: %v", err)
		}
		if err := one.Close(); err != nil {
			t.Error(err)
		}
		peer, err := dial()
		if err != nil {
			t.Fatalf("with one of two closed: %v", err)
		}
		r := two.accept(t)
		peer.Write([]byte("x"))
		if _, _, src, err := r.recv(t, make([]byte, 8)); err != nil || (src == User) != user {
			t.Errorf("got a stamp by %v, %v, want user %v", src, err, user)
		}
		if err := two.Close(); err != nil {
			t.Error(err)
		}
		if _, err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("with both closed: got %v, want ECONNREFUSED", err)
		}
	}
}

// TestAcceptSkipsWhoLeft: a connection that was reset meanwhile is no error, and does
// not hide the next.
func TestAcceptSkipsWhoLeft(t *testing.T) {
	ln, addr := listenRaw(t, "127.0.0.1:0", false)
	for range 2 {
		c, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("x"))
	for range 3 {
		// Linux gives out those that were reset, and they say so.
		n, _, _, err := ln.accept(t).recv(t, make([]byte, 8))
		if n == 1 && err == nil {
			return
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			t.Errorf("got %d, %v, want who left", n, err)
		}
	}
	t.Error("the one that stayed was not accepted")
}

// otherListener is a net.Listener that is not TCP.
type otherListener struct{ net.Listener }

// TestListenRawErrors: what cannot be taken stays as it was.
func TestListenRawErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if r, err := ListenRaw(otherListener{ln}, false); r != nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v, %v, want ErrUnsupported", r, err)
	}
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	ln.Close()
	if r, err := ListenRaw(ln, false); r != nil || err == nil {
		t.Errorf("a closed one: got %v, %v, want an error", r, err)
	}
}

// TestOpenedRawsLeaveNothing: no descriptor stays, whatever comes of a dial.
func TestOpenedRawsLeaveNothing(t *testing.T) {
	keepStamping()
	fds := len(openFiles(t))
	ln, addr := listenRaw(t, "127.0.0.1:0", false)
	for range 5 {
		out, err := DialRaw(addr, false)
		if err != nil {
			t.Fatal(err)
		}
		in := ln.accept(t)
		out.Close()
		in.Abort()
	}
	ln.Close()
	for range 5 {
		if out, err := DialRaw(addr, false); err == nil {
			out.Close()
		}
	}
	// A broadcast address: the system does not even begin.
	if out, err := DialRaw(netip.MustParseAddrPort("255.255.255.255:1"), false); out != nil || !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("got %v, %v, want ENETUNREACH", out, err)
	}
	if now := len(openFiles(t)); now > fds {
		t.Errorf("got %d descriptors, %d before", now, fds)
	}
}
