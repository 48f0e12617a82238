package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/streamgauge/streamgauge/stamp"
)

func fields(lines ...string) []Field {
	var fs []Field
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		fs = append(fs, Field{[]byte(name), []byte(value)})
	}
	return fs
}

// The request leaves byte for byte as it was given, but for Host and framing.
func TestRequestBytes(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		req          Request
		want         string
	}{
		{"defaults", "nothing is invented", Request{},
			"GET / HTTP/1.1\r\nHost: engine\r\n\r\n"},
		{"target as it stands", "no cleaning of paths", Request{Target: []byte("/v1//chat/../%2Fx?a;b=\xc3\xa9")},
			"GET /v1//chat/../%2Fx?a;b=\xc3\xa9 HTTP/1.1\r\nHost: engine\r\n\r\n"},
		{"order, case and duplicates", "", Request{Header: fields("x-b: 1", "HOST: other", "X-A: 2", "X-B: 3", "accept-ENCODING: gzip", "X-Empty: ")},
			"GET / HTTP/1.1\r\nx-b: 1\r\nHOST: other\r\nX-A: 2\r\nX-B: 3\r\naccept-ENCODING: gzip\r\nX-Empty: \r\n\r\n"},
		{"length added", "", Request{Method: "POST", Body: []byte("hello")},
			"POST / HTTP/1.1\r\nHost: engine\r\nContent-Length: 5\r\n\r\nhello"},
		{"length of no body", "RFC 9110, section 8.6", Request{Method: "POST"},
			"POST / HTTP/1.1\r\nHost: engine\r\nContent-Length: 0\r\n\r\n"},
		{"length replaced in its place", "a body may have been changed", Request{Method: "POST", Header: fields("content-length: 99", "A: b", "Content-Length: 98"), Body: []byte("hello")},
			"POST / HTTP/1.1\r\nHost: engine\r\ncontent-length: 5\r\nA: b\r\n\r\nhello"},
		{"length beside chunks", "the smuggling pair never leaves", Request{Method: "POST", Header: fields("Content-Length: 3", "transfer-encoding: CHUNKED"), BodyStream: strings.NewReader("abc"), BodySize: -1},
			"POST / HTTP/1.1\r\nHost: engine\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{"chunks that became a buffer", "", Request{Method: "POST", Header: fields("Transfer-Encoding: chunked"), Body: []byte("abc")},
			"POST / HTTP/1.1\r\nHost: engine\r\nContent-Length: 3\r\n\r\nabc"},
		{"stream of known size", "", Request{Method: "PUT", BodyStream: strings.NewReader("abcdef"), BodySize: 4},
			"PUT / HTTP/1.1\r\nHost: engine\r\nContent-Length: 4\r\n\r\nabcd"},
		{"stream in pieces", "each read is a chunk", Request{Method: "POST", BodyStream: iotest.OneByteReader(strings.NewReader("ab")), BodySize: -1},
			"POST / HTTP/1.1\r\nHost: engine\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"},
		{"data with the end", "a reader may return both", Request{Method: "POST", BodyStream: iotest.DataErrReader(strings.NewReader("ab")), BodySize: -1},
			"POST / HTTP/1.1\r\nHost: engine\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := make([]byte, len(tt.want))
			s := serveRaw(t, func(_ int, c *net.TCPConn) {
				if _, err := io.ReadFull(c, got); err == nil {
					io.WriteString(c, okay)
				}
				extra, _ := io.ReadAll(c)
				got = append(got, extra...)
			})
			c := s.client(t)
			c.Host = "engine"
			r, err := c.Do(context.Background(), &tt.req)
			if err != nil {
				t.Fatal(err)
			}
			bodyOf(t, r)
			c.CloseIdle()
			s.close()
			if string(got) != tt.want {
				t.Errorf("sent\n%q, want\n%q %s", got, tt.want, tt.reason)
			}
		})
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	boom := errors.New("the client's upload failed")
	for _, tt := range []struct {
		name  string
		req   Request
		op    Op
		cause error
		says  string
	}{
		{"method", Request{Method: "GET /x"}, OpWrite, nil, `"GET /x"`},
		{"space in the target", Request{Target: []byte("/a b")}, OpWrite, nil, `"/a b"`},
		{"line break in the target", Request{Target: []byte("/\r\nA:b")}, OpWrite, nil, "control"},
		{"name", Request{Header: fields("A B: c")}, OpWrite, nil, `"A B"`},
		{"line break in a value", Request{Header: fields("A: b\r\nC: d")}, OpWrite, nil, `"A"`},
		{"stream too short", Request{Method: "POST", BodyStream: strings.NewReader("abc"), BodySize: 5}, OpRequestBody, io.ErrUnexpectedEOF, "2 of 5 bytes"},
		{"stream fails", Request{Method: "POST", BodyStream: iotest.ErrReader(boom), BodySize: -1}, OpRequestBody, boom, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			served := make(chan error, 1)
			s := serveRaw(t, func(_ int, c *net.TCPConn) {
				_, _, err := readRequest(bufio.NewReader(c))
				served <- err
			})
			c := s.client(t)
			_, err := c.Do(context.Background(), &tt.req)
			wantOp(t, err, tt.op, tt.cause)
			if err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want it to say %q", err, tt.says)
			}
			if err := <-served; err == nil {
				t.Error("the server got a whole request, want none")
			}
			if got := c.Stats(); got.Open != 0 || got.Retries != 0 {
				t.Errorf("got %+v, want no connection and no retry", got)
			}
		})
	}
}

