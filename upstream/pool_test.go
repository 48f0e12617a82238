package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const okay = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// R9: uvicorn closes idle connections at its own moment, often the one at which
// the next POST is on its way. None of them may fail, and none is served twice.
func TestR9StaleKeepAlive(t *testing.T) {
	const posts = 3000
	var served atomic.Int64
	s := serveRaw(t, func(n int, c *net.TCPConn) {
		rnd := rand.New(rand.NewPCG(1, uint64(n)))
		for br := bufio.NewReader(c); ; {
			if _, _, err := readRequest(br); err != nil {
				return
			}
			served.Add(1)
			io.WriteString(c, okay)
			// The idle limit: mostly about the time to the next request.
			c.SetReadDeadline(time.Now().Add(time.Duration(rnd.IntN(200)) * time.Microsecond))
			if _, err := br.Peek(1); err != nil {
				if rnd.IntN(2) == 0 {
					c.SetLinger(0)
				}
				return
			}
			c.SetReadDeadline(time.Time{})
		}
	})
	c := s.client(t)
	retries := 0
	for i := range posts {
		r, err := c.Do(context.Background(), post(strings.Repeat("x", i%5000)))
		if err != nil {
			t.Fatalf("post %d: %v", i, err)
		}
		retries += r.Retries
		if got := bodyOf(t, r); got != "ok" {
			t.Fatalf("post %d: got %q, want ok", i, got)
		}
	}
	stats := c.Stats()
	if got := served.Load(); got != posts {
		t.Errorf("served %d times, want %d", got, posts)
	}
	if stats.Retries != int64(retries) {
		t.Errorf("counted %d retries, want %d as the responses say", stats.Retries, retries)
	}
	if stats.Dials < 10 || stats.Dials == posts {
		t.Errorf("%d connections for %d posts: the race was not tried", stats.Dials, posts)
	}
	t.Logf("%d posts, %d connections, %d retries", posts, stats.Dials, retries)
}

// R9: a FIN that is there before the use costs no retry.
func TestR9SeenFINIsNoRetry(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(c *net.TCPConn)
	}{
		{"FIN", func(c *net.TCPConn) {}},
		{"RST", func(c *net.TCPConn) { c.SetLinger(0) }},
		{"half close", func(c *net.TCPConn) { c.CloseWrite() }},
		{"dirty bytes", func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 408 Timeout\r\n\r\n") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leave, left := make(chan struct{}), make(chan struct{})
			s := serveRaw(t, func(n int, c *net.TCPConn) {
				if n > 0 {
					reply(okay)(n, c)
					return
				}
				readRequest(bufio.NewReader(c))
				io.WriteString(c, okay)
				<-leave
				tt.leave(c)
				if tt.name == "FIN" || tt.name == "RST" {
					c.Close()
				}
				close(left)
				io.Copy(io.Discard, c)
			})
			c := s.client(t)
			for i := range 2 {
				r, err := c.Do(context.Background(), post("{}"))
				if err != nil {
					t.Fatal(err)
				}
				if got := bodyOf(t, r); got != "ok" || r.Retries != 0 {
					t.Errorf("post %d: got %q and %d retries, want ok and 0", i, got, r.Retries)
				}
				if i == 0 {
					close(leave)
					<-left
				}
			}
			if got := c.Stats().Dials; got != 2 {
				t.Errorf("got %d connections, want 2", got)
			}
		})
	}
}

