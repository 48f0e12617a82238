package upstream

import (
	"bytes"
	"errors"

	"github.com/streamgauge/streamgauge/stamp"
)

// Detached is a response whose socket is not, or no longer, one of the Client's, so
// that its bytes can be passed on as they come, framing included. Its body is in
// chunks, or has a length. One goroutine uses it.
type Detached struct {
	*stamp.Raw
	// Early is what of the body has been read with the head, framing included.
	Early []byte
	// At is the arrival of Early, and Source who stamped it.
	At     stamp.Instant
	Source stamp.Source

	client *Client
	frame  framing
	chunks chunked
	left   int64 // of a body with a length
}

// ErrAttached is Detach's answer for a response that stays what it is.
var ErrAttached = errors.New("the response cannot be detached")

// Detach ends the Response and hands over its socket. Only plain TCP on Linux has
// one, only a body in chunks tells by its own bytes where it ends, one that is here
// whole has no need of it, and without a free descriptor there is no way out:
// everything else is ErrAttached, and the Response goes on. After another error, as
// after success, it is closed; the context is no longer watched.
func (r *Response) Detach() (*Detached, error) {
	early := r.c.in[r.c.r:r.c.w:r.c.w]
	if r.frame.kind != byChunks || r.ended || !r.c.Detachable() || bytes.HasSuffix(early, []byte("0\r\n\r\n")) {
		return nil, ErrAttached
	}
	if r.isClosed() {
		return nil, ErrClosed // its connection may be another's by now
	}
	d := &Detached{Early: early, At: r.HeadersAt, Source: r.HeadersSource,
		chunks: r.chunks, client: r.client, frame: r.frame}
	raw, rest, err := r.c.Conn.Detach()
	if err != nil && r.cancelCause() == nil {
		return nil, ErrAttached
	}
	r.release()
	if err != nil || r.cause != nil {
		if raw != nil {
			_ = raw.Abort() // Cancel came in between, and this is the socket it meant
		}
		r.client.drop(r.c, true)
		return nil, r.fail(err)
	}
	d.Raw = raw
	d.Early = append(d.Early, rest...)
	return d, nil
}

func (r *Response) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Span is a range of bytes.
type Span struct{ From, To int }

// Scan follows the framing through p, what came next of the body. p[:tail] is
// body, chunks with their framing, and their data in it is appended to spans; p[tail:used] belongs to the
// trailer section, with the blank line that ends the body. What is behind used
// nobody has asked for. On an error, p[:tail] is what came before it.
func (d *Detached) Scan(p []byte, spans []Span) (tail, used int, _ []Span, err error) {
	if d.frame.kind == byLength {
		used = int(min(d.left, int64(len(p))))
		if d.left -= int64(used); used > 0 {
			spans = append(spans, Span{0, used})
		}
		d.frame.reuse = d.frame.reuse && used == len(p)
		return used, used, spans, nil
	}
	c := &d.chunks
	for used < len(p) && c.state != chunkEnd {
		if c.state == chunkData {
			k := int(min(c.left, int64(len(p)-used)))
			spans = append(spans, Span{used, used + k})
			used += k
			tail = used
			if c.left -= int64(k); c.left == 0 {
				c.state = chunkCR
			}
			continue
		}
		trailer := c.state >= chunkTrail
		if err := c.step(p[used]); err != nil {
			return tail, used, spans, err
		}
		used++
		if !trailer {
			tail = used
		}
	}
	if used < len(p) {
		d.frame.reuse = false
	}
	return tail, used, spans, nil
}

// Ended reports whether the body's end has been scanned.
func (d *Detached) Ended() bool {
	return d.frame.kind == byLength && d.left == 0 || d.chunks.state == chunkEnd
}

// Chunked reports whether the body is in chunks; else it has a length.
func (d *Detached) Chunked() bool { return d.frame.kind == byChunks }

// Reusable reports whether another request may follow: the body was scanned to its
// end, and the server keeps the connection open.
func (d *Detached) Reusable() bool { return d.frame.reuse && d.Ended() }

// Ending reports whether the last chunk has been scanned, and not yet the body's
// end: some clients take a connection that closes there for a clean end.
func (d *Detached) Ending() bool { return d.chunks.state >= chunkTrail && d.chunks.state < chunkEnd }

// Trailer returns the trailer fields; call it when the body has ended.
func (d *Detached) Trailer() ([]Field, error) { return d.chunks.fields() }

// Put ends it after a whole body: the connection goes back to the pool if the
// server keeps it open.
func (d *Detached) Put() {
	if d.Reusable() {
		if c, err := d.Attach(); err == nil {
			d.client.put(&conn{Conn: c, in: make([]byte, headSize)})
			return
		}
	} else {
		_ = d.Close()
	}
	d.client.gone(1)
}

// Drop aborts the connection.
func (d *Detached) Drop() {
	_ = d.Abort()
	d.client.gone(1)
}
