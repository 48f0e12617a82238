//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package stamp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiver reads a socket with recvmsg. Everything that the system call needs
// lives in it, so that a read allocates nothing.
type receiver struct {
	raw   syscall.RawConn
	try   func(fd uintptr) bool // r.recvmsg, bound once
	msg   unix.Msghdr
	iov   [2]unix.Iovec // the caller's buffer, and a spill
	oob   [64]byte      // one timestamp takes 32
	n     int
	errno syscall.Errno
	room  int    // of the caller's buffer
	spill *spill // holds rest; nil when there is none
	rest  []byte // read behind the caller's buffer, not yet returned
	real  int64  // the stamp of rest
}

// spill takes what a read finds beyond the caller's buffer. Else that would be
// left in a segment that goes on growing: its stamp would move on, and the
// bytes read first, stamped as the segment was then, would no longer show that
// they were part of it. With it, one recvmsg takes all there is, and what is
// returned of it later has the same stamp.
type spill [64 << 10]byte

// spills holds about one spill a processor: a read needs it for the time of
// one system call that does not block, and keeps it only when it was written to.
var spills = sync.Pool{New: func() any { return new(spill) }}

// openReceiver switches stamping on; nil if c cannot be stamped. Bytes that
// arrived before may come without a stamp.
func openReceiver(c net.Conn) *receiver {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil || enable("", "", raw) != nil {
		return nil
	}
	r := &receiver{raw: raw}
	r.try = r.recvmsg
	r.msg.Iov = &r.iov[0]
	r.msg.SetIovlen(len(r.iov))
	r.msg.Control = &r.oob[0]
	return r
}

// keepStamping holds stamping on for the host, from the first use to the end of
// the process, by a socket that is never closed. The kernel switches it with the
// first and last socket that asks for it, in deferred work that patches code on
// all processors: without this, after each idle moment the first bytes would
// come without a stamp.
var keepStamping = sync.OnceFunc(func() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return // then each socket does for itself
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
})

// enable sets SO_TIMESTAMPNS. It has the form of net.Dialer.Control. On a
// listener the accepted sockets inherit the option, so that even bytes queued
// before the accept are stamped.
func enable(_, _ string, raw syscall.RawConn) error {
	keepStamping()
	var opt error
	if err := raw.Control(func(fd uintptr) {
		opt = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}); err != nil {
		return err
	}
	return opt
}

// read returns bytes of one recvmsg and their stamp on CLOCK_REALTIME, 0 when
// the kernel gave none. again: they were left over from the read before.
func (r *receiver) read(p []byte) (n int, real int64, again bool, err error) {
	if len(p) == 0 {
		return 0, 0, false, nil
	}
	if r.spill != nil {
		n = copy(p, r.rest)
		if r.rest = r.rest[n:]; len(r.rest) == 0 {
			r.drop()
		}
		return n, r.real, true, nil
	}
	r.iov[0].Base = &p[0]
	r.iov[0].SetLen(len(p))
	r.room = len(p)
	err = r.raw.Read(r.try)
	r.iov[0].Base = nil
	switch {
	case err != nil:
		return 0, 0, false, err
	case r.errno != 0:
		return 0, 0, false, os.NewSyscallError("recvmsg", r.errno)
	case r.n == 0:
		return 0, 0, false, io.EOF
	}
	r.real = r.stamp()
	return min(r.n, len(p)), r.real, false, nil
}

// drop gives the spill back.
func (r *receiver) drop() {
	spills.Put(r.spill)
	r.spill, r.rest = nil, nil
}

// left reports whether there are bytes that the socket no longer shows.
func (r *receiver) left() bool { return r != nil && r.spill != nil }

// buffered is how many those are.
func (r *receiver) buffered() int {
	if r == nil {
		return 0
	}
	return len(r.rest)
}

// recvmsg is one try; false parks the goroutine in the poller. The call never
// blocks, hence no handing over of the processor around it.
func (r *receiver) recvmsg(fd uintptr) bool {
	s := spills.Get().(*spill)
	r.iov[1].Base = &s[0]
	r.iov[1].SetLen(len(s))
	r.n, r.errno = r.receive(fd)
	r.iov[1].Base = nil
	if r.errno == 0 && r.n > r.room {
		r.spill, r.rest = s, s[:r.n-r.room]
	} else {
		spills.Put(s)
	}
	return r.errno != syscall.EAGAIN
}

// receive is one recvmsg into iov that does not block; the stamp is in oob then.
func (r *receiver) receive(fd uintptr) (int, syscall.Errno) {
	for {
		r.msg.SetControllen(len(r.oob))
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

// stamp finds SCM_TIMESTAMPNS among the control messages.
func (r *receiver) stamp() int64 {
	const header = int(unsafe.Sizeof(unix.Cmsghdr{}))
	for b := r.oob[:min(int(r.msg.Controllen), len(r.oob))]; len(b) >= header; {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		size := int(h.Len)
		if size < header || size > len(b) {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && size >= header+int(unsafe.Sizeof(unix.Timespec{})) {
			return (*unix.Timespec)(unsafe.Pointer(&b[header])).Nano()
		}
		b = b[min(len(b), (size+7)&^7):]
	}
	return 0
}

// sender writes to a socket as receiver reads: by a system call that does not
// block, and that the scheduler need not know of. The usual way tells it, and its
// monitor then takes the processor away when a write takes longer than 20 µs, as one
// through loopback does.
type sender struct {
	raw   syscall.RawConn
	try   func(fd uintptr) bool // s.send, bound once
	mu    sync.Mutex            // of the rest
	p     []byte                // what is left
	errno syscall.Errno
}

func openSender(r *receiver) *sender {
	if r == nil {
		return nil
	}
	s := &sender{raw: r.raw}
	s.try = s.send
	return s
}

// write writes all of p.
func (s *sender) write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.p, s.errno = p, 0
	err := s.raw.Write(s.try)
	n := len(p) - len(s.p)
	s.p = nil
	if err == nil && s.errno != 0 {
		err = os.NewSyscallError("sendto", s.errno)
	}
	return n, err
}

// send writes what the socket takes; false parks the goroutine in the poller.
func (s *sender) send(fd uintptr) bool {
	for len(s.p) > 0 {
		n, errno := sendto(fd, s.p)
		switch errno {
		case 0:
			s.p = s.p[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			s.errno = errno
			return true
		}
	}
	return true
}

// sendto is one non-blocking send; a broken connection raises no signal.
func sendto(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// opError gives an error of the raw read or write the form that net.Conn's has.
func (s *socket) opError(op string, err error) error {
	var inner *net.OpError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}
