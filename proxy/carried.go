package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/relay"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
)

// relays are the event loops that carry streams; they start with the first one.
type relays struct {
	mu    sync.Mutex
	over  bool          // none starts any more
	loops []*relay.Loop // none where the system has none
}

// loopsFor returns the number of loops: one carries some 60,000 tokens a second.
func loopsFor(processors int) int { return max(1, processors/4) }

// relay returns the loop that carries the fewest streams, nil where there is none.
func (p *Proxy) relay() *relay.Loop {
	r := &p.relays
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.over && !p.cfg.NoRelay && len(r.loops) < loopsFor(runtime.GOMAXPROCS(0)) {
		l, err := relay.New(relay.Limits{Idle: p.cfg.BodyIdle, Write: p.cfg.ClientWrite, Await: p.cfg.ClientIdle})
		if err != nil {
			if r.over = errors.Is(err, errors.ErrUnsupported); !r.over {
				p.faults.Warn().Err(err).Msg("no event loop: the stream has a goroutine")
			}
			break
		}
		r.loops = append(r.loops, l)
	}
	var best *relay.Loop
	for _, l := range r.loops {
		if err := l.Err(); err != nil {
			p.faults.Error().Err(err).Msg("an event loop is out of use")
		} else if best == nil || l.Open() < best.Open() {
			best = l
		}
	}
	return best
}

// dismiss closes the clients that the loops wait for.
func (r *relays) dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, l := range r.loops {
		l.Dismiss()
	}
}

// close ends the loops, when no stream is left.
func (r *relays) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.loops {
		l.Close()
	}
}

// carried is an exchange whose response an event loop carries.
type carried struct {
	x         *exchange
	loop      *relay.Loop
	s         relay.Stream
	last      bool   // the client's connection ends with this response
	pipelined []byte // what the client has sent behind its request
}

// carry hands the response to an event loop, if it is one for it: in chunks, to a
// client that knows them, both over plain TCP, and with no policy that may end
// it early or add to its end. It reports whether it did.
func (x *exchange) carry(ctx *fasthttp.RequestCtx, client *clientConn) bool {
	if x.body != nil && !x.body.ended || !client.Detachable() || x.policy() != Observe {
		return false
	}
	loop := x.p.relay()
	if loop == nil {
		return false
	}
	c := &carried{x: x, loop: loop, last: ctx.Request.Header.ConnectionClose() || x.p.leaving()}
	head := append(appendHead(make([]byte, 0, 1<<10), x.resp, true), "Transfer-Encoding: chunked\r\n"...)
	if c.last {
		head = append(head, "Connection: close\r\n"...)
	}
	head = append(head, "\r\n"...)
	// Before the engine's side: without a descriptor for it the stream must go
	// the ordinary way.
	if client.Reserve() != nil {
		return false
	}
	up, err := x.resp.Detach()
	if errors.Is(err, upstream.ErrAttached) {
		return false
	}
	if err != nil {
		x.refuse(ctx, faultClosed, x.cause(err))
		return true
	}
	x.resp = nil
	// The loop sees the client's leaving from here on.
	x.watched.Disarm()
	x.p.hijacked.Add(1)
	client.hijack(ctx, func(buffered net.Conn) {
		if !c.take(buffered, client) {
			up.Drop()
			x.end(x.cause(nil))
			x.p.hijacked.Done()
			return
		}
		c.s.Up, c.s.Sink, c.s.StayHalfClosed = up, c, x.p.cfg.KeepHalfClosed
		loop.Carry(&c.s, head)
		x.carried.Store(c)
		if x.ctx.Err() != nil {
			c.cancel() // it came in between
		}
	}, func() {
		defer x.p.hijacked.Done()
		up.Drop()
		x.end(stream.Cause{Kind: stream.Gone})
	})
	return true
}

