package proxy

import (
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/relay"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
)

// relays are the event loops; they start with the first listener or stream that is
// one for them.
type relays struct {
	mu    sync.Mutex
	over  bool          // none starts any more
	loops []*relay.Loop // none where the system has none
	ears  []*stamp.RawListener
}

// loopsFor returns the number of loops: one carries some 60,000 tokens a second.
func loopsFor(processors int) int { return max(1, processors/4) }

// relay returns the loop that carries the fewest streams, nil where there is none.
func (p *Proxy) relay() *relay.Loop {
	r := &p.relays
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.over && !p.cfg.NoRelay && len(r.loops) < loopsFor(runtime.GOMAXPROCS(0)) {
		f := &front{p: p, head: make([]byte, 0, headRoom)}
		l, err := relay.New(relay.Limits{Connect: p.cfg.ConnectTimeout, Header: p.cfg.HeaderWait, Idle: p.cfg.BodyIdle,
			Write: p.cfg.ClientWrite, First: p.cfg.ClientRead, Await: p.cfg.ClientIdle}, f)
		if err != nil {
			if r.over = errors.Is(err, errors.ErrUnsupported); !r.over {
				p.faults.Warn().Err(err).Msg("no event loop: each connection has a goroutine")
			}
			break
		}
		f.loop = l
		r.loops = append(r.loops, l)
		for _, ear := range r.ears {
			_ = p.listen(l, ear) // others listen
		}
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

// listen lets a loop accept clients. Each has a descriptor of its own; the first
// one, ear, is kept for loops that are yet to come.
func (p *Proxy) listen(l *relay.Loop, ear *stamp.RawListener) error {
	own, err := ear.Another()
	if err == nil {
		err = l.Listen(own)
	}
	if err != nil {
		p.faults.Error().Err(err).Msg("an event loop cannot accept clients")
	}
	return err
}

// accept lets the loops accept the clients of ln. It reports false for a listener
// that is not for them, and an error if ln is closed and nobody accepts.
func (p *Proxy) accept(ln net.Listener) (bool, error) {
	plain := func(b *backend) bool { return !b.tls }
	if _, tcp := ln.(*net.TCPListener); !tcp || p.tls.Load() != nil || !slices.ContainsFunc(p.backends, plain) || p.relay() == nil {
		return false, nil
	}
	r := &p.relays
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false, nil
	}
	ear, err := stamp.ListenRaw(ln, p.cfg.UserStamps)
	if err != nil {
		return false, nil
	}
	heard := false
	for _, l := range r.loops {
		if err = p.listen(l, ear); err == nil {
			heard = true
		}
	}
	if !heard {
		_ = ear.Close()
		return false, err
	}
	r.ears = append(r.ears, ear)
	return true, nil
}

// broken reports whether a loop that accepts clients is out of use.
func (r *relays) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ears) > 0 && slices.ContainsFunc(r.loops, func(l *relay.Loop) bool { return l.Err() != nil })
}

// dismiss ends the accepting, and closes the clients that the loops wait for.
func (r *relays) dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, ear := range r.ears {
		_ = ear.Close()
	}
	r.ears = nil
	for _, l := range r.loops {
		l.Dismiss()
	}
}

// spare closes a connection to an upstream that waits in a loop.
func (r *relays) spare(to *upstream.Client) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.loops, func(l *relay.Loop) bool { return l.Spare(to) })
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
	obs   *observer // of x, until end
	x     *exchange
	loop  *relay.Loop
	front *front         // of an exchange that the loop has had from its request on
	all   *plainExchange // that exchange
	s     *relay.Stream
	last  bool // the client's connection ends with this response
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
	c := &carried{x: x, obs: x.obs, loop: loop, s: new(relay.Stream), last: ctx.Request.Header.ConnectionClose()}
	head := c.head(make([]byte, 0, 1<<10), &x.resp.Head, true)
	// Before the engine's side: without a descriptor for it the stream must go
	// the ordinary way.
	if client.Reserve() != nil {
		return false
	}
	up, err := x.resp.Detach()
	if errors.Is(err, upstream.ErrAttached) {
		client.Unreserve()
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
		c.s.Up, c.s.Sink, c.s.Last, c.s.StayHalfClosed = up, c, c.last, x.p.cfg.KeepHalfClosed
		x.carried.Store(c)
		if x.halt.cause() != nil {
			c.cancel() // it came in between
		}
		loop.Carry(c.s, head)
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
	_ = client.SetReadDeadline(past)
	if p, _ := io.ReadAll(buffered); len(p) > 0 {
		c.s.Pipelined = p
	}
	client.watched.Remove()
	raw, rest, err := client.Detach()
	if err != nil {
		return false
	}
	c.s.Pipelined = append(c.s.Pipelined, rest...)
	c.s.Down = raw
	client.detached = true
	return true
}

