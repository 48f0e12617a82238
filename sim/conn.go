package sim

import "net"

// listener tracks connections, so that Shutdown can close them all.
type listener struct {
	net.Listener
	srv *Server
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tracked := &conn{Conn: c, srv: l.srv}
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	if l.srv.closed {
		c.Close()
	}
	l.srv.conns[tracked] = struct{}{}
	return tracked, nil
}

// conn is a client's connection. While a request is served a read waits in the
// background, as in net/http, so that the client's leaving is seen at once and
// not only by the next write.
type conn struct {
	net.Conn
	srv     *Server
	last    bool // close before the next request
	pending chan received
	early   received // what the background read brought, not yet taken by Read
}

type received struct {
	bytes []byte
	err   error
}

// watch calls gone, from another goroutine, if the peer leaves before it sends
// anything more.
func (c *conn) watch(gone func()) {
	if c.pending != nil || len(c.early.bytes) > 0 || c.early.err != nil {
		return
	}
	pending := make(chan received, 1)
	c.pending = pending
	c.srv.reads.Go(func() {
		var b [64]byte
		n, err := c.Conn.Read(b[:])
		// In-memory connections of fasthttp time out with an error that is no net.Error.
		if timeout, ok := err.(interface{ Timeout() bool }); err != nil && !(ok && timeout.Timeout()) {
			gone()
		}
		pending <- received{b[:n], err}
	})
}

// Read first takes what the background read brings: the server's read deadline
// holds for that one too.
func (c *conn) Read(p []byte) (int, error) {
	if c.last {
		return 0, net.ErrClosed
	}
	if c.pending != nil {
		c.early = <-c.pending
		c.pending = nil
	}
	if len(c.early.bytes) > 0 {
		n := copy(p, c.early.bytes)
		c.early.bytes = c.early.bytes[n:]
		return n, nil
	}
	if err := c.early.err; err != nil {
		c.early.err = nil
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *conn) Close() error {
	c.srv.mu.Lock()
	delete(c.srv.conns, c)
	c.srv.mu.Unlock()
	return c.Conn.Close()
}
