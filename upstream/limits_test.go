package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// stall serves the steps of one request and then waits for the client to leave.
// An empty step is a second of silence.
func stall(steps ...string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		br := bufio.NewReader(c)
		if _, _, err := readRequest(br); err != nil {
			return
		}
		for _, s := range steps {
			if s == "" {
				<-time.After(time.Second)
			} else if _, err := io.WriteString(c, s); err != nil {
				return
			}
		}
		br.Peek(1)
	}
}

// do sends a request, reads the body, and returns the error of either.
func do(ctx context.Context, c *Client) error {
	r, err := c.Do(ctx, post("{}"))
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.ReadAll(r)
	return err
}

func TestLimits(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name, reason string
		set          func(c *Client)
		serve        func(int, net.Conn)
		op           Op // "": no error
		after        time.Duration
	}{
		{"header wait, silence", "", func(c *Client) { c.HeaderWait = 3 * s },
			stall(), OpHeaderWait, 3 * s},
		{"header wait, trickle", "it limits the whole head", func(c *Client) { c.HeaderWait = 3 * s },
			stall("", "HTTP/1.1 200 OK\r\n", "", "A: b\r\n", "", "C: d\r\n", "", "\r\n"), OpHeader, 3 * s},
		{"header wait, long body", "it ends with the head", func(c *Client) { c.HeaderWait = 3 * s },
			stall("", chunkedHead, "", "", "", "", "0\r\n\r\n"), "", 5 * s},
		{"read idle, silence", "", func(c *Client) { c.ReadIdle = 3 * s },
			stall(chunkedHead, "1\r\na\r\n"), OpBody, 3 * s},
		{"read idle, trickle", "it is re-armed by each read", func(c *Client) { c.ReadIdle = 3 * s },
			stall(chunkedHead, "", "", "1\r\n", "", "", "a", "", "", "\r\n", "", "", "0\r\n\r\n"), "", 8 * s},
		{"read idle, prefill", "the head may take its time", func(c *Client) { c.ReadIdle = s / 2 },
			stall("", "", "", "", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"), "", 4 * s},
		{"write limit", "the server reads nothing", func(c *Client) { c.WriteLimit = 3 * s },
			func(_ int, c net.Conn) { <-time.After(time.Minute) }, OpWrite, 3 * s},
		{"no limits", "", func(c *Client) {},
			stall("", "", "", chunkedHead, "", "", "", "0\r\n\r\n"), "", 6 * s},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pipeClient(tt.serve)
				defer c.CloseIdle()
				tt.set(c)
				begin := time.Now()
				err := do(context.Background(), c)
				if got := time.Since(begin); got != tt.after {
					t.Errorf("took %v, want %v %s", got, tt.after, tt.reason)
				}
				<-time.After(time.Minute) // the server of "write limit" sleeps
				if tt.op == "" {
					if err != nil {
						t.Errorf("got %v, want no error: %s", err, tt.reason)
					}
					return
				}
				wantOp(t, err, tt.op, os.ErrDeadlineExceeded)
				if !IsTimeout(err) {
					t.Errorf("IsTimeout(%v): got false, want true", err)
				}
			})
		})
	}
}

// A connection that a limit was set on serves the next request without it.
func TestLimitsEndWithTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(func(_ int, conn net.Conn) {
			for br := bufio.NewReader(conn); ; {
				if _, _, err := readRequest(br); err != nil {
					return
				}
				<-time.After(4 * time.Second)
				io.WriteString(conn, okay)
			}
		})
		c.MaxIdle = time.Minute
		defer c.CloseIdle()
		c.ReadIdle, c.WriteLimit, c.HeaderWait = time.Second, time.Second, 5*time.Second
		for i := range 3 {
			if err := do(context.Background(), c); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
			<-time.After(10 * time.Second)
		}
		if got := c.Stats().Dials; got != 1 {
			t.Errorf("got %d dials, want 1", got)
		}
	})
}

func TestContextEndsEveryStep(t *testing.T) {
	left := errors.New("the client left")
	for _, tt := range []struct {
		name string
		c    *Client
		op   Op
	}{
		{"dial", &Client{Addr: "engine:80"}, OpConnect},
		{"write", pipeClient(func(_ int, c net.Conn) { <-time.After(time.Minute) }), OpWrite},
		{"header wait", pipeClient(stall()), OpHeaderWait},
		{"head", pipeClient(stall("HTTP/1.1 200")), OpHeader},
		{"body", pipeClient(stall(chunkedHead, "1\r\na")), OpBody},
		{"body, close-delimited", pipeClient(stall("HTTP/1.0 200 OK\r\n\r\na")), OpBody},
	} {
		if tt.name == "dial" {
			tt.c.Dialer.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(context.Background())
				time.AfterFunc(time.Second, func() { cancel(left) })
				begin := time.Now()
				err := do(ctx, tt.c)
				wantOp(t, err, tt.op, left)
				if got := time.Since(begin); got != time.Second {
					t.Errorf("returned after %v, want 1s: at once", got)
				}
				<-time.After(time.Minute) // the server of "write" sleeps
				if got := tt.c.Stats(); got.Open != 0 || got.Retries != 0 {
					t.Errorf("got %+v, want no connection and no retry", got)
				}
			})
		})
	}
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(left)
		wantOp(t, do(ctx, &Client{Addr: "engine:80"}), OpConnect, left)
	})
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			err := do(ctx, pipeClient(stall()))
			wantOp(t, err, OpHeaderWait, context.DeadlineExceeded)
			if !IsTimeout(err) {
				t.Errorf("IsTimeout(%v): got false, want true", err)
			}
		})
	})
}

// Cancel wakes a blocked Read, and the server sees a reset, no polite end.
func TestCancelResets(t *testing.T) {
	seen := make(chan error, 1)
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		readRequest(bufio.NewReader(c))
		io.WriteString(c, chunkedHead)
		_, err := c.Read(make([]byte, 1))
		seen <- err
	})
	c := s.client(t)
	r, err := c.Do(context.Background(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	loop := errors.New("the text repeats")
	go r.Cancel(loop)
	_, err = r.Read(make([]byte, 100))
	wantOp(t, err, OpBody, loop)
	r.Cancel(errors.New("second"))
	if _, err := r.Read(make([]byte, 100)); !errors.Is(err, loop) {
		t.Errorf("got %v, want the first cause", err)
	}
	if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server saw %v, want ECONNRESET", err)
	}
	r.Close()
	if got := c.Stats(); got.Open != 0 {
		t.Errorf("got %+v, want nothing open", got)
	}
}

// A body that is not read to its end frees the server at once.
func TestCloseBeforeTheEndResets(t *testing.T) {
	seen := make(chan error, 1)
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		readRequest(bufio.NewReader(c))
		io.WriteString(c, chunkedHead+"1\r\na\r\n")
		_, err := c.Read(make([]byte, 1))
		seen <- err
	})
	r, err := s.client(t).Do(context.Background(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server saw %v, want ECONNRESET", err)
	}
}

// R26: a listener whose backlog is full lets a dial hang; the limit ends it.
func TestR26DialHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{Addr: "engine:80"}
		c.Dialer.Timeout = 10 * time.Second
		c.Dialer.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		begin := time.Now()
		err := do(context.Background(), c)
		wantOp(t, err, OpConnect, context.DeadlineExceeded)
		if got := time.Since(begin); got != 10*time.Second || !IsTimeout(err) {
			t.Errorf("took %v, timeout %v, want 10s, true", got, IsTimeout(err))
		}
	})
}
