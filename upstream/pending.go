package upstream

import (
	"bytes"
	"context"

	"github.com/streamgauge/streamgauge/stamp"
)

// Pending is a request that was sent over a socket of an event loop, and whose
// response's head has not come. One goroutine uses it.
type Pending struct {
	*stamp.Raw
	Client  *Client
	Method  string
	Sent    stamp.Instant // directly before the first byte of the request
	Retries int           // 1 if the request was sent a second time
	// Room and Detached, if not nil, are where Take lays its results.
	Room     *HeadRoom
	Detached *Detached

	in  []byte // of the head, without its end
	at  stamp.Instant
	src stamp.Source
}

// HeadRoom is room for one head after the other, the next of which overwrites it.
type HeadRoom struct {
	head   Head
	fields []Field
}

// Begun reports whether a byte of the response has come.
func (p *Pending) Begun() bool { return len(p.in) > 0 }

// Take takes what came next of the response. Both results are nil while the head is
// not whole. d has of the body what is in b. The error is ErrAttached for a
// response that is not for a loop, an interim or malformed one among them: Adopt
// goes on with it. What the results hold of b is valid as long as that.
func (p *Pending) Take(b []byte, at stamp.Instant, src stamp.Source) (*Head, *Detached, error) {
	p.at, p.src = at, src
	if len(p.in) > 0 {
		p.in = append(p.in, b...)
		b = p.in
	}
	room := p.Room
	if room == nil {
		room = new(HeadRoom)
	}
	h := head{fields: room.fields}
	n := headEnd(b, 0)
	if n < 0 && checkStart(b) == nil && len(b) < maxHead {
		p.Keep(b)
		return nil, nil, nil
	}
	if n < 0 || h.parse(b[:n]) != nil {
		p.Keep(b)
		return nil, nil, ErrAttached
	}
	frame, err := h.framing(p.Method)
	if err != nil || h.status < 200 || frame.kind != byChunks && frame.kind != byLength {
		p.Keep(b)
		return nil, nil, ErrAttached
	}
	room.fields = h.fields
	room.head = Head{Sent: p.Sent, HeadersAt: at, HeadersSource: src, Retries: p.Retries}
	room.head.set(&h, frame)
	d := p.Detached
	if d == nil {
		d = new(Detached)
	}
	*d = Detached{Raw: p.Raw, Early: b[n:], At: at, Source: src, client: p.Client, frame: frame, left: frame.length}
	return &room.head, d, nil
}

// Keep holds what Take was given last, for Adopt or the next Take.
func (p *Pending) Keep(b []byte) {
	if len(p.in) == 0 {
		p.in = bytes.Clone(b)
	}
}

// Adopt makes the socket one of the Client's again and reads the head as Client.Do
// does, what Take has been given first. req is the request that was sent.
func (p *Pending) Adopt(ctx context.Context, req *Request) (*Response, error) {
	sc, err := p.Attach()
	if err != nil {
		p.Client.gone(1)
		return nil, &Error{Op: OpHeaderWait, Addr: p.Client.Addr, Retries: p.Retries, Sent: p.Sent, Err: err}
	}
	cn := &conn{Conn: sc, in: make([]byte, max(headSize, len(p.in)))}
	cn.w = copy(cn.in, p.in)
	p.in = nil // p may live as long as the response
	r := &Response{Head: Head{Sent: p.Sent, HeadersAt: p.at, HeadersSource: p.src, Retries: p.Retries}, client: p.Client, c: cn}
	r.watch(ctx)
	if _, err := r.await(req, nil); err != nil {
		return nil, err
	}
	return r, nil
}

// Drop aborts the connection.
func (p *Pending) Drop() {
	_ = p.Abort()
	p.Client.gone(1)
}
