package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/metrics"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
	"github.com/streamgauge/streamgauge/wire"
)

// handle serves one request of the data port.
func (p *Proxy) handle(ctx *fasthttp.RequestCtx) {
	client, ok := ctx.Conn().(*clientConn)
	if !ok {
		panic("proxy: a connection that is not from our listener")
	}
	x := client.begun
	client.begun = nil
	if x == nil {
		x = p.begin(new(exchange), ctx.Request.Header.RequestURI(), ctx.Method(), stamp.Now())
		x.client = ctx.RemoteAddr()
		if !p.admit(x) {
			x.refuse(ctx, faultDraining, stream.Cause{Kind: stream.Drained})
			return
		}
	}
	defer func() {
		if r := recover(); r != nil {
			p.panicked(r, x.route)
			x.refuse(ctx, faultInternal, stream.Cause{Kind: stream.Cut})
		}
	}()
	x.serve(ctx, client)
	if p.leaving() {
		// The server sees to that only while its own shutdown lasts, and that is
		// over when it has no client, though a loop may still give it one.
		ctx.Response.SetConnectionClose()
	}
}

// begin sets up an exchange that is zero.
func (p *Proxy) begin(x *exchange, uri, method []byte, received stamp.Instant) *exchange {
	x.p, x.route, x.received, x.method = p, metrics.Route(uri), received, knownMethod(method)
	return x
}

// panicked notes a panic in what serves a request.
func (p *Proxy) panicked(r any, route string) {
	p.metrics.Panics.Inc()
	p.log.Error().Str("panic", fmt.Sprintf("%T", r)).Str("route", route).Msg("a request's handler failed")
}

// refuse answers with a fault and ends the exchange. The connection is kept
// where the fault is the upstream's and the whole request was read.
func (x *exchange) refuse(ctx *fasthttp.RequestCtx, f fault, c stream.Cause) {
	keep := f.status >= 500 && f != faultDraining && (x.body == nil || x.body.ended)
	f.reply(ctx, !keep)
	x.status = f.status
	x.leaveUnread(ctx)
	x.end(c)
}

// leaveUnread tells the connection that the client may still be sending, or has
// sent what nobody will read.
func (x *exchange) leaveUnread(ctx *fasthttp.RequestCtx) {
	c, ok := ctx.Conn().(*clientConn)
	if !ok {
		return
	}
	if x.body != nil && !x.body.ended || ctx.Request.Header.ConnectionClose() && errors.Is(c.Quiet(), stamp.ErrDirty) {
		c.unread.Store(true)
	}
}

func (x *exchange) serve(ctx *fasthttp.RequestCtx, client *clientConn) {
	client.asked.Store(true)
	if string(ctx.Method()) == fasthttp.MethodConnect {
		x.refuse(ctx, faultMethod, stream.Cause{Kind: stream.EOF})
		return
	}
	req := upstream.Request{Method: string(ctx.Method())}
	head := readHead(ctx.Request.Header.RequestURI(), ctx.Request.Header.RawHeaders())
	req.Header = head.fields

	if head.bad {
		x.refuse(ctx, faultRequest, stream.Cause{Kind: stream.EOF})
		return
	}
	body, err := x.readBody(ctx, client, &req, &head)
	x.received, _ = client.Stamp()
	switch {
	case err != nil && errors.Is(x.halt.cause(), errDrained):
		x.refuse(ctx, faultDraining, stream.Cause{Kind: stream.Drained})
		return
	case errors.Is(err, errTooLarge):
		x.refuse(ctx, faultTooLarge, stream.Cause{Kind: stream.EOF})
		return
	case upstream.IsTimeout(err):
		x.refuse(ctx, faultSlow, stream.Cause{Kind: stream.EOF})
		return
	case err != nil:
		x.refuse(ctx, faultRequest, stream.Cause{Kind: stream.Gone, Err: err})
		return
	}
	if !x.p.cfg.KeepHalfClosed {
		x.watched = client.watch(x.p.watcher)
		x.watched.Arm(x.leave)
	}
	if ctx.ConnRequestNum() == 1 && ctx.Request.Header.IsHTTP11() {
		// Later on the server may hold the end of the response before in its
		// buffer, and what is written past that would come first.
		req.Interim = func(status int, fields []upstream.Field) { writeInterim(client, status, fields) }
	}
	if x.backend == nil {
		x.pickBackend(nil)
	}
	x.observe(&req, &head, body)
	if err := x.send(&req, &head); err != nil {
		x.fail(ctx, err)
		return
	}
	if req.BodyStream != nil {
		// Its last byte was read while it was sent.
		x.received, _ = client.Stamp()
	}
	if x.obs != nil {
		if x.body != nil {
			x.obs.watch.bytes = x.body.read
		}
		x.obs.answered(&x.resp.Head, x.received)
	}
	x.leaveUnread(ctx)
	x.respond(ctx, client)
}

// inlineFacts is the size up to which a body is scanned for its model before it
// is sent: some 20 µs. The scan of a larger one runs beside the sending.
const inlineFacts = 32 << 10

