package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// frontCases are requests, and whether they are plain.
func frontCases() (cases []struct {
	name, raw string
	plain     bool
}) {
	add := func(name, raw string, plain bool) {
		cases = append(cases, struct {
			name, raw string
			plain     bool
		}{name, raw, plain})
	}
	body := func(lines ...string) string {
		return "POST /x HTTP/1.1\r\nHost: a\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\nhello"
	}
	bare := func(lines ...string) string {
		return "GET /x HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	line := func(l string) string { return l + "\r\nHost: a\r\n\r\n" }

	add("a POST", body("Content-Length: 5"), true)
	add("a GET", bare("Host: a"), true)
	add("a PUT", strings.Replace(body("Content-Length: 5"), "POST", "PUT", 1), true)
	add("a PATCH", strings.Replace(body("Content-Length: 5"), "POST", "PATCH", 1), true)
	add("a DELETE", line("DELETE /x HTTP/1.1"), true)
	add("OPTIONS of a path", line("OPTIONS /x HTTP/1.1"), true)
	add("no body of length 0", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", true)

	for _, l := range []string{
		"Content-Length: 05", "Content-Length:5", "content-length: 5", "Content-Length: \t5 ",
	} {
		add("length "+l, body(l), true)
	}
	for _, l := range []string{
		"Content-Length: +5", "Content-Length: -5", "Content-Length: 5,5", "Content-Length: 5, 5", "Content-Length: 5 5",
		"Content-Length: 0x5", "Content-Length: 5_0", "Content-Length: 5.0", "Content-Length: 1e1", "Content-Length: \"5\"",
		"Content-Length: ", "Content-Length:", "Content-Length: 4", "Content-Length: 6", "Content-Length: ٥",
		"Content-Length: 5\x0b", "Content-Length: \x0c5", "Content-Length: 5\x00", "Content-Length: 5\r", "Content-Length: 5;",
		"Content-Length: 4294967301", "Content-Length: 18446744073709551621", "Content-Length: 99999999999999999999999",
		"Content-Length : 5", "Content-Length\t: 5", " Content-Length: 5", "\tContent-Length: 5", "Content-Length:\r\n 5", "Content-Length: 5\r\n 0",
		"Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 4", "Content-Length: 5\r\ncontent-length: 5",
		"Content_Length: 5", "X-Content-Length: 5",
		"Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
		"Transfer-Encoding: chunked", "Transfer-Encoding: identity\r\nContent-Length: 5", "Transfer-Encoding : chunked\r\nContent-Length: 5",
		"Transfer-Encoding: xchunked\r\nContent-Length: 5", "Transfer-Encoding:\tchunked\r\nContent-Length: 5", "Transfer-Encoding: chunked, identity\r\nContent-Length: 5",
		"transfer-encoding: Chunked\r\nContent-Length: 5", "Transfer-Encoding:\r\n chunked\r\nContent-Length: 5", "X: y\nTransfer-Encoding: chunked\r\nContent-Length: 5",
		"X: y\rTransfer-Encoding: chunked\r\nContent-Length: 5", "Transfer-Encoding\x00: chunked\r\nContent-Length: 5",
	} {
		add(fmt.Sprintf("framing %q", l), body(l), false)
	}
	add("a body without a length", body("X: y"), false)
	add("no body, no length", "POST /x HTTP/1.1\r\nHost: a\r\n\r\n", false)
	add("GET with length 0", bare("Host: a", "Content-Length: 0"), false)
	add("GET with a body", bare("Host: a", "Content-Length: 5")+"hello", false)
	add("GET and a byte", bare("Host: a")+"x", false)
	add("GET and a line", bare("Host: a")+"\r\n", false)

	for _, l := range []string{
		"X: y", "X:y", "X:", "X: ", "X:\ty\t", "X: a\tb", "x-lower: y", "X: é\xff\x80", "X: a:b:c", "!#$%&'*+-.^_`|~: y",
		"Connection: close", "Connection: keep-alive", "connection: Close", "Connection: Keep-Alive", "Cookie: a=b; c=d", "X: y\r\nX: z",
		"User-Agent: x", "Content-Type: y", "Authorization: Bearer x", strings.Repeat("n", 4000) + ": " + strings.Repeat("v", 4000),
	} {
		add(fmt.Sprintf("field %.40q", l), bare("Host: a", l), true)
	}
	for _, l := range []string{
		"X : y", "X\t: y", " X: y", "\tX: y", "X: y\r\n z", "X: y\r\n\tz", "X y", "X", ":", ": y", "é: y", "X\x00: y", "X: \x00", "X: a\x00b", "X: a\rb", "X: a\nb",
		"X: a\x7f", "X: a\x01", "X: y\r", "(X): y", "X Y: z", "X,Y: z", "\"X\": y", "X/Y: z", "X@Y: z", "[X]: y", "X=Y: z", "X\xff: y", "\xef\xbb\xbfX: y",
		"Connection: close, keep-alive", "Connection: x", "Connection:", "Connection: close\r\nConnection: close", "Connection: keep-alive\r\nConnection: close",
		"Connection: Upgrade\r\nUpgrade: websocket", "Connection: Host", "Upgrade: websocket", "Expect: 100-continue", "expect: x", "TE: trailers", "Te: x",
		"Trailer: X", "Keep-Alive: timeout=5", "Proxy-Connection: close", "Proxy-Authorization: x", "Proxy-Authenticate: x",
		"Host: a", "Host: b", "host: a", "Host : b", "HOST:\tb",
	} {
		add(fmt.Sprintf("field %q", l), bare("Host: a", l), false)
	}
	add("no Host", bare("X: y"), false)
	add("an empty Host", bare("Host:"), false)
	add("a Host of blanks", bare("Host: \t "), false)
	add("no fields", "GET /x HTTP/1.1\r\n\r\n", false)

	for _, l := range []string{
		"GET / HTTP/1.1", "GET /%00 HTTP/1.1", "GET /%2f..%2e/ HTTP/1.1", "GET //a/../b HTTP/1.1", "GET /?q=a&b HTTP/1.1", "GET /a?http://b/ HTTP/1.1", "GET /\"<>\\^`{|} HTTP/1.1",
	} {
		add(fmt.Sprintf("line %q", l), line(l), true)
	}
	for _, l := range []string{
		"GET /x HTTP/1.0", "GET /x HTTP/1.10", "GET /x HTTP/1.2", "GET /x HTTP/2.0", "GET /x HTTP/0.9", "GET /x http/1.1", "GET /x HTTP/1.1 ", "GET /x  HTTP/1.1", "GET  /x HTTP/1.1",
		" GET /x HTTP/1.1", "GET\t/x HTTP/1.1", "GET /x\tHTTP/1.1", "GET /x y HTTP/1.1", "GET /x\x00 HTTP/1.1", "GET /\x7f HTTP/1.1", "GET /é HTTP/1.1", "GET /\xff HTTP/1.1",
		"GET /x HTTP/1.1\r", "GET /x HTTP/1.1\rX: y", "GET /x HTTP/1.1\nX: y", "GET  HTTP/1.1", "GET HTTP/1.1", "GET /x", "GET", "",
		"GET http://b/x HTTP/1.1", "GET HTTP://b/x HTTP/1.1", "GET x HTTP/1.1", "GET ?x HTTP/1.1", "GET * HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT a:1 HTTP/1.1", "CONNECT /x HTTP/1.1",
		"HEAD /x HTTP/1.1", "TRACE /x HTTP/1.1", "get /x HTTP/1.1", "Get /x HTTP/1.1", "QUERY /x HTTP/1.1", "G\x00T /x HTTP/1.1", "\r\nGET /x HTTP/1.1", "\nGET /x HTTP/1.1", "PRI * HTTP/2.0",
	} {
		add(fmt.Sprintf("line %q", l), line(l), false)
	}
	add("LF only", strings.ReplaceAll(body("Content-Length: 5"), "\r\n", "\n"), false)
	add("LF for the blank line", "GET /x HTTP/1.1\r\nHost: a\r\n\n", false)
	add("LF before it", "GET /x HTTP/1.1\r\nHost: a\n\r\n", false)
	add("two", bare("Host: a")+bare("Host: a"), false)
	add("two with bodies", body("Content-Length: 5")+body("Content-Length: 5"), false)
	add("half", body("Content-Length: 5")[:30], false)
	add("half a body", body("Content-Length: 5")[:40], false)
	add("nothing", "", false)
	most := "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %05d\r\n\r\n"
	n := plainMost - len(fmt.Sprintf(most, 0))
	add("as large as may be", fmt.Sprintf(most, n)+strings.Repeat("x", n), true)
	add("larger", fmt.Sprintf(most, n+1)+strings.Repeat("x", n+1), false)
	return cases
}

// TestReadPlain: what the loop takes, and that the server reads it in the same way.
func TestReadPlain(t *testing.T) {
	for _, c := range frontCases() {
		r, ok := readPlain([]byte(c.raw), nil)
		if ok != c.plain {
			t.Errorf("%s: got %v, want %v", c.name, ok, c.plain)
		}
		// The request is sent with the name of its method.
		if name := knownMethod(r.method); ok && name != string(r.method) {
			t.Errorf("%s: the method is known as %s", c.name, name)
		}
		sameAsServer(t, []byte(c.raw))
		// A cut request, or one with something behind it, is not whole.
		for i := range min(len(c.raw), 200) {
			sameAsServer(t, []byte(c.raw[:i]))
		}
	}
}

// sameAsServer checks that the server reads what is plain as the front does, as one
// request and with nothing left.
func sameAsServer(t *testing.T, raw []byte) {
	t.Helper()
	plain, ok := readPlain(bytes.Clone(raw), nil)
	if !ok {
		return
	}
	br := bufio.NewReaderSize(bytes.NewReader(raw), 128<<10)
	var req fasthttp.Request
	req.Header.DisableNormalizing()
	if err := req.Read(br); err != nil {
		t.Errorf("%q: the server does not take it: %v", raw, err)
		return
	}
	if n := br.Buffered(); n > 0 {
		t.Errorf("%q: the server leaves %d bytes", raw, n)
	}
	if got, want := plain.method, req.Header.Method(); !bytes.Equal(got, want) {
		t.Errorf("%q: got method %q, the server's %q", raw, got, want)
	}
	if got, want := plain.body, req.Body(); !bytes.Equal(got, want) {
		t.Errorf("%q: got body %q, the server's %q", raw, got, want)
	}
	if got, want := plain.last, req.Header.ConnectionClose(); got != want || !req.Header.IsHTTP11() {
		t.Errorf("%q: got close %v, the server's %v", raw, got, want)
	}
	if got, want := plain.head, readHead(req.Header.RequestURI(), req.Header.RawHeaders()); !reflect.DeepEqual(got, want) {
		t.Errorf("%q: got head %+v, the server's %+v", raw, got, want)
	}
	if host := req.Header.Host(); len(host) == 0 {
		t.Errorf("%q: the server sees no Host", raw)
	}
}

func FuzzReadPlain(f *testing.F) {
	for _, c := range frontCases() {
		f.Add([]byte(c.raw))
	}
	f.Fuzz(sameAsServer)
}