func TestLargeRequests(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(got, body) {
			w.WriteHeader(400)
		}
	}))
	defer srv.Close()
	c := &Client{Addr: srv.Listener.Addr().String()}
	defer c.CloseIdle()
	for _, tt := range []struct {
		name string
		req  Request
	}{
		{"buffered", Request{Method: "POST", Body: body}},
		{"stream with length", Request{Method: "POST", BodyStream: bytes.NewReader(body), BodySize: int64(len(body))}},
		{"stream in chunks", Request{Method: "POST", BodyStream: bytes.NewReader(body), BodySize: -1}},
	} {
		r, err := c.Do(context.Background(), &tt.req)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if bodyOf(t, r); r.Status != 200 {
			t.Errorf("%s: got status %d, want 200: the body arrived changed", tt.name, r.Status)
		}
	}
	if got := c.Stats().Dials; got != 1 {
		t.Errorf("got %d connections, want 1", got)
	}
}

// A server that refuses a body answers and closes before it has read it. The
// answer counts, not the broken write.
func TestRefusedBody(t *testing.T) {
	const refusal = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!"
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		br := bufio.NewReader(c)
		http.ReadRequest(br)
		io.WriteString(c, refusal) // with unread bytes behind, the close is a reset
	})
	c := s.client(t)
	r, err := c.Do(context.Background(), &Request{Method: "POST", Body: make([]byte, 20<<20)})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 3)
	if _, err := io.ReadFull(r, buf); err != nil || r.Status != 413 || string(buf) != "no!" {
		t.Errorf("got %d %q, %v, want 413 no!", r.Status, buf, err)
	}
	r.Close()
	if got := c.Stats(); got.Open != 0 || got.Retries != 0 {
		t.Errorf("got %+v, want the connection closed and no retry", got)
	}
}

func TestInterimResponses(t *testing.T) {
	s := serveRaw(t, reply("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\nlink: b\r\n\r\n"+okay))
	var seen []string
	req := post("{}")
	req.Interim = func(status int, header []Field) {
		seen = append(seen, http.StatusText(status)+" "+fieldsText(header))
	}
	r, err := s.client(t).Do(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(t, r); got != "ok" {
		t.Errorf("got %q, want ok", got)
	}
	if want := []string{"Processing ", "Early Hints Link: a\nlink: b\n"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	endless := serveRaw(t, reply(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 200)))
	_, err = endless.client(t).Do(context.Background(), post("{}"))
	wantOp(t, err, OpHeader, nil)
}

func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, r.Proto)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS() // self-signed
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	c := &Client{Addr: srv.Listener.Addr().String(), Dialer: stamp.Dialer{TLS: &tls.Config{RootCAs: roots}}}
	defer c.CloseIdle()
	for range 3 {
		before := stamp.Now()
		r, err := c.Do(context.Background(), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bodyOf(t, r), strings.Repeat("data: x\n\n", 3)+"HTTP/1.1"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if at, _ := r.At(); at < before || at > stamp.Now() {
			t.Errorf("got an instant %v after the call, want one within it", at.Sub(before))
		}
	}
	if got := c.Stats(); got.Dials != 1 {
		t.Errorf("got %+v, want one connection", got)
	}
}
