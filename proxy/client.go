package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/stamp"
)

// listener gives the server connections that stamp their reads.
type listener struct {
	net.Listener // of stamp.WrapListener, patient
	writeLimit   time.Duration
	tls          func() *tls.Config // returns nil where there is none
	handshake    time.Duration      // its limit
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	sc := c.(*stamp.Conn)
	sc.SetWriteLimit(l.writeLimit)
	cc := &clientConn{Conn: sc}
	if settings := l.tls(); settings != nil {
		sc.ServeTLS(settings)
		cc.shaking = l.handshake
	}
	return cc, nil
}

// clientConn is a client's connection.
type clientConn struct {
	*stamp.Conn
	// shaking is the limit of the TLS handshake while that is to come, else 0.
	// The first Read does it, in the connection's own goroutine.
	shaking time.Duration
	// watched is its place among the watched sockets, from the first request
	// on; nil before, and where it cannot be watched.
	watched *stamp.Watched
	// unread: the client was answered before it had sent its whole body, or has
	// sent more than the last request that it gets an answer to.
	unread atomic.Bool
	// hijacked is what ends the exchange that is taking the connection out of
	// the server's loop, until its handler runs.
	hijacked atomic.Pointer[func()]
	// detached: its socket has left it, there is nothing to close.
	detached bool
	// asked: the header of the request that is being read, or was last, has come whole.
	asked atomic.Bool
	// early is what was read of a connection that an event loop has given back.
	early []byte
	// begun is the exchange whose request early holds, if the loop had begun it.
	begun *exchange
}

// Read is net.Conn's. A client that connects and does not get through its
// handshake in time is let go.
func (c *clientConn) Read(b []byte) (int, error) {
	if c.shaking > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), c.shaking)
		err := c.Handshake(ctx)
		cancel()
		if err != nil {
			return 0, err
		}
		c.shaking = 0
	}
	if len(c.early) > 0 {
		n := copy(b, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// watch returns its place among the watched sockets.
func (c *clientConn) watch(w *stamp.Watcher) *stamp.Watched {
	if c.watched == nil {
		c.watched = w.Add(c)
	}
	return c.watched
}

// hijack takes the connection out of the server's loop: run gets it, through the
// server's wrapper that holds what is already read, and the server closes it
// when run returns. lost is called instead if the server closes it before.
func (c *clientConn) hijack(ctx *fasthttp.RequestCtx, run func(net.Conn), lost func()) {
	c.hijacked.Store(&lost)
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(buffered net.Conn) {
		if c.hijacked.Swap(nil) != nil {
			run(buffered)
		}
	})
}

// lingerFor is how long a client may go on sending after its answer.
const lingerFor = time.Second

// Close lets a client that is still sending, or has sent what nobody will read, read
// its answer first: closing with unread bytes sends a reset, which takes the answer
// from the client's hands.
func (c *clientConn) Close() error {
	if c.detached {
		return nil
	}
	if c.unread.Swap(false) && c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerFor))
		_, _ = io.Copy(io.Discard, c.Conn)
	}
	c.watched.Remove()
	err := c.Conn.Close()
	if lost := c.hijacked.Swap(nil); lost != nil {
		(*lost)()
	}
	return err
}

// pieces holds the buffers of ReadFrom. 16 KiB: a token is some 200 bytes, and a
// larger body goes out in larger pieces than a segment.
var pieces = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// ReadFrom writes each piece of r as it comes. The server uses it for bodies
// with a length: its own buffer would hold a trickling body back until 4 KiB
// have come or the body has ended.
func (c *clientConn) ReadFrom(r io.Reader) (n int64, err error) {
	buf := pieces.Get().(*[]byte)
	defer pieces.Put(buf)
	for {
		m, err := r.Read(*buf)
		if m > 0 {
			w, werr := c.Write((*buf)[:m])
			n += int64(w)
			if werr != nil {
				return n, werr
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
