package proxy

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/relay"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
)

// front decides for the event loops about what clients send. A plain request goes on
// by the loop; everything else, and what of a plain one the loop is not made for, is
// fasthttp's.
type front struct {
	p      *Proxy
	loop   *relay.Loop
	fields []upstream.Field // of the request that is read
	head   []byte           // of the response that is passed on
	free   []*plainExchange // of exchanges that are over
}

// headRoom is the room for a head and what comes of the body with it; more is
// allocated.
const headRoom = 4 << 10

// requestRoom is how much longer a request may be when it is passed on, as a rule.
const requestRoom = 128

// plainExchange is all of an exchange that the loop carries out, in one piece of
// memory: together they come and go.
type plainExchange struct {
	exchange
	answer  carried
	relayed relay.Exchange
}

// keepExchanges is how many are kept to be used again.
const keepExchanges = 64

// exchange returns an empty one.
func (f *front) exchange() *plainExchange {
	n := len(f.free) - 1
	if n < 0 {
		return new(plainExchange)
	}
	all := f.free[n]
	f.free = f.free[:n]
	return all
}

// recycle lets another request have an exchange that is over. It is the loop that calls
// it, which has told its end, and nobody else has it: it is not among the open ones.
func (f *front) recycle(all *plainExchange) {
	if len(f.free) < keepExchanges {
		*all = plainExchange{}
		f.free = append(f.free, all)
	}
}

// Request begins the exchange of a plain request.
func (f *front) Request(client *stamp.Raw, b, room []byte) (out *relay.Exchange) {
	p := f.p
	plain, ok := readPlain(b, f.fields[:0])
	if !ok || plain.size > p.cfg.MaxHeader || len(plain.body) > p.cfg.BufferBody || int64(len(plain.body)) > p.cfg.MaxBody {
		return nil
	}
	head := &plain.head
	f.fields = head.fields
	received, _ := client.Stamp()
	all := f.exchange()
	x := p.begin(&all.exchange, head.uri, plain.method, received)
	if p.access != nil {
		x.client = client.Peer()
	}
	if !p.admit(x) {
		return nil
	}
	p.hijacked.Add(1)
	defer func() {
		if r := recover(); r != nil {
			p.panicked(r, x.route)
			x.end(stream.Cause{Kind: stream.Cut})
			p.hijacked.Done()
			out = nil
		}
	}()
	x.pickBackend(nil)
	be := x.backend
	req := upstream.Request{Method: x.method, Header: head.fields, Target: head.target(be.prefix)}
	if head.sized {
		req.Body = plain.body
	}
	x.observe(&req, head, plain.body)
	if x.obs != nil {
		x.obs.watch.bytes = int64(len(plain.body))
	}
	c := &all.answer
	*c = carried{x: x, obs: x.obs, loop: f.loop, front: f, last: plain.last, all: all}
	out = &all.relayed
	out.To, out.User, out.Method, out.Answer = be.client, p.cfg.UserStamps, req.Method, c
	out.StayHalfClosed = p.cfg.KeepHalfClosed
	// The request as it came, and behind it as it is sent, in one piece of memory.
	if need := 2*len(b) + requestRoom; cap(room) < need {
		room = make([]byte, 0, need)
	}
	both := append(room, b...)
	out.Early, out.Room = both[:len(b):len(b)], both
	if out.Addr, ok = be.client.Direct(); ok {
		if request, err := be.client.AppendRequest(both, &req); err == nil {
			out.Request, out.Room = request[len(b):], request
		}
	}
	c.s = &out.Stream
	x.carried.Store(c)
	if x.halt.cause() != nil {
		c.cancel() // it came in between
	}
	return out
}

// Head passes a response's head on.
func (c *carried) Head(h *upstream.Head, chunked bool) (head []byte, last, ok bool) {
	x := c.x
	x.status = h.Status
	if x.policy() != Observe {
		x.status = 0 // it is passed on by another
		return nil, false, false
	}
	x.answered(h.Retries)
	if x.obs != nil {
		x.obs.answered(h, x.received)
	}
	c.front.head = c.head(c.front.head[:0], h, chunked)
	return c.front.head, c.last, true
}

