package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

// headSize is the first size of a connection's head buffer, and the most that a
// connection keeps of it: a stream that waits has one of these for its whole
// life, and inference servers answer with some 300 bytes of head.
const headSize = 1 << 10

// outs holds the buffers in which requests are put together; maxOut is the most
// that it keeps of one.
var outs = sync.Pool{New: func() any { return new([]byte) }}

const maxOut = 16 << 10

// conn is a connection and its buffers.
type conn struct {
	*stamp.Conn
	in     []byte // the response head and what came in the same read
	r, w   int    // in[r:w] is unread
	pooled bool   // it waited idle before this request
	idle   time.Time
}

func (cn *conn) write(p []byte) error {
	_, err := cn.Write(p)
	return err
}

// dial opens a connection, counted against MaxConns.
func (c *Client) dial(ctx context.Context) (*conn, error) {
	for !c.Opened() {
		if c.Spare == nil || !c.Spare() {
			return nil, &Error{Op: OpConnect, Addr: c.Addr, Err: ErrNoFreeConns}
		}
	}
	sc, err := c.Dialer.DialContext(ctx, c.Addr)
	if err != nil {
		c.gone(1)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, &Error{Op: OpConnect, Addr: c.Addr, Err: err}
	}
	c.know(sc)
	return &conn{Conn: sc, in: make([]byte, headSize)}, nil
}

// gone counts n connections less.
func (c *Client) gone(n int) {
	c.mu.Lock()
	c.stats.Open -= n
	c.mu.Unlock()
}

// drop closes cn; with abort the peer sees a reset.
func (c *Client) drop(cn *conn, abort bool) {
	if abort {
		_ = cn.Abort()
	} else {
		_ = cn.Close()
	}
	c.gone(1)
}

// get returns the idle connection that was used last, or dials one. One that
// its peer has closed, or written to, is dropped.
func (c *Client) get(ctx context.Context) (*conn, error) {
	for {
		cn, old := c.pop(time.Now())
		for _, o := range old {
			_ = o.Close()
		}
		if cn == nil {
			return c.dial(ctx)
		}
		if cn.Quiet() == nil {
			c.know(cn.Conn)
			return cn, nil
		}
		c.drop(cn, false)
	}
}

// pop takes the newest idle connection, and those which have been idle too long.
func (c *Client) pop(now time.Time) (newest *conn, old []*conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old = c.expired(now)
	if n := len(c.idle); n > 0 {
		newest = c.idle[n-1]
		c.idle[n-1] = nil
		c.idle = c.idle[:n-1]
		newest.pooled = true
	}
	return newest, old
}

// expired takes the connections idle for MaxIdle or longer; the oldest are at
// the bottom. The caller holds c.mu and closes them.
func (c *Client) expired(now time.Time) []*conn {
	n := 0
	for n < len(c.idle) && now.Sub(c.idle[n].idle) >= c.maxIdle() {
		n++
	}
	if n == 0 {
		return nil
	}
	old := c.idle[:n:n]
	c.idle = append([]*conn(nil), c.idle[n:]...)
	c.stats.Open -= n
	return old
}

// put makes cn idle, its last response read to the end.
func (c *Client) put(cn *conn) {
	cn.SetReadIdle(0)
	cn.SetWriteLimit(0)
	cn.r, cn.w = 0, 0
	if len(cn.in) > headSize {
		cn.in = make([]byte, headSize)
	}
	if c.maxIdle() < 0 {
		c.drop(cn, false)
		return
	}
	cn.idle = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, cn)
	if c.sweeper == nil {
		c.sweeper = time.AfterFunc(c.maxIdle(), c.sweep)
	}
}

// sweep closes what has been idle too long, and comes back while there is more.
func (c *Client) sweep() {
	c.mu.Lock()
	now := time.Now()
	old := c.expired(now)
	if c.sweeper != nil { // not stopped by CloseIdle
		if len(c.idle) > 0 {
			c.sweeper.Reset(c.maxIdle() - now.Sub(c.idle[0].idle))
		} else {
			c.sweeper = nil
		}
	}
	c.mu.Unlock()
	for _, cn := range old {
		_ = cn.Close()
	}
}

// CloseIdle closes the idle connections. Those in use are not touched.
func (c *Client) CloseIdle() {
	c.mu.Lock()
	if c.sweeper != nil {
		c.sweeper.Stop()
		c.sweeper = nil
	}
	idle := c.idle
	c.idle = nil
	c.stats.Open -= len(idle)
	c.mu.Unlock()
	for _, cn := range idle {
		_ = cn.Close()
	}
}

// Stats are counts of a Client. Open includes idle and dialing connections.
type Stats struct {
	Open, Idle     int
	Dials, Retries int64 // since the start
}

// Stats returns the present counts.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Idle = len(c.idle) + c.parked
	return s
}

func (c *Client) maxIdle() time.Duration {
	if c.MaxIdle == 0 {
		return 2 * time.Second
	}
	return c.MaxIdle
}
