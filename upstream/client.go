package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

// Client talks to one server. Its exported fields are set before the first use
// and not changed after. It is safe for concurrent use and not to be copied.
type Client struct {
	// Addr is the server's "host:port".
	Addr string
	// Host is the Host field of requests that have none; "" is Addr.
	Host string
	// Dialer opens the connections; its Timeout limits connecting.
	Dialer stamp.Dialer
	// HeaderWait limits the time from the request's last byte to the end of
	// the response head; 0 is no limit: a prefill can take minutes.
	HeaderWait time.Duration
	// ReadIdle limits each silence within the body; 0 is no limit.
	ReadIdle time.Duration
	// WriteLimit limits how long a write of the request (256 KiB at most) may
	// block; 0 is no limit.
	WriteLimit time.Duration
	// MaxIdle is how long a connection may wait in the pool; it must be below
	// the server's own limit (uvicorn: 5 s). 0 is 2 s, negative is no pool.
	MaxIdle time.Duration
	// MaxConns limits the open connections, idle ones included; 0 is no limit.
	MaxConns int

	// Spare, if not nil, is asked for room when MaxConns are open: it closes a
	// connection of Opened that waits, and reports whether there was one.
	Spare func() bool

	known atomic.Pointer[known]

	mu      sync.Mutex
	idle    []*conn // the newest last
	sweeper *time.Timer
	stats   Stats
	parked  int // idle connections of Opened
}

// host is the Host field of a request that has none.
func (c *Client) host() string {
	if c.Host != "" {
		return c.Host
	}
	return c.Addr
}

// Do sends req and returns the response when its head has been read. ctx ends
// the dial, the write and all reads of the body, within milliseconds and with
// an abort of the connection; it is watched until the Response is closed.
//
// A request is sent a second time if the connection came from the pool and was
// closed by the server before any byte of a response, the body can be
// replayed, and no time limit was reached. The second connection is a new one.
//
// The response is looked for when the request has been written, or cannot be
// written any further. A server that answers early and neither reads on nor
// closes is found out by WriteLimit.
//
// Errors of a request that was begun are *Error.
func (c *Client) Do(ctx context.Context, req *Request) (*Response, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, &Error{Op: OpConnect, Addr: c.Addr, Err: err}
	}
	cn, err := c.get(ctx)
	if err != nil {
		return nil, err
	}
	return c.do(ctx, cn, req)
}

func (c *Client) do(ctx context.Context, cn *conn, req *Request) (*Response, error) {
	r := &Response{client: c, c: cn}
	stale, err := r.exchange(ctx, req)
	if err == nil {
		return r, nil
	}
	if !stale || !cn.pooled || !req.replayable() {
		return nil, err
	}
	c.mu.Lock()
	c.stats.Retries++
	c.mu.Unlock()
	if cn, err = c.dial(ctx); err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Retries = 1
		}
		return nil, err
	}
	r = &Response{Head: Head{Retries: 1}, client: c, c: cn}
	if _, err = r.exchange(ctx, req); err != nil {
		return nil, err
	}
	return r, nil
}

// Ready is a connection that is up and waits for its request.
type Ready struct {
	client *Client
	c      *conn
}

// Connect returns a connection that is up: from the pool, or new.
func (c *Client) Connect(ctx context.Context) (*Ready, error) {
	cn, err := c.get(ctx)
	if err != nil {
		return nil, err
	}
	return &Ready{c, cn}, nil
}

// Do is Client.Do on this connection. If the server has closed it meanwhile,
// the request goes out on a new one. Do can be called once.
func (r *Ready) Do(ctx context.Context, req *Request) (*Response, error) {
	cn := r.c
	if cn == nil {
		return nil, &Error{Op: OpWrite, Addr: r.client.Addr, Err: ErrClosed}
	}
	r.c = nil
	if cn.Quiet() != nil {
		r.client.drop(cn, false)
		return r.client.Do(ctx, req)
	}
	cn.pooled = true // it has waited, so the server may close it at any moment
	return r.client.do(ctx, cn, req)
}

// Close gives the connection back to the pool. After Do it does nothing.
func (r *Ready) Close() {
	if r.c != nil {
		r.client.put(r.c)
		r.c = nil
	}
}
