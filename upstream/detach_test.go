//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

// detached asks s and takes the response's socket out.
func detached(t *testing.T, c *Client, ctx context.Context) *Detached {
	t.Helper()
	r, err := c.Do(ctx, post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Detach()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// scanned reads a detached body to its end, or an error.
func scanned(t *testing.T, d *Detached) (data []byte, err error) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond / 10)
	defer tick.Stop()
	rc, buf := stamp.NewReceiver(), make([]byte, 4096)
	for p := d.Early; ; {
		_, _, spans, err := d.Scan(p, nil)
		for _, s := range spans {
			data = append(data, p[s.From:s.To]...)
		}
		if err != nil || d.Ended() {
			return data, err
		}
		n := 0
		for range 50_000 {
			if n, _, _, err = d.Recv(rc, buf); !errors.Is(err, syscall.EAGAIN) {
				break
			}
			<-tick.C
		}
		if err != nil {
			return data, err
		}
		p = buf[:n]
	}
}

func wantStats(t *testing.T, c *Client, open, idle int) {
	t.Helper()
	if s := c.Stats(); s.Open != open || s.Idle != idle {
		t.Errorf("got %d open, %d idle, want %d and %d", s.Open, s.Idle, open, idle)
	}
}

// TestAttached: what has no end of its own, or no socket, or nothing left to come
// stays a Response, and works as one.
func TestAttached(t *testing.T) {
	for _, tt := range []struct{ name, response, body string }{
		{"a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"},
		{"until close", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", "hello"},
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", ""},
		{"all of it is here", chunkedHead + "5\r\nhello\r\n0\r\n\r\n", "hello"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveRaw(t, closing(tt.response))
			c := s.client(t)
			r, err := c.Do(context.Background(), post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if d, err := r.Detach(); d != nil || !errors.Is(err, ErrAttached) {
					t.Fatalf("got %v, %v, want ErrAttached", d, err)
				}
			}
			if got := bodyOf(t, r); got != tt.body {
				t.Errorf("got %q, want %q", got, tt.body)
			}
		})
	}
	t.Run("no TCP", func(t *testing.T) {
		c := pipeClient(func(_ int, c net.Conn) {
			if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
				io.WriteString(c, chunkedHead)
				io.WriteString(c, "5\r\nhello\r\n0\r\n\r\n")
			}
		})
		defer c.CloseIdle()
		r, err := c.Do(context.Background(), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Detach(); !errors.Is(err, ErrAttached) {
			t.Fatalf("got %v, want ErrAttached", err)
		}
		if got := bodyOf(t, r); got != "hello" {
			t.Errorf("got %q, want hello", got)
		}
	})
}

// TestNoDescriptorToDetachWith: at the limit a response stays what it is, and is not
// lost.
func TestNoDescriptorToDetachWith(t *testing.T) {
	goOn := make(chan struct{})
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, chunkedHead+"5\r\nhello\r\n")
			<-goOn
			io.WriteString(c, "0\r\n\r\n")
		}
	})
	c := s.client(t)
	r, err := c.Do(context.Background(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	d, err := r.Detach()
	if back := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); back != nil {
		t.Fatal(back)
	}
	if d != nil || !errors.Is(err, ErrAttached) {
		t.Fatalf("got %v, %v, want ErrAttached", d, err)
	}
	close(goOn)
	if got := bodyOf(t, r); got != "hello" {
		t.Errorf("got %q, want hello", got)
	}
	wantStats(t, c, 1, 1)
}

// TestDetachTooLate: a response that is closed or cancelled gives no socket, and
// its connection is counted off once.
func TestDetachTooLate(t *testing.T) {
	why := errors.New("enough")
	for _, tt := range []struct {
		name string
		end  func(r *Response, cancel context.CancelCauseFunc)
		want error
	}{
		{"closed", func(r *Response, _ context.CancelCauseFunc) { r.Close() }, ErrClosed},
		{"cancelled", func(r *Response, _ context.CancelCauseFunc) { r.Cancel(why) }, why},
		{"its context is over", func(r *Response, cancel context.CancelCauseFunc) { cancel(why); <-r.cancelled }, why},
		{"detached", func(r *Response, _ context.CancelCauseFunc) {
			if d, err := r.Detach(); err == nil {
				d.Drop()
			}
		}, ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveRaw(t, hanging(chunkedHead+"5\r\nhello\r\n"))
			c := s.client(t)
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			r, err := c.Do(ctx, post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			tt.end(r, cancel)
			for range 2 {
				if d, err := r.Detach(); d != nil || err == nil {
					t.Fatalf("got %v, %v, want an error", d, err)
				} else if !errors.Is(err, tt.want) && !errors.Is(err, ErrClosed) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				r.Close()
				wantStats(t, c, 0, 0)
			}
		})
	}
}