// Serve gives a client to the server, with an exchange that the loop does not go on
// with.
func (f *front) Serve(client *stamp.Raw, early []byte, rx *relay.Exchange) {
	p := f.p
	p.openMu.Lock()
	cutting := p.cutting
	if !cutting {
		p.resumed.Add(1)
	}
	p.openMu.Unlock()
	if cutting {
		_ = client.Close() // no exchange is open any more
		return
	}
	var x *exchange
	if rx != nil {
		x = rx.Answer.(*carried).x
		x.carried.Store(nil)
		x.away = rx
		p.hijacked.Done() // it is a connection of resumed now
	}
	go func() {
		defer p.resumed.Done()
		p.resume(client, early, x)
	}()
}

// Linger lets a client read its answer before its connection is closed.
func (f *front) Linger(client *stamp.Raw) {
	f.p.background.Go(func() {
		conn, err := client.Attach()
		if err != nil {
			return
		}
		c := &clientConn{Conn: conn}
		c.unread.Store(true)
		_ = c.Close()
	})
}

// Left counts the delay that the proxy added.
func (f *front) Left(arrived, left stamp.Instant) {
	f.p.metrics.AddedDelay.Update(left.Sub(arrived).Seconds())
}

// Refused logs that a connection could not be accepted.
func (f *front) Refused(err error) {
	f.p.faults.Warn().Err(err).Msg("a connection could not be accepted")
}

// plain is a request of the plainest shape, in one piece. It points into what was
// read.
type plain struct {
	method []byte
	head   requestHead
	size   int // of the head, to the blank line
	body   []byte
	last   bool // Connection: close
}

// plainMost is the size up to which a request is the loop's: the tokens of others
// wait meanwhile, some 10 µs.
const plainMost = 16 << 10

// A plain request's body lies in the loop's buffer, and is therefore scanned at once,
// also when it asks for more than its client did.
const _ = uint(inlineFacts - 2*plainMost)

// readPlain reads a request about whose meaning there can be no doubt: HTTP/1.1,
// lines that end with CRLF, fields with a token for a name and visible text for a
// value, one Host, and a body that is all there is behind the header. ok is false for
// all others, good or bad, and for those that ask for more than an answer. The head's
// fields are appended to fields; they are those that readHead keeps.
func readPlain(b []byte, fields []upstream.Field) (r plain, ok bool) {
	n := bytes.Index(b, []byte("\r\n\r\n"))
	if n < 0 || len(b) > plainMost {
		return r, false
	}
	r.size, r.body = n+4, b[n+4:]
	line, block, _ := bytes.Cut(b[:r.size], []byte("\r\n"))
	if r.method, line, ok = bytes.Cut(line, []byte{' '}); !ok {
		return r, false
	}
	version := len(line) - len(" HTTP/1.1")
	if version < 1 || string(line[version:]) != " HTTP/1.1" || line[0] != '/' {
		return r, false
	}
	r.head = requestHead{uri: line[:version], fields: fields}
	if slices.ContainsFunc(r.head.uri, func(c byte) bool { return c <= ' ' || c >= 0x7f }) {
		return r, false
	}
	hosts, length, kept := 0, -1, 0
	for len(block) > 2 {
		line, block, _ = bytes.Cut(block, []byte("\r\n"))
		i := bytes.IndexByte(line, ':')
		if i < 1 || !isPlain(line[:i], line[i+1:]) {
			return r, false
		}
		f := upstream.Field{Name: line[:i], Value: upstream.Trim(line[i+1:])}
		switch {
		case f.Is("Host"):
			hosts++
			ok = len(f.Value) > 0
		case f.Is("Content-Length"):
			v, err := strconv.ParseUint(string(f.Value), 10, 31)
			ok = err == nil && length < 0
			length, r.head.sized = int(v), true
		case f.Is("Connection"):
			kept++
			r.last = (upstream.Field{Name: f.Value}).Is("close")
			ok = r.last || (upstream.Field{Name: f.Value}).Is("keep-alive")
		default:
			// What Connection may say is also the name of a field then.
			ok = !f.Is("Expect") && !f.Is("close") && !isHop(f, nil)
		}
		if !ok {
			return r, false
		}
		if !f.Is("Connection") {
			r.head.keep(f)
		}
	}
	switch string(r.method) {
	case fasthttp.MethodPost, fasthttp.MethodPut, fasthttp.MethodPatch:
		ok = length == len(r.body)
	case fasthttp.MethodGet, fasthttp.MethodDelete, fasthttp.MethodOptions:
		ok = length < 0 && len(r.body) == 0
	default:
		ok = false
	}
	return r, ok && hosts == 1 && kept <= 1
}

// isPlain reports whether a name is a token and a value has no control characters.
func isPlain(name, value []byte) bool {
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return upstream.IsToken(name)
}
