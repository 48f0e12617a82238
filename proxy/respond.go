package proxy

import (
	"bufio"
	"bytes"
	"net"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
)

// respond passes the response on. When it returns, the server writes the header
// and then reads the body from the tap.
func (x *exchange) respond(ctx *fasthttp.RequestCtx, client *clientConn) {
	r := x.resp
	x.status = r.Status
	if r.Upgraded {
		x.upgrade(ctx, client)
		return
	}
	old := !ctx.Request.Header.IsHTTP11()
	bodyless := string(ctx.Method()) == fasthttp.MethodHead || r.Status == 204 || r.Status == 304
	if old && !bodyless && r.ContentLength < 0 {
		x.respondUntilClose(ctx, client)
		return
	}
	if !old && !bodyless && r.ContentLength < 0 && x.carry(ctx, client) {
		return
	}
	out := &ctx.Response.Header
	head := append(appendHead(make([]byte, 0, 512), &r.Head, !bodyless && r.ContentLength < 0), "\r\n"...)
	if err := parseHeader(out, head); err != nil {
		x.refuse(ctx, faultResponse, stream.Cause{Kind: stream.Cut, Err: err})
		return
	}
	if bodyless {
		// HEAD and 304 keep the length of the body they do not have.
		ctx.Response.SkipBody = true
		x.end(stream.Cause{Kind: stream.EOF})
		return
	}
	t := &tap{x: x}
	if r.ContentLength < 0 {
		t.header = out
		x.police(t, out)
	}
	// Without this the header would wait for the body's first bytes, and a
	// short body with a length for its last. One that is here already leaves
	// together with its header.
	ctx.Response.ImmediateHeaderFlush = r.ContentLength < 0 || int64(r.Buffered()) < r.ContentLength
	if r.ContentLength < 0 {
		ctx.Response.SetBodyStream(chunks{t, client}, -1)
		return
	}
	ctx.Response.SetBodyStream(t, int(r.ContentLength))
}

// headers holds what parses a header into the server's.
var headers = sync.Pool{New: func() any {
	return &headerReader{br: bufio.NewReaderSize(nil, 4<<10)}
}}

type headerReader struct {
	src bytes.Reader
	br  *bufio.Reader
}

// parseHeader gives a response's head to the server's header. It goes through
// its parser, since its setters drop Date and put a default in its place.
func parseHeader(out *fasthttp.ResponseHeader, head []byte) error {
	h := headers.Get().(*headerReader)
	defer headers.Put(h)
	h.src.Reset(head)
	if len(head) > h.br.Size() {
		h.br = bufio.NewReaderSize(&h.src, len(head))
	} else {
		h.br.Reset(&h.src)
	}
	if err := out.Read(h.br); err != nil {
		return err
	}
	// The parser takes a body without a length for one that ends with the
	// connection. Ours will be in chunks.
	out.ResetConnectionClose()
	return nil
}

// appendHead appends the head that the client gets: the upstream's without the
// fields that concern our connection to it, and without framing but for
// Content-Length. The blank line at its end is the caller's.
func appendHead(b []byte, r *upstream.Head, trailers bool) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = append(b, r.Reason...)
	b = append(b, "\r\n"...)
	connection := connectionOf(r.Fields)
	length := false
	for _, f := range r.Fields {
		switch {
		case f.Is("Trailer") && trailers:
		case f.Is("Content-Length"):
			// Beside chunks it has no meaning, and twice it is a smuggler's.
			if length || r.ContentLength < 0 {
				continue
			}
			length = true
			if bytes.IndexByte(f.Value, ',') >= 0 {
				// The same number several times: one is what a recipient must make
				// of it (RFC 9110, section 8.6), and not every client does.
				f.Value = strconv.AppendInt(nil, r.ContentLength, 10)
			}
		case isHop(f, connection):
			continue
		}
		b = f.Append(b)
	}
	return b
}

// copyTrailers adds the upstream's trailers, announced or not, to a header whose
// body is in chunks. Those that a trailer must not hold (framing, credentials)
// are left out by fasthttp.
func (x *exchange) copyTrailers(out *fasthttp.ResponseHeader) {
	fields, err := x.resp.Trailer()
	if err != nil {
		x.p.log.Debug().Err(err).Msg("trailers dropped")
		return
	}
	for _, f := range fields {
		if out.AddTrailerBytes(f.Name) == nil {
			out.AddBytesKV(f.Name, f.Value)
		}
	}
}

// respondUntilClose answers an HTTP/1.0 client with a body of unknown length. It
// knows no chunks: the body ends with the connection, and a cut one must end
// with a reset, since a FIN would make it look whole. The server's loop cannot
// do that, so the connection leaves it.
func (x *exchange) respondUntilClose(ctx *fasthttp.RequestCtx, client *clientConn) {
	head := append(appendHead(nil, &x.resp.Head, false), "Connection: close\r\n\r\n"...)
	x.p.hijacked.Add(1)
	client.hijack(ctx, func(net.Conn) {
		defer x.p.hijacked.Done()
		t := &tap{x: x}
		x.police(t, nil)
		_, err := client.Write(head)
		if err == nil {
			_, err = client.ReadFrom(t)
		}
		_ = t.CloseWithError(err)
		if err != nil || !t.whole {
			_ = client.Abort()
		}
	}, func() {
		defer x.p.hijacked.Done()
		x.end(stream.Cause{Kind: stream.Gone})
	})
}
