package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

// differences are those of TestAgainstReverseProxy, each with its reason.
var differences = []struct {
	in     string // what has to be in the case's name, "" for any
	name   string // and in the difference
	reason string
	timing bool // it depends on net/http's timing, so it need not show
}{
	{name: "response field Content-Length: 0, only theirs", timing: true, reason: "net/http's server may see the end of an empty body before it writes the header"},
	{name: "response field Content-Type: text/plain; charset=utf-8, only theirs", timing: true, reason: "net/http's server guesses a type if it sees the body before it writes the header"},
	{in: "HTTP/1.0", name: "response ended clean, only ours", timing: true, reason: "net/http's Transport may take the engine's close, which ends the body, for a break while it still notes the request's end"},
	{in: "HTTP/1.0", name: "response ended broken, only theirs", timing: true, reason: "the same, seen from its side"},
	{in: "broken chunk", name: "response", reason: "ours passes the header on at once, and breaks the body; net/http still holds it then, and closes without a word"},
	{in: "/%zz", name: "response", reason: "ours leaves a target with a bad escape to the engine, here one that closes; net/http refuses it"},
	{in: "q=1;b=2", name: "request line", reason: "net/http's Rewrite drops a query part with a semicolon"},
	{in: "HEAD", name: "response field Trailer", reason: "a response without a body has no trailers to announce"},
	{in: "empty value", name: "request field User-Agent: , only ours", reason: "net/http drops a User-Agent without a value"},
	{name: "request field Transfer-Encoding: chunked, only theirs", reason: "a small chunked body is held and sent with its length, so that it can be sent again"},
	{name: "request field Content-Length: 5, only ours", reason: "the same"},
	{name: "request field Content-Length: 0, only ours", reason: "a length of zero is passed on as the client sent it; net/http drops it where the method needs none, and takes a chunked body without bytes for none"},
	{name: "response field Date", reason: "net/http adds a date where the engine sent none"},
}

// answers are what the upstream says, raw.
var answers = map[string]string{
	"length":          "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
	"no type":         "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"chunks":          "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
	"no bytes":        "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 0\r\n\r\n",
	"no chunks":       "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"until close":     "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: close\r\n\r\nhello",
	"HTTP/1.0":        "HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nhello",
	"204":             "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
	"304":             "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
	"404":             "HTTP/1.1 404 Not Found\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
	"429":             "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
	"500":             "HTTP/1.1 500 Internal Server Error\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"302":             "HTTP/1.1 302 Found\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n",
	"trailers":        "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n",
	"late trailers":   "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n",
	"duplicates":      "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nVary: a\r\nVary: b\r\nSet-Cookie: a=1\r\nSet-Cookie: a=2\r\nx-low: 1\r\nContent-Length: 5\r\n\r\nhello",
	"hop-by-hop":      "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: X-Mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nProxy-Authenticate: x\r\nContent-Length: 5\r\n\r\nhello",
	"dated":           "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: uvicorn\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
	"cut length":      "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhello",
	"cut chunks":      "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	"cut in a chunk":  "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
	"broken chunk":    "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello",
	"nothing":         "",
	"no HTTP":         "SSH-2.0-x\r\n\r\n",
	"two lengths":     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
	"compressed":      "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
	"interim and all": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
}

var requestBodies = map[string]string{
	"no body":      "\r\n",
	"length":       "Content-Length: 5\r\n\r\nhello",
	"length of 0":  "Content-Length: 0\r\n\r\n",
	"chunks":       "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
	"empty chunks": "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}

var requestFields = map[string]string{
	"plain":       "User-Agent: t\r\nAccept: */*\r\n",
	"bare":        "",
	"duplicates":  "X-A: 1\r\nx-a: 2\r\nCookie: a=1\r\nCookie: b=2\r\nAccept-Encoding: gzip\r\n",
	"hop-by-hop":  "Connection: X-Mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: x\r\nProxy-Connection: x\r\nTE: gzip\r\n",
	"TE trailers": "Connection: TE\r\nTE: trailers, deflate\r\n",
	"credentials": "Authorization: Bearer x\r\nX-Api-Key: y\r\n",
	"empty value": "X-Empty:\r\nUser-Agent:\r\n",
}

// twin is a recording upstream: it answers by the field X-Answer and keeps what
// it got.
type twin struct {
	ln   net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	last []string // of the last request: line, fields, body
}

func newTwin(t *testing.T) *twin {
	tw := &twin{ln: loopbackListener(t)}
	tw.wg.Go(func() {
		for {
			c, err := tw.ln.Accept()
			if err != nil {
				return
			}
			tw.wg.Go(func() { tw.serve(c) })
		}
	})
	t.Cleanup(func() { _ = tw.ln.Close(); tw.wg.Wait() })
	return tw
}

func (tw *twin) serve(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		got := []string{"request line " + req.Method + " " + req.RequestURI + " " + req.Proto, "request host " + req.Host, "request body " + string(body)}
		got = append(got, fieldsOf(req.Header, "request")...)
		for _, te := range req.TransferEncoding {
			got = append(got, "request field Transfer-Encoding: "+te)
		}
		tw.mu.Lock()
		tw.last = got
		tw.mu.Unlock()
		raw := answers[req.Header.Get("X-Answer")]
		if last := strings.LastIndex(raw, "HTTP/1"); req.Method == http.MethodHead && last >= 0 {
			head, _, _ := strings.Cut(raw[last:], "\r\n\r\n")
			raw = raw[:last] + head + "\r\n\r\n"
		}
		if _, err := io.WriteString(c, raw); err != nil {
			return
		}
		if raw == "" || strings.Contains(raw, "Connection: close") || strings.HasPrefix(raw, "HTTP/1.0") || !strings.HasPrefix(raw, "HTTP") || strings.Contains(raw, "Length: 6") {
			// Not a bare Close: that races with what the peer still writes.
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			return
		}
	}
}

