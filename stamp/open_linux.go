//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package stamp

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RawListener accepts Raws: a listening socket outside of the runtime's poller,
// for one goroutine that does its own polling.
type RawListener struct {
	fd   int
	user bool
}

// ListenRaw takes the socket out of ln, which is closed by it. errors.ErrUnsupported
// for one that is not plain TCP; ln is as it was then, and after every other error.
func ListenRaw(ln net.Listener, user bool) (*RawListener, error) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	if !user {
		_ = enable("", "", raw) // else the clock stamps
	}
	l := &RawListener{fd: -1, user: user}
	if ctl := raw.Control(func(old uintptr) {
		if err = options(int(old)); err == nil {
			l.fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
		}
	}); ctl != nil {
		return nil, ctl
	}
	if err != nil {
		return nil, err
	}
	_ = tcp.Close() // of the old descriptor: the socket goes on listening
	return l, nil
}

// Another returns the same socket under another descriptor, for another loop.
func (l *RawListener) Another() (*RawListener, error) {
	fd, err := unix.FcntlInt(uintptr(l.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return &RawListener{fd: fd, user: l.user}, nil
}

// FD is the descriptor, to poll with.
func (l *RawListener) FD() int { return l.fd }

// Accept returns a connection that waits, syscall.EAGAIN when none does. The options
// of the socket it inherits from the listener's.
func (l *RawListener) Accept() (*Raw, error) {
	for {
		fd, _, errno := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(l.fd), 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			return newRaw(int(fd), l.user), nil
		case syscall.EINTR, syscall.ECONNABORTED: // it left before it was accepted
		default:
			return nil, errno
		}
	}
}

// Close ends the listening.
func (l *RawListener) Close() error { return unix.Close(l.fd) }

func newRaw(fd int, user bool) *Raw {
	return &Raw{fd: fd, user: user, track: track{clk: &system}}
}

// options sets what net sets on its connections.
func options(fd int) error {
	for _, o := range [...]struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
	} {
		if err := setOption(fd, o.level, o.name, o.value); err != nil {
			return err
		}
	}
	return nil
}

// setOption and connect are system calls that the scheduler is not told of: they do
// not block, and its monitor would take the processor away from a connect through
// loopback, which takes longer than 20 µs.
func setOption(fd, level, name, value int) error {
	v := int32(value)
	_, _, errno := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
	if errno != 0 {
		return os.NewSyscallError("setsockopt", errno)
	}
	return nil
}

func connect(fd int, to netip.AddrPort) error {
	var errno syscall.Errno
	port := [2]byte{byte(to.Port() >> 8), byte(to.Port())}
	if ip := to.Addr(); ip.Is4() {
		sa := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: *(*uint16)(unsafe.Pointer(&port)), Addr: ip.As4()}
		_, _, errno = syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa)), unsafe.Sizeof(sa))
	} else {
		sa := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: *(*uint16)(unsafe.Pointer(&port)), Addr: ip.As16()}
		_, _, errno = syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa)), unsafe.Sizeof(sa))
	}
	if errno != 0 && errno != syscall.EINPROGRESS {
		return os.NewSyscallError("connect", errno)
	}
	return nil
}

// DialRaw begins to connect to addr and does not wait; Connected tells whether it
// is.
func DialRaw(addr netip.AddrPort, user bool) (*Raw, error) {
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	family := unix.AF_INET
	if addr.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, _, errno := syscall.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("socket", errno)
	}
	r := newRaw(int(fd), user)
	err := options(r.fd)
	if err == nil && !user {
		keepStamping()
		err = setOption(r.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) // before the connect: even an early byte is stamped
	}
	if err == nil {
		err = connect(r.fd, addr)
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// Connected reports whether the connection of DialRaw is up; an error when it never
// will be.
func (r *Raw) Connected() (bool, error) {
	var code, size = int32(0), uint32(4)
	_, _, errno := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(r.fd), unix.SOL_SOCKET, unix.SO_ERROR, uintptr(unsafe.Pointer(&code)), uintptr(unsafe.Pointer(&size)), 0)
	if errno == 0 {
		errno = syscall.Errno(code)
	}
	if errno != 0 {
		return false, os.NewSyscallError("connect", errno)
	}
	var sa unix.RawSockaddrAny
	size = unix.SizeofSockaddrAny
	_, _, errno = syscall.RawSyscall(unix.SYS_GETPEERNAME, uintptr(r.fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)))
	return errno == 0, nil
}
