//go:build unix

package sim

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// peerGone reports whether the peer has closed or reset a TCP connection,
// without taking bytes from it. It must not run while another goroutine reads.
func peerGone(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch err {
		case nil:
			gone = n == 0
		case unix.EAGAIN, unix.EINTR:
		default:
			gone = true
		}
	})
	return gone || err != nil
}
