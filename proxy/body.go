package proxy

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/upstream"
)

var errTooLarge = errors.New("request body over the limit")

// readBody reads a small body whole, so that it can be sent again, and sets up a
// larger one for streaming. It returns the body's bytes when it has them all.
func (x *exchange) readBody(ctx *fasthttp.RequestCtx, client *clientConn, req *upstream.Request, head *requestHead) ([]byte, error) {
	size := int64(ctx.Request.Header.ContentLength())
	src := ctx.RequestBodyStream()
	if src == nil || size == 0 {
		if head.sized {
			req.Body = []byte{}
		}
		return nil, nil
	}
	in := &bodyReader{src: src, client: client, x: x, size: size}
	x.body = in
	if size > x.p.cfg.MaxBody {
		return nil, errTooLarge
	}
	limit := int64(x.p.cfg.BufferBody)
	if size > limit {
		req.BodyStream, req.BodySize = in, size
		return nil, nil
	}
	// Grown as the bytes come: an announced length costs its sender nothing.
	// Room for one byte more tells a body that ends here from one that goes on.
	buf := make([]byte, 0, min(max(size, 512), firstBody)+1)
	for {
		if int64(len(buf)) > limit {
			// A chunked body that is not small.
			req.BodyStream, req.BodySize = io.MultiReader(bytes.NewReader(buf), in), -1
			return nil, nil
		}
		n, err := in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
	req.Body = buf
	return buf, nil
}

// firstBody is the first size of a body's buffer.
const firstBody = 64 << 10

// bodyReader reads a request's body from its client: it bounds each read's
// silence and the whole body's length, and tells a body that was cut from one
// that ended, which the server's own reader does not.
type bodyReader struct {
	src    io.Reader
	client *clientConn
	x      *exchange
	size   int64 // announced, or -1
	read   int64
	ended  bool // the client has sent all of it
}

func (b *bodyReader) Read(p []byte) (int, error) {
	cfg := &b.x.p.cfg
	if d := cfg.ClientRead; d > 0 {
		_ = b.client.SetReadDeadline(time.Now().Add(d))
	}
	b.x.reading.Store(b.client)
	defer b.x.reading.Store(nil)
	if err := b.x.halt.cause(); err != nil {
		return 0, err // stop may have come before there was anything to end
	}
	n, err := b.src.Read(p)
	b.read += int64(n)
	if b.read > cfg.MaxBody {
		return 0, errTooLarge
	}
	if err == io.EOF && b.size >= 0 && b.read < b.size {
		err = io.ErrUnexpectedEOF
	}
	b.ended = b.ended || err == io.EOF || b.read == b.size
	return n, err
}
