//go:build linux || darwin || freebsd || netbsd || openbsd

package stamp

import (
	"io"
	"os"
	"syscall"
)

// quiet peeks at the socket. Control is used, not Read, since that one fails
// after a past deadline.
func quiet(raw syscall.RawConn) error {
	var n int
	var errno error
	if err := raw.Control(func(fd uintptr) {
		var b [1]byte
		for {
			n, _, errno = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			if errno != syscall.EINTR {
				return
			}
		}
	}); err != nil {
		return err
	}
	switch {
	case errno == syscall.EAGAIN:
		return nil
	case errno != nil:
		return os.NewSyscallError("recvfrom", errno)
	case n == 0:
		return io.EOF
	}
	return ErrDirty
}