// TestDetachAgainstCancel: whichever comes first, the connection ends once, and the
// server sees a reset.
func TestDetachAgainstCancel(t *testing.T) {
	seen := make(chan error, 1)
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, chunkedHead+"5\r\nhello\r\n")
			_, err = io.Copy(io.Discard, c)
			seen <- err
		}
	})
	c := s.client(t)
	detached := 0
	for i := range 300 {
		ctx, cancel := context.WithCancel(context.Background())
		r, err := c.Do(ctx, post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		go cancel()
		d, err := r.Detach()
		switch {
		case err == nil:
			detached++
			d.Drop()
		case errors.Is(err, ErrAttached):
			t.Fatalf("round %d: a cancelled response goes on", i)
		}
		if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("round %d: the server got %v, want a reset", i, err)
		}
		r.Close()
		cancel()
	}
	wantStats(t, c, 0, 0)
	t.Logf("%d of 300 came before the cancel", detached)
}

// hanging serves one request of a connection and then waits for its end.
func hanging(response string) func(int, *net.TCPConn) {
	return func(_ int, c *net.TCPConn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, response)
			io.Copy(io.Discard, c)
		}
	}
}

// TestPut: a connection goes back to the pool after a whole body, and works there
// as before; after any other it is closed. Each is counted off once.
func TestPut(t *testing.T) {
	for _, tt := range []struct {
		name, response string
		maxIdle        time.Duration
		half           bool // Put comes before the end
		idle           int
	}{
		{name: "whole", response: chunkedHead + "5\r\nhello\r\n0\r\nX: 1\r\n\r\n", idle: 1},
		{name: "the server closes", response: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: 1\r\n\r\n"},
		{name: "bytes behind the end", response: chunkedHead + "5\r\nhello\r\n0\r\nX: 1\r\n\r\nmore"},
		{name: "no pool", response: chunkedHead + "5\r\nhello\r\n0\r\nX: 1\r\n\r\n", maxIdle: -1},
		{name: "before the end", response: chunkedHead + "5\r\nhello\r\n", half: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveRaw(t, reply(tt.response))
			c := s.client(t)
			c.MaxIdle = tt.maxIdle
			for i := range 3 {
				d := detached(t, c, context.Background())
				wantStats(t, c, 1, 0)
				if tt.half {
					d.Scan(d.Early, nil)
				} else if data, err := scanned(t, d); string(data) != "hello" || err != nil {
					t.Fatalf("response %d: got %q, %v, want hello", i, data, err)
				}
				d.Put()
				wantStats(t, c, tt.idle, tt.idle)
				if tt.idle > 0 && d.Source != stamp.Kernel && i > 0 {
					t.Errorf("response %d: its head was stamped by %v, want the kernel", i, d.Source)
				}
			}
			if got, want := c.Stats().Dials, int64(3-2*tt.idle); got != want {
				t.Errorf("got %d dials, want %d", got, want)
			}
		})
	}
}

// TestPutGoesStale: a connection that came back from outside is looked at before
// its next use as any other.
func TestPutGoesStale(t *testing.T) {
	left := make(chan struct{})
	s := serveRaw(t, func(n int, c *net.TCPConn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, chunkedHead+"5\r\nhello\r\n0\r\nX: 1\r\n\r\n")
		}
		if n == 0 {
			<-left
			c.Close()
			left <- struct{}{}
		}
	})
	c := s.client(t)
	d := detached(t, c, context.Background())
	if _, err := scanned(t, d); err != nil {
		t.Fatal(err)
	}
	d.Put()
	left <- struct{}{}
	<-left
	r, err := c.Do(context.Background(), post("{}"))
	if err != nil || r.Retries != 0 {
		t.Fatalf("got %v, want a second connection without a retry", err)
	}
	if got := bodyOf(t, r); got != "hello" {
		t.Errorf("got %q, want hello", got)
	}
	if n := c.Stats().Dials; n != 2 {
		t.Errorf("got %d dials, want 2", n)
	}
}