func TestRetryRules(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		second       string // the answer to the second request of connection 0
		limit        time.Duration
		stream       bool
		third        string // what connection 1 answers
		op           Op     // of the error; "": no error
		cause        error
		retries      int
	}{
		{"closed without an answer", "nobody can have acted on it", "", 0, false, okay, "", nil, 1},
		{"cut in the head", "an answer had begun", "HTTP/1.1 2", 0, false, okay, OpHeader, io.ErrUnexpectedEOF, 0},
		{"cut in the body", "an answer had begun", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", 0, false, okay, OpBody, io.ErrUnexpectedEOF, 0},
		{"no answer in time", "the server may be working on it", "wait", time.Second, false, okay, OpHeaderWait, os.ErrDeadlineExceeded, 0},
		{"streamed body", "it is gone", "", 0, true, okay, OpHeaderWait, io.EOF, 0},
		{"closed again", "one retry is all", "", 0, false, "", OpHeaderWait, io.EOF, 1},
		{"garbage", "an answer had begun", "garbage", 0, false, okay, OpHeader, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int32
				c := pipeClient(func(n int, conn net.Conn) {
					br := bufio.NewReader(conn)
					for i := 0; ; i++ {
						if _, _, err := readRequest(br); err != nil {
							return
						}
						requests.Add(1)
						answer := okay
						switch {
						case n == 1:
							answer = tt.third
						case i == 1:
							answer = tt.second
						}
						if answer == "wait" {
							br.Peek(1) // until the client leaves
							return
						}
						if io.WriteString(conn, answer); answer != okay {
							return
						}
					}
				})
				defer c.CloseIdle()
				c.HeaderWait = tt.limit
				first, err := c.Do(context.Background(), post("{}"))
				if err != nil {
					t.Fatal(err)
				}
				bodyOf(t, first)
				<-time.After(time.Second)
				begin := time.Now()
				req := post("{}")
				if tt.stream {
					req.Body, req.BodyStream, req.BodySize = nil, strings.NewReader("{}"), 2
				}
				r, err := c.Do(context.Background(), req)
				retries := 0
				var e *Error
				if errors.As(err, &e) {
					retries = e.Retries
				}
				if err == nil {
					retries = r.Retries
					_, err = io.ReadAll(r)
					r.Close()
				}
				if tt.op == "" {
					if err != nil {
						t.Errorf("got %v, want no error: %s", err, tt.reason)
					}
				} else {
					wantOp(t, err, tt.op, tt.cause)
				}
				if retries != tt.retries {
					t.Errorf("got %d retries, want %d: %s", retries, tt.retries, tt.reason)
				}
				if got, want := int(requests.Load()), 2+tt.retries; got != want {
					t.Errorf("the server saw %d requests, want %d", got, want)
				}
				if took := time.Since(begin); took != tt.limit {
					t.Errorf("took %v, want %v", took, tt.limit)
				}
			})
		})
	}
}

// A reset behind the first bytes of a head is no stale connection.
func TestResetInTheHeadIsNotRetried(t *testing.T) {
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		br := bufio.NewReader(c)
		readRequest(br)
		io.WriteString(c, okay)
		readRequest(br)
		io.WriteString(c, "HTTP/1.1 200")
		c.SetLinger(0)
	})
	c := s.client(t)
	r, err := c.Do(context.Background(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	bodyOf(t, r)
	_, err = c.Do(context.Background(), post("{}"))
	wantOp(t, err, OpHeader, syscall.ECONNRESET)
	if got := c.Stats(); got.Dials != 1 || got.Retries != 0 {
		t.Errorf("got %+v, want one connection and no retry", got)
	}
}

// R9 at the start barrier: a FIN that is there when the request goes out costs
// no retry.
func TestReadyThatWasClosed(t *testing.T) {
	closed := make(chan struct{})
	s := serveRaw(t, func(n int, c *net.TCPConn) {
		if n > 0 {
			reply(okay)(n, c)
			return
		}
		c.Close()
		close(closed)
	})
	c := s.client(t)
	ready, err := c.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	<-closed
	r, err := ready.Do(context.Background(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(t, r); got != "ok" || r.Retries != 0 {
		t.Errorf("got %q and %d retries, want ok and 0", got, r.Retries)
	}
}

// The first request of a connection is not retried: the server is there, and
// closes because of what it was asked.
func TestFreshConnectionIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(func(_ int, conn net.Conn) { readRequest(bufio.NewReader(conn)) })
		_, err := c.Do(context.Background(), post("{}"))
		wantOp(t, err, OpHeaderWait, io.EOF)
		if got := c.Stats(); got.Dials != 1 || got.Retries != 0 {
			t.Errorf("got %+v, want one dial and no retry", got)
		}
	})
}

