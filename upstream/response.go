package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

// Head is the head of a response.
type Head struct {
	Status int
	// Fields are the header fields as they came: order, case and duplicates,
	// hop-by-hop ones included. They are valid until the response is closed.
	Fields []Field
	// Reason is the status line's phrase, valid as long as Fields.
	Reason []byte
	// ContentLength is the length of the body (for HEAD and 304: what the
	// server says it would be), or -1.
	ContentLength int64
	// Sent is directly before the first byte of the request was written; after
	// a retry, of the second one.
	Sent stamp.Instant
	// HeadersAt is the arrival of the read that completed the head, and
	// HeadersSource who stamped it.
	HeadersAt     stamp.Instant
	HeadersSource stamp.Source
	// Retries is 1 if the request was sent a second time.
	Retries int
	// Upgraded: the server has switched protocols (101). There is no body; see
	// Takeover.
	Upgraded bool
}

// set takes what a parsed head says.
func (r *Head) set(h *head, f framing) {
	r.Status, r.Reason, r.Fields = h.status, h.reason, h.fields
	r.Upgraded = h.status == 101
	r.ContentLength = f.length
}

// Response is a response whose head has been read. One goroutine reads and
// closes it; any may call Cancel.
type Response struct {
	Head

	client *Client
	c      *conn
	frame  framing
	left   int64 // of a byLength body
	chunks chunked
	ended  bool // the body's end was read
	failed error
	at     stamp.Instant
	src    stamp.Source

	mu        sync.Mutex
	cause     error // of Cancel
	closed    bool
	unwatch   func() bool   // nil if the context cannot end
	cancelled chan struct{} // closed when the context's Cancel has returned
}

// Get returns the value of the first field called name, in any case; empty if
// there is none.
func (r *Head) Get(name string) []byte {
	for _, f := range r.Fields {
		if f.Is(name) {
			return f.Value
		}
	}
	return nil
}

// exchange sends the request and reads the head. stale: the connection was dead
// before a byte of a response came. On error the connection is gone.
func (r *Response) exchange(ctx context.Context, req *Request) (stale bool, err error) {
	r.watch(ctx)
	r.c.SetWriteLimit(r.client.WriteLimit)
	r.Sent = stamp.Now()
	werr := req.write(r.c, r.client.host())
	if werr != nil && !r.answered(werr) {
		var e *Error
		if !errors.As(werr, &e) {
			e = &Error{Op: OpWrite, Err: werr}
		}
		return IsGone(werr) && r.cancelCause() == nil, r.abandon(e)
	}
	return r.await(req, werr)
}

// watch makes the context's end cancel the response.
func (r *Response) watch(ctx context.Context) {
	if ctx.Done() == nil {
		return
	}
	r.cancelled = make(chan struct{})
	r.unwatch = context.AfterFunc(ctx, func() {
		defer close(r.cancelled)
		r.Cancel(context.Cause(ctx))
	})
}

// await reads the head; werr is what ended the writing of the request early.
func (r *Response) await(req *Request, werr error) (stale bool, err error) {
	limit := r.client.HeaderWait
	if werr != nil {
		limit = lateAnswer
	}
	got, err := r.readHead(req, limit)
	if err != nil {
		gone := IsGone(err)
		op := OpHeader
		switch {
		case got:
		case werr != nil:
			op, err = OpWrite, werr // it came first, and no answer explains it
		default:
			op = OpHeaderWait
		}
		return !got && gone && r.cancelCause() == nil, r.abandon(&Error{Op: op, Err: err})
	}
	if werr != nil {
		r.frame.reuse = false
	}
	r.c.SetReadIdle(r.client.ReadIdle)
	return false, nil
}

// lateAnswer limits the wait for an answer after a write has failed: it has come
// before, or never will.
const lateAnswer = time.Second

// answered reports whether a response may be there although the request could
// not be written: a server may refuse a large body, answer and close.
func (r *Response) answered(werr error) bool {
	var e *Error
	if errors.As(werr, &e) || r.cancelCause() != nil {
		return false
	}
	if IsTimeout(werr) {
		return errors.Is(r.c.Quiet(), stamp.ErrDirty)
	}
	return true
}

// readHead reads the head and settles the framing; got: a byte has come.
func (r *Response) readHead(req *Request, limit time.Duration) (got bool, err error) {
	c := r.c
	got = c.r < c.w
	if limit > 0 {
		// It fails on a closed connection only, and the read tells how it was.
		_ = c.SetReadDeadline(time.Now().Add(limit))
	}
	var h head
	for interim := 0; ; interim++ {
		n, err := r.fillHead(&got)
		if err != nil {
			return got, err
		}
		if err := h.parse(c.in[c.r : c.r+n]); err != nil {
			return got, err
		}
		c.r += n
		if h.status >= 200 || h.status == 101 {
			break
		}
		if interim == 100 {
			return got, errors.New("over 100 interim responses")
		}
		if req.Interim != nil {
			req.Interim(h.status, h.fields)
		}
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	}
	if limit > 0 {
		_ = c.SetReadDeadline(time.Time{})
	}
	if r.frame, err = h.framing(req.method()); err != nil {
		return got, err
	}
	r.set(&h, r.frame)
	r.left = r.frame.length
	r.ended = r.frame.kind == none || r.frame.kind == byLength && r.left == 0
	r.at, r.src = r.HeadersAt, r.HeadersSource
	return got, nil
}

