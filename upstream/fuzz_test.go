package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"testing"
)

// However the bytes are cut, the same data and the same verdict come out; and
// where net/http reads a clean body too, it reads the same one.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{
		"5\r\nhello\r\n0\r\n\r\n",
		"0a;x=\"y\"\r\n0123456789\r\n00\r\nT: v\r\nU: w\r\n\r\nmore",
		"1\r\na\r\n1\r\nb\r\n0\r\n",
		"fffffffffffffff\r\n",
		"1\na\n0\n\n",
		"",
	} {
		f.Add([]byte(s), uint8(1))
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		var whole chunked
		b := bytes.Clone(in)
		n, used, err := whole.decode(b)
		want := b[:n]

		var parts chunked
		var got []byte
		var perr error
		total := 0
		for rest := in; len(rest) > 0 && perr == nil && parts.state != chunkEnd; {
			p := bytes.Clone(rest[:min(len(rest), int(size)+1)])
			rest = rest[len(p):]
			n, u, e := parts.decode(p)
			got = append(got, p[:n]...)
			total += u
			perr = e
		}
		if !bytes.Equal(got, want) || (err == nil) != (perr == nil) || total != used || parts.state != whole.state {
			t.Fatalf("in pieces: got %q, %v, %d used, state %d; whole: %q, %v, %d, %d", got, perr, total, parts.state, want, err, used, whole.state)
		}
		if whole.state != chunkEnd {
			return
		}
		if _, err := appendFields(nil, append(bytes.Clone(whole.trailer), "\r\n"...)); err != nil {
			return // a bad trailer section, which httputil does not read
		}
		theirs, terr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(in)))
		if terr == nil && !bytes.Equal(theirs, want) {
			t.Fatalf("got %q, net/http reads %q", want, theirs)
		}
	})
}

// A head is refused, or it is one that can be framed and forwarded; and where
// net/http takes it too, status, fields and framing agree.
func FuzzHead(f *testing.F) {
	for _, s := range []string{
		okay,
		chunkedHead,
		"HTTP/1.0 200\r\n\r\n",
		"HTTP/1.1 200 OK\nA: b\n c\n\n",
		"HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 1,1\r\n\r\n",
		"HTTP/1.1 204 No\r\nTransfer-Encoding: identity\r\n\r\n",
		"HTTP/1.1 101 Up\r\nUpgrade: x\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		n := headEnd(in, 0)
		for k := 1; k <= len(in); k++ { // as the bytes come in
			if m := headEnd(in[:k], k-1); m >= 0 {
				if m != n {
					t.Fatalf("end at %d when read to %d, at %d whole", m, k, n)
				}
				break
			}
		}
		if n < 0 {
			return
		}
		var h head
		if h.parse(bytes.Clone(in[:n])) != nil {
			return
		}
		for _, fd := range h.fields {
			if !IsToken(fd.Name) || bytes.ContainsAny(fd.Value, "\r\n\x00") {
				t.Fatalf("field %q: %q cannot be forwarded", fd.Name, fd.Value)
			}
		}
		how, err := h.framing("GET")
		if err != nil {
			return
		}
		theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), nil)
		if err != nil {
			return
		}
		defer theirs.Body.Close()
		if theirs.StatusCode != h.status {
			t.Fatalf("got status %d, net/http reads %d", h.status, theirs.StatusCode)
		}
		if how.kind == byLength && theirs.ContentLength != how.length {
			t.Fatalf("got length %d, net/http reads %d", how.length, theirs.ContentLength)
		}
	})
}