// serveAll answers every request of a pipe with okay and tells when the client
// has closed it.
func serveAll(closed func(n int)) func(int, net.Conn) {
	return func(n int, conn net.Conn) {
		for br := bufio.NewReader(conn); ; {
			if _, _, err := readRequest(br); err != nil {
				closed(n)
				return
			}
			io.WriteString(conn, okay)
		}
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var closedAt [2]atomic.Int64
		c := pipeClient(serveAll(func(n int) { closedAt[n].Store(int64(time.Since(begin))) }))
		open := func() *Response {
			r, err := c.Do(context.Background(), post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		a, b := open(), open()
		bodyOf(t, a) // connection 0 idle at 0 s
		<-time.After(500 * time.Millisecond)
		bodyOf(t, b) // connection 1 idle at 0.5 s
		<-time.After(time.Second)
		if r := open(); r.c != b.c { // last in, first out
			t.Error("got the connection idle for longer, want the one used last")
		} else {
			bodyOf(t, r) // connection 1 idle at 1.5 s
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		for n, want := range []time.Duration{2 * time.Second, 3500 * time.Millisecond} {
			if got := time.Duration(closedAt[n].Load()); got != want {
				t.Errorf("connection %d: closed at %v, want %v", n, got, want)
			}
		}
		if got := c.Stats(); got.Open != 0 || got.Idle != 0 {
			t.Errorf("got %+v, want nothing open", got)
		}
	})
}

func TestNoPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int32
		c := pipeClient(serveAll(func(int) { closed.Add(1) }))
		c.MaxIdle = -1
		for range 3 {
			r, err := c.Do(context.Background(), post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			bodyOf(t, r)
		}
		synctest.Wait()
		if got := c.Stats(); closed.Load() != 3 || got.Dials != 3 || got.Open != 0 {
			t.Errorf("got %d closed and %+v, want 3 connections, each closed", closed.Load(), got)
		}
	})
}

func TestMaxConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(serveAll(func(int) {}))
		defer c.CloseIdle()
		c.MaxConns = 2
		var open []*Response
		for range 2 {
			r, err := c.Do(context.Background(), post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, r)
		}
		_, err := c.Do(context.Background(), post("{}"))
		wantOp(t, err, OpConnect, ErrNoFreeConns)
		bodyOf(t, open[0])
		r, err := c.Do(context.Background(), post("{}"))
		if err != nil {
			t.Errorf("with one idle: got %v, want it used", err)
		} else {
			bodyOf(t, r)
		}
		open[1].Close() // aborted, so its place is free again
		if got := c.Stats(); got.Open != 1 || got.Idle != 1 {
			t.Errorf("got %+v, want one open, idle", got)
		}
	})
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(func(n int, conn net.Conn) {
			if n == 0 {
				<-time.After(time.Minute)
				return // closes an idle connection
			}
			serveAll(func(int) {})(n, conn)
		})
		defer c.CloseIdle()
		ready, err := c.Connect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		r, err := ready.Do(context.Background(), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := bodyOf(t, r); got != "ok" || r.Retries != 1 {
			t.Errorf("got %q and %d retries, want ok and 1: it was closed while it waited", got, r.Retries)
		}
		_, err = ready.Do(context.Background(), post("{}"))
		wantOp(t, err, OpWrite, ErrClosed)

		unused, err := c.Connect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		unused.Close()
		unused.Close()
		if got := c.Stats(); got.Idle != 1 || got.Open != 1 || got.Dials != 2 {
			t.Errorf("got %+v, want the one open connection back in the pool", got)
		}
	})
}

func TestConnectErrors(t *testing.T) {
	c := &Client{Addr: "127.0.0.1:1"}
	_, err := c.Do(context.Background(), post("{}"))
	wantOp(t, err, OpConnect, syscall.ECONNREFUSED)
	var e *Error
	if !errors.As(err, &e) || e.Sent != 0 || !strings.Contains(err.Error(), "connect 127.0.0.1:1: ") {
		t.Errorf("got %v, sent %d, want the step, the address, and nothing sent", err, e.Sent)
	}
	if got := c.Stats(); got.Open != 0 {
		t.Errorf("got %+v, want nothing open", got)
	}
}
