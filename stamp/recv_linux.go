//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package stamp

import (
	"errors"
	"io"
	"net"
	"os"
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
	iov   unix.Iovec
	oob   [64]byte // one timestamp takes 32
	n     int
	errno syscall.Errno
}

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
	r.msg.Iov = &r.iov
	r.msg.SetIovlen(1)
	r.msg.Control = &r.oob[0]
	return r
}

// enable sets SO_TIMESTAMPNS. It has the form of net.Dialer.Control. On a
// listener the accepted sockets inherit the option, so that even bytes queued
// before the accept are stamped.
func enable(_, _ string, raw syscall.RawConn) error {
	var opt error
	if err := raw.Control(func(fd uintptr) {
		opt = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}); err != nil {
		return err
	}
	return opt
}

// read returns the bytes of one recvmsg and their stamp on CLOCK_REALTIME, 0
// when the kernel gave none.
func (r *receiver) read(p []byte) (n int, stamp int64, err error) {
	if len(p) == 0 {
		return 0, 0, nil
	}
	r.iov.Base = &p[0]
	r.iov.SetLen(len(p))
	r.msg.SetControllen(len(r.oob))
	err = r.raw.Read(r.try)
	r.iov.Base = nil
	switch {
	case err != nil:
		return 0, 0, err
	case r.errno != 0:
		return 0, 0, os.NewSyscallError("recvmsg", r.errno)
	case r.n == 0:
		return 0, 0, io.EOF
	}
	return r.n, r.stamp(), nil
}

// recvmsg is one try; false parks the goroutine in the poller. The call never
// blocks, hence no handing over of the processor around it.
func (r *receiver) recvmsg(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
		switch errno {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		r.n, r.errno = int(n), errno
		return true
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

// readError gives an error of the raw read the form of net.Conn.Read's.
func (s *socket) readError(err error) error {
	if err == io.EOF {
		return err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return &net.OpError{Op: "read", Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}
