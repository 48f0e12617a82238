package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// conduct is how a client behaves, and what it is to see.
type conduct struct {
	leave  time.Duration // it leaves after this; 0: it stays
	abrupt bool          // by a reset
	slow   time.Duration // pause before each read
	broken bool          // the body is to break
	status int           // 0: 200
}

// client is one slot: a connection that is used again after a good end.
type client struct {
	addr  string
	tally *tally
	c     *net.TCPConn
	r     *bufio.Reader
}

// longest bounds each request, far above what any script takes.
const longest = 5 * time.Minute

func (c *client) dial(ctx context.Context) error {
	if c.c != nil {
		return nil
	}
	d := net.Dialer{Timeout: 30 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.c, c.r = conn.(*net.TCPConn), bufio.NewReader(conn)
	return nil
}

// hangUp ends the connection, if there is one.
func (c *client) hangUp() {
	if c.c != nil {
		_ = c.c.Close()
		c.c = nil
	}
}

// do asks for a script and compares what comes; an error is a broken promise,
// unless the context is over.
func (c *client) do(ctx context.Context, s script, how conduct) error {
	if err := c.dial(ctx); err != nil {
		return err
	}
	conn := c.c
	_ = conn.SetDeadline(time.Now().Add(longest)) // of a connection that ended: the write tells
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	stay := func() bool { return true }
	if how.leave > 0 {
		t := time.AfterFunc(how.leave, func() {
			c.tally.leaving(s.ID)
			if how.abrupt {
				_ = conn.SetLinger(0) // the close is what counts
			}
			_ = conn.Close()
		})
		stay = t.Stop
	}
	whole, err := c.exchange(s, how)
	stayed := stay()
	if !whole || !stayed {
		c.hangUp()
	}
	var broken mismatch
	if !stayed && !errors.As(err, &broken) {
		return nil // how its own leaving ended the reading
	}
	return err
}

// mismatch is bytes that are not those that were sent, or an end that none sent.
type mismatch struct{ error }

// ask sends the request.
func (c *client) ask(s script) error {
	body := s.body()
	head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nX-Request-Id: soak-%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", c.addr, s.ID, len(body))
	if _, err := (&net.Buffers{[]byte(head), body}).WriteTo(c.c); err != nil {
		return fmt.Errorf("stream %d: sending: %w", s.ID, err)
	}
	return nil
}

// exchange sends the request and reads the answer; whole says that it came to
// its end, so that the connection can be used again.
func (c *client) exchange(s script, how conduct) (whole bool, err error) {
	if err := c.ask(s); err != nil {
		return false, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return false, fmt.Errorf("stream %d: no answer: %w", s.ID, err)
	}
	defer resp.Body.Close()
	if how.status != 0 {
		if resp.StatusCode != how.status {
			return false, mismatch{fmt.Errorf("stream %d: status %d, want %d", s.ID, resp.StatusCode, how.status)}
		}
		_, err := io.Copy(io.Discard, resp.Body)
		return err == nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("stream %d: status %d (%s)", s.ID, resp.StatusCode, resp.Header.Get("X-Streamgauge-Error"))
	}
	return c.read(resp.Body, s, how)
}

func (c *client) read(body io.Reader, s script, how conduct) (whole bool, err error) {
	e := expect(s)
	buf := make([]byte, 4<<10)
	for {
		if how.slow > 0 {
			<-time.After(how.slow)
		}
		n, err := body.Read(buf)
		if bad := e.take(buf[:n]); bad != nil {
			return false, mismatch{fmt.Errorf("stream %d: %w", s.ID, bad)}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			switch {
			case how.broken:
				return false, mismatch{fmt.Errorf("stream %d: a clean end after %d bytes of a body that broke", s.ID, e.got)}
			case !e.done():
				return false, mismatch{fmt.Errorf("stream %d: a clean end after %d bytes, before the end", s.ID, e.got)}
			}
			return true, nil
		case how.broken:
			return false, nil
		default:
			return false, fmt.Errorf("stream %d: after %d bytes: %w", s.ID, e.got, err)
		}
	}
}
