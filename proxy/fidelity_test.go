package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamgauge/streamgauge/sim"
)

// recorder is a raw upstream: it keeps the bytes of each request and answers
// with given ones.
type recorder struct {
	ln   net.Listener
	got  chan []byte
	done chan struct{}
}

// record serves one connection after the other. answer is written when the
// request, of whatever framing, is complete.
func recordRaw(t *testing.T, answer string) *recorder {
	t.Helper()
	r := &recorder{ln: loopbackListener(t), got: make(chan []byte, 16), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			c, err := r.ln.Accept()
			if err != nil {
				return
			}
			r.serve(c, answer)
		}
	}()
	t.Cleanup(func() { _ = r.ln.Close(); <-r.done })
	return r
}

func (r *recorder) serve(c net.Conn, answer string) {
	defer c.Close()
	tee := &teeReader{r: c}
	req, err := http.ReadRequest(bufio.NewReaderSize(tee, 1<<20))
	if err != nil {
		return
	}
	_, err = io.Copy(io.Discard, req.Body)
	if err == nil {
		_, err = io.WriteString(c, answer)
	}
	if err == nil {
		r.got <- tee.b
	}
	if req.Method == "HEAD" || strings.Contains(answer, "\r\nConnection: close") {
		return
	}
	// The proxy decides when the connection ends.
	_, _ = io.Copy(io.Discard, c)
}

// split takes a message into its first line, its fields sorted, and the rest.
func split(raw []byte) (first string, fields []string, body string) {
	head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	fields = lines[1:]
	return lines[0], fields, body
}