// observe sets up the metering of a request that generates text.
func (x *exchange) observe(req *upstream.Request, head *requestHead, body []byte) {
	path, _, _ := bytes.Cut(head.uri, []byte{'?'})
	dialect := wire.ForPath(path)
	if dialect == wire.Unknown || req.Method != fasthttp.MethodPost {
		return
	}
	if slices.Contains(x.p.rules.Load().usage, x.route) {
		if asking, changed := wire.AskUsage(dialect, body); changed {
			body, req.Body = asking, asking
		}
	}
	if x.obs != nil {
		return // an event loop had begun with it
	}
	id := head.id
	if id == "" {
		id = x.p.newID()
	}
	o := x.p.newObserver(id, x.route, &x.backend.name, dialect)
	o.begun = x.received
	x.obs = o
	if len(body) <= inlineFacts {
		o.learn(body)
	} else {
		o.facts.Go(func() { o.learn(body) })
	}
	x.shown.Store(o)
}

// pickBackend takes the next upstream; false when all were tried.
func (x *exchange) pickBackend(tried []*backend) bool {
	b := x.p.pick(tried)
	if b == nil {
		return false
	}
	if x.backend != nil {
		x.backend.open.Add(-1)
	}
	b.open.Add(1)
	x.backend = b
	return true
}

// send sends the request and waits for the response's header. While no
// connection can be made and the body is at hand, the other upstreams are
// tried.
func (x *exchange) send(req *upstream.Request, head *requestHead) error {
	var tried []*backend
	for {
		req.Target = head.target(x.backend.prefix)
		resp, err := x.ask(req)
		if err == nil {
			x.resp = resp
			x.answered(resp.Retries)
			return nil
		}
		var ue *upstream.Error
		if errors.As(err, &ue) {
			x.retries = ue.Retries
		}
		if x.halt.cause() != nil || errors.Is(err, upstream.ErrNoFreeConns) || ue == nil || ue.Op == upstream.OpRequestBody {
			return err
		}
		x.backend.failed()
		tried = append(tried, x.backend)
		if ue.Op != upstream.OpConnect || req.BodyStream != nil || !x.pickBackend(tried) {
			return err
		}
		if x.obs != nil {
			x.obs.moved(&x.backend.name)
		}
	}
}

// answered notes that the upstream has answered.
func (x *exchange) answered(retries int) {
	x.backend.answered()
	if x.retries = retries; retries > 0 {
		x.p.metrics.UpstreamRetry("stale")
	}
}

// ask sends the request to the upstream that was picked, or goes on where an event
// loop has left off.
func (x *exchange) ask(req *upstream.Request) (*upstream.Response, error) {
	away := x.away
	x.away = nil
	switch {
	case away == nil:
	case away.Err != nil:
		return nil, away.Err
	case away.Pending != nil:
		return away.Pending.Adopt(x.halt.context(), req)
	}
	return x.backend.client.Do(x.halt.context(), req)
}

// fail answers for an upstream that did not.
func (x *exchange) fail(ctx *fasthttp.RequestCtx, err error) {
	var ue *upstream.Error
	errors.As(err, &ue)
	if x.obs != nil && ue != nil && ue.Sent != 0 {
		x.obs.sentAt(ue.Sent)
	}
	why := x.halt.cause()
	f, c := faultClosed, x.cause(err)
	switch {
	case errors.Is(why, errClientGone):
		// Nobody is there to read an answer. Metrics have status 0.
		if client, ok := ctx.Conn().(*clientConn); ok {
			client.hijack(ctx, func(net.Conn) {}, func() {})
		}
		x.end(c)
		return
	case errors.Is(why, errDrained):
		f = faultDraining
	case errors.Is(err, errTooLarge):
		f, c = faultTooLarge, stream.Cause{Kind: stream.EOF}
	case ue == nil:
	case ue.Op == upstream.OpRequestBody && ue.Timeout():
		f, c = faultSlow, stream.Cause{Kind: stream.EOF}
	case ue.Op == upstream.OpRequestBody:
		f, c = faultRequest, stream.Cause{Kind: stream.Gone}
	case errors.Is(err, upstream.ErrNoFreeConns):
		f, c.Kind = faultPoolFull, stream.Connect
	case ue.Op == upstream.OpConnect:
		f, c.Kind = faultConnect, stream.Connect
	case ue.Timeout():
		f = faultHeaderWait
	case ue.Op == upstream.OpHeader && !errors.Is(err, io.ErrUnexpectedEOF):
		f = faultResponse
	}
	x.p.faults.Warn().Str("route", x.route).Str("upstream", x.backend.name).Str("reason", f.reason).Err(err).Msg("no response from the upstream")
	x.refuse(ctx, f, c)
}

// writeInterim passes a 1xx response on. 100 is not: the server has sent its
// own, before the body was read.
func writeInterim(client *clientConn, status int, fields []upstream.Field) {
	if status == fasthttp.StatusContinue {
		return
	}
	b := append([]byte("HTTP/1.1 "), strconv.Itoa(status)...)
	b = append(b, ' ')
	b = append(b, fasthttp.StatusMessage(status)...)
	b = append(b, "\r\n"...)
	connection := connectionOf(fields)
	for _, f := range fields {
		if !isHop(f, connection) {
			b = f.Append(b)
		}
	}
	// An error here is the client's leaving; the response's own write, or the
	// watcher, tells.
	_, _ = client.Write(append(b, "\r\n"...))
}