func (tw *twin) take() []string {
	tw.mu.Lock()
	defer tw.mu.Unlock()
	got := tw.last
	tw.last = nil
	return got
}

// fieldsOf lists a header's fields. Names are canonical: ReverseProxy writes
// them so, ours as they came (TestRequestFidelity).
func fieldsOf(h http.Header, side string) (out []string) {
	for name, values := range h {
		for _, v := range values {
			out = append(out, side+" field "+name+": "+v)
		}
	}
	return out
}

// seen is what the client saw.
func seen(t *testing.T, addr, raw string) []string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	a := hear(t, c, bufio.NewReader(c), raw)
	ours := a.header.Get(errorHeader) != ""
	out := []string{fmt.Sprintf("response status %d", a.status)}
	if !ours && a.status != http.StatusBadGateway { // an error of the proxy's own has its own body
		out = append(out, "response body "+string(a.body))
		out = append(out, fieldsOf(a.header, "response")...)
		out = append(out, fieldsOf(a.trailer, "trailer")...)
		end := "clean"
		if a.err != nil {
			end = "broken"
		}
		out = append(out, "response ended "+end)
	}
	if n := bytes.Count(a.raw, []byte("HTTP/1.1 103")); n > 0 {
		out = append(out, fmt.Sprintf("response interim %d", n))
	}
	return out
}

// onlyIn lists what one side has more often than the other.
func onlyIn(a, b []string, whose string) (out []string) {
	count := map[string]int{}
	for _, s := range b {
		count[s]++
	}
	for _, s := range a {
		if count[s]--; count[s] < 0 {
			out = append(out, s+", only "+whose)
		}
	}
	return out
}

func keys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// TestAgainstReverseProxy sends the same requests through ours and through
// net/http's ReverseProxy, to recording upstreams, and compares both
// directions.
func TestAgainstReverseProxy(t *testing.T) { onBothPaths(t, testAgainstReverseProxy) }

func testAgainstReverseProxy(t *testing.T, on path) {
	oursUp, theirsUp := newTwin(t), newTwin(t)
	w := sockets(t, on(Config{Upstreams: []string{"http://" + oursUp.ln.Addr().String()}}), nil)
	defer w.close()
	target, err := url.Parse("http://" + theirsUp.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	theirs := &http.Server{Handler: &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     transport,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Host = r.In.Host
		},
	}, ErrorLog: log.New(io.Discard, "", 0)}
	ln := loopbackListener(t)
	served := make(chan struct{})
	go func() { defer close(served); _ = theirs.Serve(ln) }()
	defer func() { _ = theirs.Close(); <-served }()
	oursAddr := w.addr()

	n, used := 0, map[int]bool{}
	compare := func(name, raw string) {
		t.Helper()
		n++
		a, b := seen(t, oursAddr, raw), seen(t, ln.Addr().String(), raw)
		a, b = append(a, oursUp.take()...), append(b, theirsUp.take()...)
	next:
		for _, d := range append(onlyIn(a, b, "ours"), onlyIn(b, a, "theirs")...) {
			for i := range differences {
				if strings.Contains(name, differences[i].in) && strings.Contains(d, differences[i].name) {
					used[i] = true
					continue next
				}
			}
			t.Errorf("%s: %s", name, d)
		}
	}
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"} {
		for _, body := range keys(requestBodies) {
			for _, answer := range keys(answers) {
				compare(method+", "+body+", "+answer,
					method+" /v1/x?a=%2F HTTP/1.1\r\nHost: a.example\r\nX-Answer: "+answer+"\r\n"+requestBodies[body])
			}
		}
	}
	for _, fields := range keys(requestFields) {
		for _, path := range []string{"/", "//a//b", "/a%2Fb", "/a/../b", "/a?q=1;b=2", "/%zz"} {
			compare(fields+", "+path, "POST "+path+" HTTP/1.1\r\nHost: a.example\r\nX-Answer: length\r\n"+requestFields[fields]+"Content-Length: 5\r\n\r\nhello")
		}
	}
	t.Logf("%d requests compared", n)
	for i, d := range differences {
		if !used[i] && !d.timing {
			t.Errorf("the table has a difference that is none: %q", d.name)
		}
	}
}
