package upstream

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Field is one header field as on the wire: name in its own case, value without
// the padding around it.
type Field struct {
	Name, Value []byte
}

// Is reports whether the field's name is name, in any case.
func (f Field) Is(name string) bool { return len(f.Name) == len(name) && fold(f.Name, name) }

// Append appends the field's line to dst.
func (f Field) Append(dst []byte) []byte {
	return append(append(append(append(dst, f.Name...), ": "...), f.Value...), "\r\n"...)
}

// fold compares ASCII of equal length without case.
func fold(b []byte, s string) bool {
	for i := range b {
		x, y := b[i], s[i]
		if 'A' <= x && x <= 'Z' {
			x |= 0x20
		}
		if 'A' <= y && y <= 'Z' {
			y |= 0x20
		}
		if x != y {
			return false
		}
	}
	return true
}

// Request is a request to be written. Nothing in it is changed or kept after
// Do has returned an error or a Response.
type Request struct {
	Method string // "" is GET
	Target []byte // as in the request line: /v1/chat/completions?x=1; nil is /
	// Header is written as it stands: order, case and duplicates. A Host field
	// is added in front if there is none. The value of a Content-Length or
	// Transfer-Encoding field is replaced, in its place, by the one that
	// frames the body below; a second such field is left out.
	Header []Field
	// Body is the whole body. Such a request can be sent again.
	Body []byte
	// BodyStream is read and sent if Body is nil: BodySize bytes, or until
	// io.EOF in chunks if BodySize is negative. It is not sent again.
	BodyStream io.Reader
	BodySize   int64
	// Interim, if not nil, is called with each interim response (1xx but for
	// 101). The fields are valid during the call.
	Interim func(status int, header []Field)
}

func (r *Request) method() string {
	if r.Method == "" {
		return "GET"
	}
	return r.Method
}

func (r *Request) replayable() bool { return r.Body != nil || r.BodyStream == nil }

// chunked reports whether the body goes out in chunks.
func (r *Request) chunked() bool { return r.Body == nil && r.BodyStream != nil && r.BodySize < 0 }

func (r *Request) size() int64 {
	if r.Body != nil || r.BodyStream == nil {
		return int64(len(r.Body))
	}
	return r.BodySize
}

// framed reports whether the head must tell the body's length even if it is 0:
// RFC 9110, section 8.6, asks for it where a body is usual.
func (r *Request) framed() bool {
	switch r.method() {
	case "POST", "PUT", "PATCH":
		return true
	}
	return r.Body != nil || r.BodyStream != nil
}

// appendHead appends the request's head to dst. host is for a request that
// names none.
func (r *Request) appendHead(dst []byte, host string) ([]byte, error) {
	if !IsToken([]byte(r.method())) {
		return dst, fmt.Errorf("method %q is not a token", r.Method)
	}
	if slices.ContainsFunc(r.Target, func(c byte) bool { return c <= ' ' || c == 0x7f }) {
		return dst, fmt.Errorf("request target %q has a space or control character", r.Target)
	}
	dst = append(append(dst, r.method()...), ' ')
	if len(r.Target) == 0 {
		dst = append(dst, '/')
	}
	dst = append(append(dst, r.Target...), " HTTP/1.1\r\n"...)
	named := false
	for _, f := range r.Header {
		named = named || f.Is("Host")
	}
	if !named {
		dst = append(append(append(dst, "Host: "...), host...), "\r\n"...)
	}
	framed := false
	for _, f := range r.Header {
		if !IsToken(f.Name) {
			return dst, fmt.Errorf("header name %q is not a token", f.Name)
		}
		if slices.ContainsFunc(f.Value, func(c byte) bool { return c == '\r' || c == '\n' || c == 0 }) {
			return dst, fmt.Errorf("value of header %q has a line break or NUL", f.Name)
		}
		if !f.Is("Content-Length") && !f.Is("Transfer-Encoding") {
			dst = f.Append(dst)
			continue
		}
		if framed || r.chunked() != f.Is("Transfer-Encoding") {
			continue
		}
		dst = r.appendFraming(dst, f.Name)
		framed = true
	}
	switch {
	case framed:
	case r.chunked():
		dst = r.appendFraming(dst, []byte("Transfer-Encoding"))
	case r.framed():
		dst = r.appendFraming(dst, []byte("Content-Length"))
	}
	return append(dst, "\r\n"...), nil
}

func (r *Request) appendFraming(dst, name []byte) []byte {
	dst = append(append(dst, name...), ": "...)
	if r.chunked() {
		dst = append(dst, "chunked"...)
	} else {
		dst = strconv.AppendInt(dst, r.size(), 10)
	}
	return append(dst, "\r\n"...)
}

const (
	// slice is the most that one write takes, so that the write limit is one
	// on progress and not on the size of the body.
	slice = 256 << 10
	// joined is the size up to which head and body leave in one write. A
	// larger body is not copied: prompts have megabytes.
	joined = 8 << 10
)

// write sends the request to cn. An error that is not the connection's comes as
// *Error.
func (r *Request) write(cn *conn, host string) error {
	out := outs.Get().(*[]byte)
	defer func() {
		if cap(*out) <= maxOut {
			outs.Put(out)
		}
	}()
	head, err := r.appendHead((*out)[:0], host)
	*out = head
	if err != nil {
		return &Error{Op: OpWrite, Err: err}
	}
	if r.replayable() {
		body := r.Body
		if len(head)+len(body) <= joined {
			*out = append(head, body...)
			head, body = *out, nil
		}
		if err := cn.write(head); err != nil {
			return err
		}
		for b := body; len(b) > 0; b = b[min(slice, len(b)):] {
			if err := cn.write(b[:min(slice, len(b))]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := cn.write(head); err != nil {
		return err
	}
	return r.copyStream(cn)
}

func (r *Request) copyStream(cn *conn) error {
	const room = 10 // of "ffff\r\n" before a chunk, and more
	buf := make([]byte, room+32<<10+2)
	left := r.BodySize
	for r.BodySize < 0 || left > 0 {
		data := buf[room : len(buf)-2]
		if r.BodySize >= 0 {
			data = data[:min(int64(len(data)), left)]
		}
		n, err := r.BodyStream.Read(data)
		if n > 0 {
			out := data[:n]
			if r.BodySize < 0 {
				size := append(strconv.AppendInt(nil, int64(n), 16), "\r\n"...)
				begin := room - len(size)
				copy(buf[begin:], size)
				out = append(buf[begin:room+n], "\r\n"...)
			}
			if err := cn.write(out); err != nil {
				return err
			}
			left -= int64(n)
		}
		switch {
		case err == io.EOF && r.BodySize < 0:
			return cn.write([]byte("0\r\n\r\n"))
		case err == io.EOF && left > 0:
			return &Error{Op: OpRequestBody, Err: fmt.Errorf("%d of %d bytes missing: %w", left, r.BodySize, io.ErrUnexpectedEOF)}
		case err != nil && err != io.EOF:
			return &Error{Op: OpRequestBody, Err: err}
		}
	}
	return nil
}
