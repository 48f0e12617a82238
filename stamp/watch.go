package stamp

import (
	"net"
	"syscall"
)

// A peer that leaves while nobody reads from it is seen by its socket only:
// EPOLLRDHUP rises at the FIN or the reset, also behind unread bytes.
//
// Watcher tells, from one goroutine of its own, which of the watched peers have
// left. The goroutine and its epoll set exist from the first Watch of a real
// socket on: without one a Watcher is free, and usable in a synctest bubble.

// socketOf finds the socket of c, through Conn and TLS.
func socketOf(c net.Conn) (syscall.RawConn, bool) {
	for {
		if raw, err := rawConn(c); err == nil {
			return raw, true
		}
		under, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil, false
		}
		c = under.NetConn()
	}
}
