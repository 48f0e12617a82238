package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
)

// rawServer accepts connections and gives each to serve, with its number from
// 0 on. It is closed, and joined, at the end of the test.
type rawServer struct {
	ln    net.Listener
	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func serveRaw(t testing.TB, serve func(n int, c *net.TCPConn)) *rawServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{ln: ln}
	s.wg.Go(func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Go(func() {
				defer c.Close()
				serve(n, c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(s.close)
	return s
}

func (s *rawServer) close() {
	s.ln.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *rawServer) client(t testing.TB) *Client {
	c := &Client{Addr: s.ln.Addr().String()}
	t.Cleanup(c.CloseIdle)
	return c
}

// pipeClient returns a Client whose connections are in-memory pipes, each
// served by serve in a goroutine of its own. For synctest bubbles.
func pipeClient(serve func(n int, c net.Conn)) *Client {
	dials := 0
	return &Client{Addr: "engine:80", Dialer: stamp.Dialer{
		Dial: func(context.Context, string, string) (net.Conn, error) {
			n := dials
			dials++
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				serve(n, theirs)
			}()
			return ours, nil
		},
	}}
}

// readRequest reads one request with net/http's parser, body included.
func readRequest(r *bufio.Reader) (*http.Request, string, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(req.Body)
	return req, string(body), err
}

// reply serves every request of a connection with the same bytes.
func reply(response string) func(int, *net.TCPConn) {
	return func(_ int, c *net.TCPConn) {
		for r := bufio.NewReader(c); ; {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, response); err != nil {
				return
			}
		}
	}
}

func post(body string) *Request {
	return &Request{Method: "POST", Target: []byte("/v1/completions"), Body: []byte(body)}
}

// bodyOf reads r to its end and closes it.
func bodyOf(t testing.TB, r *Response) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("body: got %q and %v, want a clean end", b, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return string(b)
}

func wantOp(t testing.TB, err error, op Op, cause error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Op != op {
		t.Errorf("got error %v, want one of %s", err, op)
	}
	if cause != nil && !errors.Is(err, cause) {
		t.Errorf("got error %v, want %v", err, cause)
	}
}

func fieldsText(fields []Field) string {
	var b strings.Builder
	for _, f := range fields {
		b.Write(f.Name)
		b.WriteString(": ")
		b.Write(f.Value)
		b.WriteByte('\n')
	}
	return b.String()
}

// closing serves one request of a connection with the response, then closes.
func closing(response string) func(int, *net.TCPConn) {
	return func(_ int, c *net.TCPConn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, response)
		}
	}
}

// echo answers each request of a connection with its body, in chunks.
func echo(_ int, c *net.TCPConn) {
	for br := bufio.NewReader(c); ; {
		_, body, err := readRequest(br)
		if err != nil {
			return
		}
		half := len(body) / 2
		var b strings.Builder
		b.WriteString(chunkedHead)
		for _, part := range []string{body[:half], body[half:]} {
			if part != "" {
				fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
			}
		}
		b.WriteString("0\r\n\r\n")
		if _, err := io.WriteString(c, b.String()); err != nil {
			return
		}
	}
}