func sorted(s []string) []string {
	s = append([]string(nil), s...)
	sort.Strings(s)
	return s
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// TestRequestFidelity compares what the upstream got with what the client sent.
// The order and the spelling of fields are compared too.
func TestRequestFidelity(t *testing.T) {
	long := strings.Repeat("x", 30<<10)
	for _, c := range []struct{ name, sent, want string }{
		{"GET as it stands", "GET /v1/models HTTP/1.1\r\nHost: api.example\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n", ""},
		{"no user agent, no default added", "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n", ""},
		{"case, order and duplicates", "GET /x HTTP/1.1\r\nx-B: 1\r\nHOST: api.example\r\nX-a: 2\r\nx-B: 3\r\naccept-ENCODING: gzip\r\n\r\n", ""},
		{"path is not cleaned", "GET //v1//chat/../a%2Fb/./c?x=%20&;y=1#z HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		{"post without content type gets none", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", ""},
		{"length of zero is kept", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", ""},
		{"odd method", "PROPFIND /x HTTP/1.1\r\nHost: a\r\nDepth: 1\r\n\r\n", ""},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		{"cookies and credentials pass", "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\nCookie: a=1; b=2\r\nCookie: c=3\r\n\r\n", ""},
		{"X-Forwarded-For is neither added nor taken", "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=x\r\n\r\n", ""},
		{"30 KiB of header", "GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + long + "\r\n\r\n", ""},
		{"multipart is not touched", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 46\r\n\r\n--b\r\ncontent-disposition: form-data\r\n\r\n--b--\r\n", ""},
		{"hop-by-hop fields are dropped",
			"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: s\r\nProxy-Connection: x\r\nTE: gzip\r\nX-Other: 2\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a\r\nX-Other: 2\r\n\r\n"},
		{"TE: trailers is passed", "GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: gzip, trailers\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n"},
		{"Expect is answered here", "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"},
		{"a small chunked body gets a length", "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: 1\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
			"POST /x HTTP/1.1\r\nHost: a\r\nX: 1\r\nContent-Length: 2\r\n\r\n{}"},
		{"of a length and chunks only the chunks count", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
			"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"},
		{"folded line is joined", "GET / HTTP/1.1\r\nHost: a\r\nX-Fold: one\r\n  two\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX-Fold: one two\r\n\r\n"},
		{"padding around values is not theirs", "GET / HTTP/1.1\r\nHost: a\r\nX:   1  \r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n"},
		{"absolute target", "GET http://b.example/p?q HTTP/1.1\r\nHost: a\r\n\r\n", "GET /p?q HTTP/1.1\r\nHost: b.example\r\n\r\n"},
		{"HTTP/1.0 becomes 1.1", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := recordRaw(t, okAnswer)
			w := sockets(t, Config{Upstreams: []string{"http://" + up.ln.Addr().String()}}, nil)
			defer w.close()
			a := w.say(c.sent)
			if a.err != nil || string(a.body) != "ok" {
				t.Fatalf("answer: %q, %v", a.raw, a.err)
			}
			want := c.want
			if want == "" {
				want = c.sent
			}
			got := string(<-up.got)
			if got != want {
				t.Errorf("upstream got\n%q\nwant\n%q", got, want)
			}
		})
	}
}

// TestUpstreamPath puts an upstream's own path before the request's.
func TestUpstreamPath(t *testing.T) {
	for _, c := range []struct{ base, target, want string }{
		{"", "/v1/models", "/v1/models"},
		{"/v1", "/v1/models", "/v1/models"},
		{"/v1/", "/v1/models", "/v1/models"},
		{"/gpu0", "/v1/models?x=1", "/gpu0/v1/models?x=1"},
		{"/gpu0/v1", "//v1", "/gpu0//v1"},
	} {
		up := recordRaw(t, okAnswer)
		w := sockets(t, Config{Upstreams: []string{"http://" + up.ln.Addr().String() + c.base}}, nil)
		w.say(get(c.target))
		first, _, _ := split(<-up.got)
		if want := "GET " + c.want + " HTTP/1.1"; first != want {
			t.Errorf("upstream at %q: got %q, want %q", c.base, first, want)
		}
		w.close()
	}
}

// TestResponseFidelity compares what the client got with what the upstream sent.
// fasthttp writes some fields first, so the order of fields is not compared.
func TestResponseFidelity(t *testing.T) { onBothPaths(t, testResponseFidelity) }

func testResponseFidelity(t *testing.T, on path) {
	for _, c := range []struct {
		name, method, sent, want string
		spelling                 bool // want is the spelling of fasthttp's own fields; a loop keeps the engine's
	}{
		{"no default is added", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "", false},
		{"date and server are the engine's", "GET", "HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
			"HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: uvicorn\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", true},
		{"Date in its usual spelling", "GET", "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n", "", false},
		{"duplicates and odd case", "GET", "HTTP/1.1 200 OK\r\nX-a: 1\r\nx-A: 2\r\nX-a: 1\r\nSet-Cookie: a=1; Path=/\r\nSet-Cookie: a=2\r\nvary: x\r\nVary: y\r\nContent-Length: 0\r\n\r\n", "", false},
		{"odd status and reason", "GET", "HTTP/1.1 499 Who Knows\r\nContent-Length: 1\r\n\r\nx", "", false},
		{"status 599", "POST", "HTTP/1.1 599 Custom\r\nContent-Length: 0\r\n\r\n", "", false},
		{"HEAD keeps the length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: \"x\"\r\n\r\n", "", false},
		{"HEAD of a body without length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", false},
		{"204", "DELETE", "HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n", "", false},
		{"304 keeps length and tag", "GET", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 77\r\n\r\n", "", false},
		{"hop-by-hop fields are dropped", "GET", "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: x\r\nUpgrade: h2c\r\nX: 1\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nX: 1\r\nContent-Length: 0\r\n\r\n", false},
		{"Connection: close is the upstream's own", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
		{"until close becomes chunks", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
		{"HTTP/1.0 is answered in 1.1", "GET", "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
		{"trailers, announced", "GET", "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n", "", false},
		{"trailers, not announced", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\nX-Sum: 8\r\n\r\n", "", false},
		{"an interim response is passed on", "GET", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", false},
		{"an interim 100 is not", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
		{"compressed bytes are not touched", "GET", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := recordRaw(t, c.sent)
			w := sockets(t, on(Config{Upstreams: []string{"http://" + up.ln.Addr().String()}}), nil)
			defer w.close()
			conn, err := w.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := fmt.Fprintf(conn, "%s /x HTTP/1.1\r\nHost: a\r\n\r\n", c.method); err != nil {
				t.Fatal(err)
			}
			want := c.want
			if want == "" || c.spelling && !on(Config{}).NoRelay {
				want = c.sent
			}
			got := make([]byte, len(want))
			if n, err := io.ReadFull(conn, got); err != nil {
				t.Fatalf("got %q (%v), want %q", got[:n], err, want)
			}
			gotFirst, gotFields, gotBody := split(got)
			wantFirst, wantFields, wantBody := split([]byte(want))
			if d := cmp.Diff(gotFirst, wantFirst); d != "" {
				t.Errorf("first line (-got +want):\n%s", d)
			}
			if d := cmp.Diff(sorted(gotFields), sorted(wantFields)); d != "" {
				t.Errorf("fields (-got +want):\n%s", d)
			}
			if gotBody != wantBody {
				t.Errorf("body: got %q, want %q", gotBody, wantBody)
			}
			// Nothing follows, and the connection is kept.
			if _, err := fmt.Fprintf(conn, "CONNECT x:1 HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(conn)
			if line, err := br.ReadString('\n'); line != "HTTP/1.1 405 Method Not Allowed\r\n" {
				t.Errorf("after the response: got %q (%v), want the answer to the next request", line, err)
			}
		})
	}
}

// TestBigBodies sends large bodies in both framings, and reads a large one.
func TestBigBodies(t *testing.T) {
	for _, size := range []int{1 << 20, 6 << 20, 20 << 20} {
		body := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		for _, framing := range []string{"length", "chunks"} {
			t.Run(fmt.Sprintf("%d MiB in %s", size>>20, framing), func(t *testing.T) {
				sc := sim.Script{Framing: sim.ByLength, Header: []string{"Content-Type: application/json"}, Writes: []sim.Write{{Bytes: body}}}
				w := sockets(t, Config{}, sim.Always(sc))
				defer w.close()
				c, err := w.dial()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				sent := make(chan error, 1)
				go func() { sent <- sendBody(c, body, framing == "chunks") }()
				a := listen(bufio.NewReader(c), "POST")
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
				if a.err != nil || !bytes.Equal(a.body, body) {
					t.Errorf("response: %d bytes (%v), want the %d sent", len(a.body), a.err, size)
				}
				if got := w.up.Played()[0].Body; !bytes.Equal(got, body) {
					t.Errorf("request: %d bytes, want the %d sent", len(got), size)
				}
			})
		}
	}
}

func sendBody(c net.Conn, body []byte, chunks bool) error {
	if !chunks {
		_, err := io.Copy(c, io.MultiReader(strings.NewReader(fmt.Sprintf("POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(body))), bytes.NewReader(body)))
		return err
	}
	if _, err := io.WriteString(c, "POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return err
	}
	for len(body) > 0 {
		n := min(len(body), 100_000)
		if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", n, body[:n]); err != nil {
			return err
		}
		body = body[n:]
	}
	_, err := io.WriteString(c, "0\r\n\r\n")
	return err
}

// TestTooLarge refuses bodies over the limit, in both framings, and the client
// can read why.
func TestTooLarge(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 3<<20)
	for _, c := range []struct {
		name   string
		buffer int
		chunks bool
	}{{"length", 0, false}, {"chunks, while small", 8 << 20, true}, {"chunks, while streaming", 64 << 10, true}} {
		t.Run(c.name, func(t *testing.T) {
			w := sockets(t, Config{MaxBody: 1 << 20, BufferBody: c.buffer}, sim.Always(sim.Script{Framing: sim.ByLength}))
			defer w.close()
			conn, err := w.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			sent := make(chan error, 1)
			go func() { sent <- sendBody(conn, body, c.chunks) }()
			a := listen(bufio.NewReader(conn), "POST")
			<-sent // may fail: the proxy does not read to the end
			if a.status != 413 || a.header.Get(errorHeader) != "too_large" || !bytes.Contains(a.body, []byte(`"code":"too_large"`)) {
				t.Errorf("got %d %q %q (%v), want 413 and the reason", a.status, a.header.Get(errorHeader), a.body, a.err)
			}
			for _, p := range w.up.Played() {
				t.Errorf("the upstream was given a whole request of %d bytes", len(p.Body))
			}
		})
	}
}

// TestSmuggling sends what one parser may read differently from another. Nothing
// of it may reach the upstream as a second request.
func TestSmuggling(t *testing.T) {
	for _, c := range []struct{ name, sent string }{
		{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"},
		{"two equal lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab"},
		{"length list", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\nab"},
		{"signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\nab"},
		{"two codings", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"},
		{"unknown coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
		{"coding list", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{"coding in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"space before the colon", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 2\r\n\r\nab"},
		{"space in a name", "GET / HTTP/1.1\r\nHost: a\r\nX Y: 2\r\n\r\n"},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
		{"bare LF in a chunk extension", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x\nab\r\n0\r\n\r\n"},
		{"NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n"},
		{"CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"},
		{"space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sockets(t, Config{ClientRead: 0}, sim.Always(sim.Script{Framing: sim.ByLength}))
			defer w.close()
			a := w.say(c.sent)
			if a.status != 400 || a.header.Get(errorHeader) != "bad_request" || !a.closed {
				t.Errorf("got %d %q closed=%v, want 400, marked as ours, and the connection's end", a.status, a.header.Get(errorHeader), a.closed)
			}
			if p := w.up.Played(); len(p) != 0 {
				t.Errorf("the upstream got %+v", p)
			}
		})
	}
}

// TestLengthTwice: an engine says its length twice, in one field or two; the client
// gets a number.
func TestLengthTwice(t *testing.T) { onBothPaths(t, testLengthTwice) }

func testLengthTwice(t *testing.T, on path) {
	for _, field := range []string{"Content-Length: 3, 3", "content-length: 3,3", "Content-Length: 3\r\nContent-Length: 3"} {
		answer := "HTTP/1.1 200 OK\r\n" + field + "\r\n\r\nabc"
		w := sockets(t, on(Config{}), sim.Always(sim.Script{Framing: sim.ByItself, Writes: []sim.Write{{Bytes: []byte(answer)}}}))
		a := w.say(get("/x"))
		if got := a.header["Content-Length"]; a.status != 200 || string(a.body) != "abc" || len(got) != 1 || got[0] != "3" {
			t.Errorf("%q: got %d %q, length %q, %v", field, a.status, a.body, got, a.err)
		}
		w.close()
	}
}