// head appends what the client gets of the response's head.
func (c *carried) head(head []byte, h *upstream.Head, chunked bool) []byte {
	c.last = c.last || c.x.p.leaving()
	head = appendHead(head, h, chunked)
	if chunked {
		head = append(head, "Transfer-Encoding: chunked\r\n"...)
	}
	if c.last {
		head = append(head, "Connection: close\r\n"...)
	}
	return append(head, "\r\n"...)
}

// cancel ends the stream as its exchange was ended.
func (c *carried) cancel() { c.loop.Cancel(c.s, c.x.halt.cause()) }

// Observe meters what was forwarded. From the first token on it can wait: until then
// other streams, which count those that are decoding, wait for it.
func (c *carried) Observe(p []byte, at stamp.Instant, src stamp.Source) relay.When {
	o := c.obs
	if o == nil {
		return relay.Never
	}
	o.observe(p, at, src)
	if o.foldedEvents == 0 {
		return relay.Soon
	}
	return relay.Later
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

// briefEvents is the number of events up to which the loop itself makes a stream's
// record: some 20 µs.
const briefEvents = 256

// Ended closes the exchange: beside the loop if its record takes time, or must wait
// for the scan of its request.
func (c *carried) Ended(end relay.End) {
	if o := c.obs; o != nil && (o.model.Load() == nil || o.events.Load() > briefEvents) {
		c.x.p.closer.close(c, end)
		return
	}
	c.end(end)
	if c.front != nil {
		c.front.recycle(c.all)
	}
}

// closer closes exchanges in one goroutine: the streams of a decode step end together,
// and each would start its own.
type closer struct {
	mu      sync.Mutex
	over    []over
	running bool
}

type over struct {
	c   *carried
	end relay.End
}

func (q *closer) close(c *carried, end relay.End) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = append(q.over, over{c, end})
	if !q.running {
		q.running = true
		go q.run()
	}
}

func (q *closer) run() {
	for {
		q.mu.Lock()
		over := q.over
		q.over = nil
		q.running = len(over) > 0
		q.mu.Unlock()
		if len(over) == 0 {
			return
		}
		for _, o := range over {
			o.c.end(o.end)
		}
	}
}

// end makes the record.
func (c *carried) end(end relay.End) {
	defer c.x.p.hijacked.Done()
	c.obs = nil // it is another's when the exchange is over
	if end.Sent != 0 {
		c.x.retries = end.Retries
		if c.x.obs != nil {
			c.x.obs.sentAt(end.Sent)
		}
	}
	switch {
	case end.Whole:
		c.x.endedAt(stream.Cause{Kind: stream.EOF}, end.At)
	case end.Gone:
		c.x.endedAt(c.x.cause(nil), end.At)
	default:
		c.x.endedAt(c.x.cause(end.Err), end.At)
	}
}

// resume lets the server serve a client that has sent its next request. x is the
// exchange of that request, if a loop has begun it.
func (p *Proxy) resume(client *stamp.Raw, early []byte, x *exchange) {
	conn, err := client.Attach()
	if err != nil {
		p.faults.Warn().Err(err).Msg("a client's connection could not be kept")
		if x != nil {
			x.end(x.cause(err))
		}
		return
	}
	conn.SetWriteLimit(p.cfg.ClientWrite)
	c := &clientConn{Conn: conn, early: early, begun: x}
	p.openMu.Lock()
	if p.cutting {
		p.openMu.Unlock()
		_ = c.Close() // no exchange is open any more
		return
	}
	p.back[c] = struct{}{}
	p.openMu.Unlock()
	_ = p.data.ServeConn(c) // its errors are the server's to log
	if x := c.begun; x != nil {
		x.end(x.cause(net.ErrClosed)) // the server did not come to it
	}
	p.openMu.Lock()
	delete(p.back, c)
	p.openMu.Unlock()
}

// halfRequest is how long a shutdown waits for a request of which a part has come.
const halfRequest = time.Second

// serving notes the connections that the server has: those that it has accepted, and
// until they leave it also those of resume.
func (p *Proxy) serving(nc net.Conn, state fasthttp.ConnState) {
	c, ok := nc.(*clientConn)
	if !ok || state == fasthttp.StateIdle {
		return
	}
	if state == fasthttp.StateActive { // of a request the first byte is here
		c.asked.Store(false)
		return
	}
	p.openMu.Lock()
	defer p.openMu.Unlock()
	switch {
	case state != fasthttp.StateNew:
		delete(p.back, c)
	case p.cutting:
		_ = c.Abort()
	default:
		p.back[c] = struct{}{}
	}
}

// cutBack ends the server's connections: at a shutdown it would wait for those of
// which a part of a request has come. Until all is over those go that have not sent a
// request whole, then the others.
func (p *Proxy) cutBack(all bool) {
	p.openMu.Lock()
	defer p.openMu.Unlock()
	p.cutting = true
	for c := range p.back {
		if all || !c.asked.Load() {
			_ = c.Abort()
		}
	}
}
