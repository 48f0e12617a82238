//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package stamp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Raw is a TCP socket outside of the runtime's poller, for one goroutine that
// does its own polling: its calls never block. The stamps of one that was a Conn go
// on where that one's ended.
type Raw struct {
	fd    int
	user  bool
	track track
	at    Instant // of the last read
	src   Source
}

// Detachable reports whether Detach can work: c is plain TCP on Linux.
func (c *Conn) Detachable() bool {
	_, tcp := c.sock.Conn.(*net.TCPConn)
	return tcp && c.Conn == net.Conn(c.sock)
}

// Reserve gets what Detach needs of the system, so that a Detach after it succeeds.
// Closing c gives it back.
func (c *Conn) Reserve() error {
	if c.reserved.Load() != nil {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	// A duplicate, since only closing its own descriptor takes a socket out of
	// the runtime's poller. There each segment would go on waking a thread.
	fd, dup := -1, error(nil)
	if err := raw.Control(func(old uintptr) { fd, dup = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return err
	}
	if dup != nil {
		return os.NewSyscallError("dup", dup)
	}
	c.reserved.Store(&Raw{fd: fd})
	return nil
}

// Detach takes the socket out of c, which is closed by it. rest is what had been
// read from the socket and not yet returned by Read; Stamp still tells its
// instant. On an error c is as it was.
func (c *Conn) Detach() (r *Raw, rest []byte, err error) {
	if !c.Detachable() {
		return nil, nil, errors.ErrUnsupported
	}
	if err := c.Reserve(); err != nil {
		return nil, nil, err
	}
	if r = c.reserved.Swap(nil); r == nil {
		return nil, nil, net.ErrClosed // by Abort, in between
	}
	r.user, r.track, r.at, r.src = c.sock.recv == nil, c.sock.track, c.sock.at, c.sock.src
	if c.sock.recv.left() {
		rest = append(rest, c.sock.recv.rest...)
		c.sock.recv.drop()
	}
	_ = c.sock.Conn.Close() // of the old descriptor: no FIN is sent
	return r, rest, nil
}

// Attach gives the socket back to the runtime's poller; r is closed by it, also on
// an error. Stamp tells the instant of the last read, whichever side made it.
func (r *Raw) Attach() (*Conn, error) {
	if r.fd < 0 {
		return nil, net.ErrClosed
	}
	f := os.NewFile(uintptr(r.fd), "tcp")
	r.fd = -1
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	c := wrap(conn, r.user, r.track.clk)
	c.sock.track, c.sock.at, c.sock.src = r.track, r.at, r.src
	return c, nil
}

// FD is the descriptor, to poll with.
func (r *Raw) FD() int { return r.fd }

// Receiver holds what receiving needs, so that it allocates nothing. Raws that
// are read by one goroutine share one.
type Receiver struct{ r receiver }

// NewReceiver returns a Receiver.
func NewReceiver() *Receiver {
	var rc Receiver
	rc.r.msg.Iov = &rc.r.iov[0]
	rc.r.msg.SetIovlen(1)
	rc.r.msg.Control = &rc.r.oob[0]
	return &rc
}

// Recv reads what is there into p, which should have room for all of it: bytes
// left behind may get a later stamp. It returns their instant and who took it;
// io.EOF after the peer's FIN, syscall.EAGAIN when there is nothing.
func (r *Raw) Recv(rc *Receiver, p []byte) (int, Instant, Source, error) {
	m := &rc.r
	m.iov[0].Base = &p[0]
	m.iov[0].SetLen(len(p))
	n, errno := m.receive(uintptr(r.fd))
	m.iov[0].Base = nil
	switch {
	case errno != 0:
		return 0, 0, User, errno
	case n == 0:
		return 0, 0, User, io.EOF
	case r.user:
		r.at, r.src = Now(), User
	default:
		r.at, r.src = r.track.place(m.stamp())
	}
	return n, r.at, r.src, nil
}

// Send writes as much of p as the socket takes; syscall.EAGAIN when it takes
// nothing.
func (r *Raw) Send(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch n, errno := sendto(uintptr(r.fd), p); errno {
		case 0:
			return n, nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// Readable reports whether there are bytes to receive; a FIN is none.
func (r *Raw) Readable() bool {
	n, errno := r.peek()
	return errno == 0 && n > 0
}

// Close closes the socket; what was sent still goes out, then a FIN.
func (r *Raw) Close() error {
	if r.fd < 0 {
		return net.ErrClosed
	}
	fd := r.fd
	r.fd = -1
	// Not so that the scheduler knows of it: it does not block, and its monitor
	// would be woken.
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// Abort closes the socket so that the peer sees a reset.
func (r *Raw) Abort() error {
	_ = unix.SetsockoptLinger(r.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	return r.Close()
}

// Stamp returns the instant of the bytes that the last Recv returned, and who took
// it.
func (r *Raw) Stamp() (Instant, Source) { return r.at, r.src }

// Quiet reports that the connection is open and has nothing to read, as an idle one
// should.
func (r *Raw) Quiet() bool {
	_, errno := r.peek()
	return errno == syscall.EAGAIN
}

// peek looks at the first byte to receive: n is 0 behind the peer's FIN.
func (r *Raw) peek() (n int, errno syscall.Errno) {
	var b [1]byte
	got, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(r.fd), uintptr(unsafe.Pointer(&b)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return int(got), errno
}

// Peer is the address of the other side, nil when the connection is broken.
func (r *Raw) Peer() net.Addr {
	sa, err := unix.Getpeername(r.fd)
	if err != nil {
		return nil
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)))
	case *unix.SockaddrInet6:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port)))
	}
	return nil
}