// TestDrop: the server sees a reset, and the connection counts against MaxConns
// until then. The context that the request had no longer ends it.
func TestDrop(t *testing.T) {
	seen := make(chan error, 1)
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, chunkedHead)
			_, err = io.Copy(io.Discard, c)
			seen <- err
		}
	})
	c := s.client(t)
	c.MaxConns = 1
	ctx, cancel := context.WithCancel(context.Background())
	d := detached(t, c, ctx)
	cancel()
	if _, err := c.Do(context.Background(), post("{}")); !errors.Is(err, ErrNoFreeConns) {
		t.Errorf("a second request: got %v, want ErrNoFreeConns", err)
	}
	if n, err := d.Send([]byte("still open")); n != 10 || err != nil {
		t.Errorf("after the context's end: sent %d, %v", n, err)
	}
	d.Drop()
	wantStats(t, c, 0, 0)
	if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server: got %v, want a reset", err)
	}
	d = detached(t, c, context.Background())
	d.Drop()
	<-seen
}

// TestDetachMidway: what was read before is not given again, and nothing between
// is lost: neither what came with the head nor what its read had left over.
func TestDetachMidway(t *testing.T) {
	long := strings.Repeat("0123456789", 1000)
	s := serveRaw(t, hanging(chunkedHead+"5\r\nhello\r\n2710;x=y\r\n"+long+"\r\n0\r\nX-Sum: 7\r\n\r\n"))
	for _, n := range []int{0, 3, 5, 100, 5000} {
		c := s.client(t)
		r, err := c.Do(context.Background(), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, n)
		for read := 0; read < n; {
			m, err := r.Read(got[read:])
			if err != nil {
				t.Fatal(err)
			}
			read += m
		}
		d, err := r.Detach()
		if err != nil {
			t.Fatal(err)
		}
		rest, err := scanned(t, d)
		if got = append(got, rest...); string(got) != "hello"+long || err != nil {
			t.Errorf("after %d bytes: got %d in all, %v, want %d", n, len(got), err, len(long)+5)
		}
		if f, err := d.Trailer(); fieldsText(f) != "X-Sum: 7\n" || err != nil {
			t.Errorf("trailer: got %q, %v", fieldsText(f), err)
		}
		d.Put()
		wantStats(t, c, 1, 1)
	}
}

// FuzzScan: however the bytes are cut, Scan finds the data, the end and the error
// that decode finds; what it gives for forwarding is what came, the trailer
// section apart.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		"5\r\nhello\r\n0\r\n\r\n",
		"0a;x=\"y\"\r\n0123456789\r\n00\r\nT: v\r\nU: w\r\n\r\nmore",
		"1\r\na\r\n1\r\nb\r\n0\r\n",
		"fffffffffffffff\r\n",
		"2\r\nabc\r\n",
		"0\r\n\rx",
		"",
	} {
		for _, size := range []uint8{0, 1, 2, 6, 255} {
			f.Add([]byte(s), size)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		var want chunked
		b := bytes.Clone(in)
		n, used, werr := want.decode(b)
		b = b[:n]

		d := &Detached{frame: framing{kind: byChunks, reuse: true}}
		var data, chunks, section []byte
		var err error
		total := 0
		var spans []Span
		for rest := in; len(rest) > 0 && err == nil && !d.Ended(); {
			p := bytes.Clone(rest[:min(len(rest), int(size)+1)])
			var tail, u int
			tail, u, spans, err = d.Scan(p, spans[:0])
			if tail > u || u > len(p) || !bytes.Equal(p, rest[:len(p)]) {
				t.Fatalf("tail %d, used %d of %d, or Scan wrote into its input", tail, u, len(p))
			}
			for _, s := range spans {
				if s.To > tail {
					t.Fatalf("data to %d, behind the tail at %d", s.To, tail)
				}
				data = append(data, p[s.From:s.To]...)
			}
			if tail > 0 && len(section) > 0 {
				t.Fatalf("chunks behind the trailer section %q", section)
			}
			chunks, section = append(chunks, p[:tail]...), append(section, p[tail:u]...)
			total += u
			rest = rest[len(p):]
			if d.Ended() && u < len(p) && d.frame.reuse {
				t.Fatal("bytes behind the end, and the connection may be used again")
			}
		}
		if !bytes.Equal(data, b) || total != used || d.chunks.state != want.state {
			t.Fatalf("got %q, %d used, state %d; decode: %q, %d, %d", data, total, d.chunks.state, b, used, want.state)
		}
		if (err == nil) != (werr == nil) || err != nil && err.Error() != werr.Error() {
			t.Fatalf("got error %v, decode: %v", err, werr)
		}
		if got := append(chunks, section...); !bytes.Equal(got, in[:used]) {
			t.Fatalf("for forwarding: %q, came %q", got, in[:used])
		}
		if fields := append(bytes.Clone(want.trailer), "\r\n"...); d.Ended() && !bytes.Equal(section, fields) {
			t.Fatalf("trailer section %q, want %q", section, fields)
		}
	})
}
