package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/relay"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
)

// Why an exchange was ended from outside.
var (
	errClientGone = errors.New("the client went away")
	errDrained    = errors.New("the drain period is over")
	errOver       = errors.New("the exchange is over")
)

// exchange is one request and its response, from the handler's first line to
// the end of the body. It outlives the handler and fasthttp's RequestCtx: the
// body is read after the handler returned.
type exchange struct {
	p        *Proxy
	route    string
	backend  *backend // nil until one is picked
	received stamp.Instant
	status   int // that the client was sent, 0 before
	retries  int
	method   string   // as the access log names it
	client   net.Addr // its address

	obs   *observer                // nil when the request is not observed
	shown atomic.Pointer[observer] // obs, for /streams while the exchange is in Proxy.open

	halt    halt
	resp    *upstream.Response
	watched *stamp.Watched          // the client's socket, while its leaving is watched for
	body    *bodyReader             // the request's, nil without one
	carried atomic.Pointer[carried] // set while an event loop has it, or its response
	away    *relay.Exchange         // what an event loop has left to do; nil if all

	reading atomic.Pointer[clientConn] // set while the request's body is read

	once sync.Once
}

// halt says that an exchange was ended, and why. A context that does, which an event
// loop has no use for, would be three allocations for each short request.
type halt struct {
	mu     sync.Mutex
	why    error                   // nil while it goes on
	cancel context.CancelCauseFunc // of the context; nil while nobody has asked for one
	ctx    context.Context
}

// end ends it, once.
func (h *halt) end(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != nil {
		return
	}
	h.why = why
	if h.cancel != nil {
		h.cancel(why)
	}
}

// cause is what end was called with, nil before.
func (h *halt) cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}

// context returns one that end cancels. It ends the dial, the sending and every read
// of the upstream.
func (h *halt) context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(context.Background())
		if h.why != nil {
			h.cancel(h.why)
		}
	}
	return h.ctx
}

// stop ends the exchange from outside, with one of the causes above.
func (x *exchange) stop(why error) {
	x.halt.end(why)
	if c := x.carried.Load(); c != nil {
		c.cancel()
	}
	if c := x.reading.Load(); c != nil {
		_ = c.SetReadDeadline(past)
	}
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// leave is called when the client is seen to leave.
func (x *exchange) leave() { x.halt.end(errClientGone) }

// cause says why the body did not come to its end: err is what reading it gave,
// nil when the client did not take it.
func (x *exchange) cause(err error) stream.Cause {
	why := x.halt.cause()
	switch {
	case errors.Is(why, errDrained):
		return stream.Cause{Kind: stream.Drained, Err: errDrained}
	case err == nil || errors.Is(why, errClientGone):
		return stream.Cause{Kind: stream.Gone}
	case upstream.IsTimeout(err):
		if x.obs == nil || x.obs.events.Load() == 0 {
			return stream.Cause{Kind: stream.TTFTTimeout, Err: err}
		}
		return stream.Cause{Kind: stream.Stall, Err: err}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return stream.Cause{Kind: stream.Reset, Err: err}
	}
	return stream.Cause{Kind: stream.Cut, Err: err}
}

// end closes the exchange; it does so once, in every ending.
func (x *exchange) end(c stream.Cause) { x.endedAt(c, stamp.Now()) }

// endedAt is end for what was over at an instant that has passed.
func (x *exchange) endedAt(c stream.Cause, now stamp.Instant) {
	x.once.Do(func() {
		// The client's socket is the server's again from here on.
		x.watched.Disarm()
		if x.resp != nil {
			_ = x.resp.Close()
		}
		if x.away != nil && x.away.Pending != nil {
			x.away.Pending.Drop() // nobody has gone on with it
		}
		x.halt.end(errOver)
		upstream := ""
		if x.backend != nil {
			x.backend.open.Add(-1)
			upstream = x.backend.name
		}
		end := x.book(c, now)
		x.p.metrics.Request(x.route, upstream, x.status, end, now.Sub(x.received))
		if x.p.access != nil {
			x.p.access.line(x, end, now)
		}
		// Behind the record: Shutdown closes its file when nothing is open. From here
		// on /streams does not see the exchange.
		x.p.forget(x)
		if x.obs != nil {
			x.obs.recycle()
			x.obs = nil
		}
	})
}

// book finishes the record, if there is one, and returns the label "end".
func (x *exchange) book(c stream.Cause, now stamp.Instant) string {
	if c.Kind == stream.Gone {
		phase := "other"
		switch {
		case x.backend == nil:
			phase = "request"
		case x.obs != nil:
			phase = x.obs.phase()
		}
		x.p.metrics.ClientGone(phase)
	}
	switch {
	case x.obs != nil:
		return x.obs.finish(c, now, x.retries)
	case c.Kind == stream.Gone:
		return string(stream.ClientGone)
	case c.Kind == stream.EOF:
		return "plain"
	}
	return string(stream.Failed)
}