// take takes the client's socket out of the server's hands.
func (c *carried) take(buffered net.Conn, client *clientConn) bool {
	// A deadline that is over: what is there is read, and nothing waited for.
	_ = client.SetReadDeadline(time.Unix(1, 0))
	if p, _ := io.ReadAll(buffered); len(p) > 0 {
		c.pipelined = p
	}
	client.watched.Remove()
	raw, rest, err := client.Detach()
	if err != nil {
		return false
	}
	c.pipelined = append(c.pipelined, rest...)
	c.s.Down = raw
	client.detached = true
	return true
}

// cancel ends the stream as its exchange's context was.
func (c *carried) cancel() { c.loop.Cancel(&c.s, context.Cause(c.x.ctx)) }

// Left counts the delay that the proxy added.
func (c *carried) Left(arrived, left stamp.Instant) {
	c.x.p.metrics.AddedDelay.Update(left.Sub(arrived).Seconds())
}

// Observe meters what was forwarded.
func (c *carried) Observe(p []byte, at stamp.Instant, src stamp.Source) {
	if c.x.obs != nil {
		c.x.obs.observe(p, at, src)
	}
}

// Trailer passes trailers on as copyTrailers does.
func (c *carried) Trailer(fields []upstream.Field) (lines []byte) {
	var allowed fasthttp.ResponseHeader
	for _, f := range fields {
		if allowed.AddTrailerBytes(f.Name) == nil {
			lines = f.Append(lines)
		}
	}
	return lines
}

// Ended closes the exchange; a client that may send more goes back to the server.
func (c *carried) Ended(end relay.End) {
	x := c.x
	switch {
	case end.Whole:
		x.endedAt(stream.Cause{Kind: stream.EOF}, end.At)
		c.s.Up.Put()
	case end.Gone:
		c.s.Up.Drop()
		x.endedAt(x.cause(nil), end.At)
	default:
		c.s.Up.Drop()
		x.endedAt(x.cause(end.Err), end.At)
	}
	switch {
	case !end.Whole && c.s.Up.Ending():
		_ = c.s.Down.Abort()
	case !end.Whole || c.last:
		c.close()
	case len(c.pipelined) > 0:
		// Its next request is here already.
		go x.p.resume(c.s.Down, c.pipelined)
	default:
		c.loop.Await(c.s.Down, func(client *stamp.Raw) { x.p.resume(client, nil) })
	}
	x.p.hijacked.Done()
}

// close ends the client's connection as the server would.
func (c *carried) close() {
	if !c.s.Down.Readable() {
		_ = c.s.Down.Close()
		return
	}
	if conn, err := c.s.Down.Attach(); err == nil {
		left := &clientConn{Conn: conn}
		left.unread.Store(true)
		go func() { _ = left.Close() }() // it lets the client read first
	}
}

// resume gives a client that has sent its next request back to the server.
func (p *Proxy) resume(client *stamp.Raw, early []byte) {
	conn, err := client.Attach()
	if err != nil {
		p.faults.Warn().Err(err).Msg("a client's connection could not be kept")
		return
	}
	conn.SetWriteLimit(p.cfg.ClientWrite)
	c := &clientConn{Conn: conn, early: early}
	p.openMu.Lock()
	if p.cutting {
		p.openMu.Unlock()
		_ = c.Close()
		return
	}
	p.back[c] = struct{}{}
	p.resumed.Add(1)
	p.openMu.Unlock()
	defer p.resumed.Done()
	_ = p.data.ServeConn(c) // its errors are the server's to log
	p.openMu.Lock()
	delete(p.back, c)
	p.openMu.Unlock()
}

// cutUnasked ends the connections that a loop has given back for a request that
// has not come whole. The server takes them for new ones, and its shutdown would
// wait for them.
func (p *Proxy) cutUnasked() {
	p.openMu.Lock()
	defer p.openMu.Unlock()
	p.cutting = true
	for c := range p.back {
		if !c.asked.Load() {
			_ = c.Abort()
		}
	}
}