// fillHead reads until a head is complete and returns its length.
func (r *Response) fillHead(got *bool) (int, error) {
	c := r.c
	looked := 0
	for {
		b := c.in[c.r:c.w]
		if err := checkStart(b); err != nil {
			return 0, err
		}
		if n := headEnd(b, looked); n >= 0 {
			return n, nil
		}
		looked = len(b)
		if len(b) >= maxHead {
			return 0, fmt.Errorf("response head over %d bytes", maxHead)
		}
		if c.w == len(c.in) {
			grown := make([]byte, min(2*len(c.in), maxHead))
			copy(grown, c.in[:c.w])
			c.in = grown
		}
		n, err := c.Read(c.in[c.w:])
		c.w += n
		if n > 0 {
			*got = true
			r.HeadersAt, r.HeadersSource = c.Stamp()
			continue
		}
		if errors.Is(err, io.EOF) && *got {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
	}
}

// abandon ends a failed exchange and completes its error.
func (r *Response) abandon(e *Error) error {
	if cause := r.cancelCause(); cause != nil {
		e.Err = cause
	}
	e.Addr, e.Retries, e.Sent = r.client.Addr, r.Retries, r.Sent
	r.release()
	r.client.drop(r.c, true)
	return e
}

// Read returns bytes of the body, all of one socket read, as soon as there are
// any. io.EOF is the clean end. Every other error is an *Error: of
// io.ErrUnexpectedEOF if the connection was closed before the end, of
// syscall.ECONNRESET after a reset, of the cause after Cancel or the end of the
// context, and a timeout after ReadIdle.
//
// A large p is best: the framing is read into it too.
func (r *Response) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if r.ended {
			return 0, io.EOF
		}
		if r.failed != nil {
			return 0, r.failed
		}
		raw, err := r.readSocket(p)
		if raw == 0 && err != nil {
			return 0, r.end(err)
		}
		n, err := r.decode(p[:raw])
		if err != nil {
			err = r.fail(err)
		}
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// readSocket returns what came with the head, then what the socket gives.
func (r *Response) readSocket(p []byte) (int, error) {
	if r.frame.kind == byLength {
		p = p[:min(int64(len(p)), r.left)]
	}
	c := r.c
	if c.r < c.w {
		n := copy(p, c.in[c.r:c.w])
		c.r += n
		return n, nil // r.at is still the head's
	}
	n, err := c.Read(p)
	if n > 0 {
		r.at, r.src = c.Stamp()
	}
	return n, err
}

// decode takes the framing out of p, in place.
func (r *Response) decode(p []byte) (n int, err error) {
	switch r.frame.kind {
	case byLength:
		r.left -= int64(len(p))
		r.ended = r.left == 0
	case byChunks:
		n, used, err := r.chunks.decode(p)
		r.ended = r.chunks.state == chunkEnd
		if used < len(p) {
			r.frame.reuse = false // bytes that no request has asked for
		}
		return n, err
	}
	return len(p), nil
}

// end judges a socket error in the body.
func (r *Response) end(err error) error {
	if errors.Is(err, io.EOF) && r.cancelCause() == nil {
		if r.frame.kind == byClose {
			r.ended = true
			return io.EOF
		}
		err = io.ErrUnexpectedEOF
	}
	return r.fail(err)
}

func (r *Response) fail(err error) error {
	if cause := r.cancelCause(); cause != nil {
		err = cause
	}
	r.failed = &Error{Op: OpBody, Addr: r.client.Addr, Retries: r.Retries, Sent: r.Sent, Err: err}
	return r.failed
}

// Buffered returns how many bytes of the body, with its framing, have been read
// from the socket and not yet handed out: a Read that finds them does not wait.
func (r *Response) Buffered() int { return r.c.w - r.c.r + r.c.Buffered() }

// At returns the arrival of the bytes of the last Read, and who stamped it.
func (r *Response) At() (stamp.Instant, stamp.Source) { return r.at, r.src }

// Trailer returns the trailer fields of a chunked body; call it after io.EOF.
func (r *Response) Trailer() ([]Field, error) {
	return r.chunks.fields()
}

// Cancel ends the response from any goroutine: the connection is aborted, and a
// blocked Read returns an *Error of err (nil: context.Canceled). After Close,
// or a first Cancel, it does nothing.
func (r *Response) Cancel(err error) {
	if err == nil {
		err = context.Canceled
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.cause != nil {
		return
	}
	r.cause = err
	_ = r.c.Abort()
}

func (r *Response) cancelCause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cause
}

// release ends the watch on the context; it reports false if it was done
// before. No Cancel touches the connection afterwards.
func (r *Response) release() bool {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if first && r.unwatch != nil && !r.unwatch() {
		<-r.cancelled
	}
	return first
}

// Close ends the response. The connection goes back to the pool if the body
// was read to its end and the server keeps it open; it is aborted if the body
// was not read to its end.
func (r *Response) Close() error {
	if !r.release() {
		return nil
	}
	switch {
	case r.cause != nil || !r.ended:
		r.client.drop(r.c, true)
	case r.frame.reuse && r.c.r == r.c.w && !r.Upgraded:
		r.client.put(r.c)
	default:
		r.client.drop(r.c, false)
	}
	return nil
}

// Takeover hands over the connection of an Upgraded response, with the bytes
// that came behind the head. The Response is closed by it, the context is no
// longer watched, and the connection has no time limits.
func (r *Response) Takeover() (c *stamp.Conn, early []byte, err error) {
	if !r.Upgraded {
		return nil, nil, fmt.Errorf("takeover of a response with status %d", r.Status)
	}
	if !r.release() {
		return nil, nil, ErrClosed
	}
	r.client.gone(1)
	if r.cause != nil {
		return nil, nil, ErrClosed // Cancel has closed the connection
	}
	r.c.SetReadIdle(0)
	r.c.SetWriteLimit(0)
	return r.c.Conn, r.c.in[r.c.r:r.c.w], nil
}
