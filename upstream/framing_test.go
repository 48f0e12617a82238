package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

// wire is a response as bytes, and for every number of them how much of the
// body a reader must have been given.
type wire struct {
	name  string
	bytes string
	head  int   // length of the head
	body  []int // body[k]: bytes of the body within the first k bytes
	text  string
	eof   bool // the connection's end is the body's
}

func wires() []wire {
	var ws []wire
	add := func(name, head string, eof bool, parts ...string) {
		w := wire{name: name, bytes: head, head: len(head), eof: eof}
		w.body = make([]int, len(head))
		for i, p := range parts { // framing and data alternate
			w.bytes += p
			for _, b := range []byte(p) {
				w.body = append(w.body, len(w.text))
				if i%2 == 1 {
					w.text += string(b)
				}
			}
		}
		w.body = append(w.body, len(w.text))
		ws = append(ws, w)
	}
	add("chunked", chunkedHead, false, "5\r\n", "hello", "\r\n0a; ext=\"1\"\r\n", "0123456789", "\r\n0\r\nX-T: v\r\n\r\n")
	add("length", "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n", false, "", "hello0123456789")
	add("close", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", true, "", "hello0123456789")
	add("HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n", true, "", "hello0123456789")
	return ws
}

// serveCut answers the first request with b[:cut], waits, and goes on with the
// rest.
func serveCut(b string, cut int, wait time.Duration, rest bool) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, b[:cut])
		if rest {
			<-time.After(wait)
			io.WriteString(c, b[cut:])
		}
	}
}

// Every framing, cut in two at every offset, 10 ms apart: every byte of the
// body comes at the instant of its own part, also those in front of framing
// that is still to come.
func TestEveryByteHasItsInstant(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			for cut := 1; cut < len(w.bytes); cut++ {
				synctest.Test(t, func(t *testing.T) {
					begin := stamp.Now()
					c := pipeClient(serveCut(w.bytes, cut, 10*time.Millisecond, true))
					r, err := c.Do(context.Background(), post("{}"))
					if err != nil {
						t.Fatalf("cut at %d: %v", cut, err)
					}
					late := begin.Add(10 * time.Millisecond)
					wantHead := begin
					if cut < w.head {
						wantHead = late
					}
					if r.HeadersAt != wantHead {
						t.Errorf("cut at %d: headers came at %v, want %v", cut, r.HeadersAt.Sub(begin), wantHead.Sub(begin))
					}
					var text []byte
					early, buf := 0, make([]byte, 64)
					for {
						n, err := r.Read(buf)
						now := stamp.Now()
						if errors.Is(err, io.EOF) {
							break
						}
						if err != nil {
							t.Fatalf("cut at %d: %v", cut, err)
						}
						text = append(text, buf[:n]...)
						at, src := r.At()
						if at != begin && at != late || src != stamp.User || at != now {
							t.Errorf("cut at %d: %q came at %v %v, at %v", cut, buf[:n], at.Sub(begin), src, now.Sub(begin))
						}
						if at == begin {
							early += n
						}
					}
					if string(text) != w.text {
						t.Errorf("cut at %d: got %q, want %q", cut, text, w.text)
					}
					if early != w.body[cut] {
						t.Errorf("cut at %d: %d bytes came at once, want %d", cut, early, w.body[cut])
					}
					r.Close()
					c.CloseIdle()
				})
			}
		})
	}
}

// A connection that ends at any offset: what was there is handed out, and only
// the true end is a clean one.
func TestCutAtEveryOffset(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			for cut := range len(w.bytes) {
				synctest.Test(t, func(t *testing.T) {
					c := pipeClient(serveCut(w.bytes, cut, 0, false))
					defer c.CloseIdle()
					r, err := c.Do(context.Background(), post("{}"))
					switch {
					case cut == 0:
						wantOp(t, err, OpHeaderWait, io.EOF)
						return
					case cut < w.head:
						wantOp(t, err, OpHeader, io.ErrUnexpectedEOF)
						return
					case err != nil:
						t.Fatalf("cut at %d: %v", cut, err)
					}
					text, err := io.ReadAll(r)
					if got, want := string(text), w.text[:w.body[cut]]; got != want {
						t.Errorf("cut at %d: got %q, want %q", cut, got, want)
					}
					if w.eof {
						if err != nil {
							t.Errorf("cut at %d: got %v, want a clean end", cut, err)
						}
					} else {
						wantOp(t, err, OpBody, io.ErrUnexpectedEOF)
					}
					r.Close()
					if got := c.Stats(); got.Open != 0 {
						t.Errorf("cut at %d: got %+v, want the connection gone", cut, got)
					}
				})
			}
		})
	}
}

// R9b: a reset is told from a cut, behind any byte of the body, and a
// close-delimited body does not take it for its end.
func TestR9bResetInTheBody(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			for cut := w.head; cut < len(w.bytes); cut++ {
				read := make(chan struct{})
				s := serveRaw(t, func(_ int, c *net.TCPConn) {
					readRequest(bufio.NewReader(c))
					io.WriteString(c, w.bytes[:cut])
					<-read
					c.SetLinger(0)
				})
				c := s.client(t)
				r, err := c.Do(context.Background(), post("{}"))
				if err != nil {
					t.Fatal(err)
				}
				text := make([]byte, w.body[cut])
				if _, err := io.ReadFull(r, text); err != nil {
					t.Fatal(err)
				}
				close(read)
				_, err = r.Read(make([]byte, 10))
				wantOp(t, err, OpBody, syscall.ECONNRESET)
				if got, want := string(text), w.text[:w.body[cut]]; got != want {
					t.Errorf("cut at %d: got %q, want %q", cut, got, want)
				}
				if _, again := r.Read(make([]byte, 10)); !errors.Is(again, err) {
					t.Errorf("next read: got %v, want the same error", again)
				}
				r.Close()
				if got := c.Stats(); got.Retries != 0 || got.Open != 0 {
					t.Errorf("got %+v, want no retry and no connection", got)
				}
				s.close()
			}
		})
	}
}

// Chunks that came in one segment go out in one Read, and however small the
// reader's buffer is, it gets the same bytes.
func TestReadsOfOneSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wires()[0]
		for size := 1; size < 70; size++ {
			c := pipeClient(serveCut(w.bytes, len(w.bytes), 0, false))
			r, err := c.Do(context.Background(), post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			var text []byte
			reads, buf := 0, make([]byte, size)
			for {
				n, err := r.Read(buf)
				if err != nil {
					break
				}
				reads++
				text = append(text, buf[:n]...)
			}
			if string(text) != w.text {
				t.Errorf("buffer of %d: got %q, want %q", size, text, w.text)
			}
			if rest := len(w.bytes) - w.head; size >= rest && reads != 1 {
				t.Errorf("buffer of %d: got %d reads for %d bytes of one segment, want 1", size, reads, rest)
			}
			r.Close()
			c.CloseIdle()
		}
	})
}

// A last chunk without data behind a full buffer must not be lost, nor must
// trailers split anywhere.
func TestLargeBody(t *testing.T) {
	var b strings.Builder
	b.WriteString(chunkedHead)
	var want bytes.Buffer
	for i := range 2000 {
		data := strings.Repeat(string(rune('a'+i%26)), 1+i*7%3000)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(data), data)
		want.WriteString(data)
	}
	b.WriteString("0\r\n\r\n")
	c := serveRaw(t, reply(b.String())).client(t)
	for range 3 {
		r, err := c.Do(context.Background(), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := bodyOf(t, r); got != want.String() {
			t.Errorf("got %d bytes, want the %d sent", len(got), want.Len())
		}
	}
	if got := c.Stats(); got.Dials != 1 {
		t.Errorf("got %+v, want one connection", got)
	}
}

func TestUpgrade(t *testing.T) {
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		br := bufio.NewReader(c)
		readRequest(br)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly")
		io.Copy(c, br)
	})
	client := s.client(t)
	ctx, cancel := context.WithCancel(context.Background())
	r, err := client.Do(ctx, &Request{Header: []Field{
		{[]byte("Connection"), []byte("Upgrade")}, {[]byte("Upgrade"), []byte("websocket")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Upgraded || r.Status != 101 {
		t.Errorf("got upgraded %v, status %d, want true, 101", r.Upgraded, r.Status)
	}
	c, early, err := r.Takeover()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel() // no longer watched
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	c.Write([]byte(" echo"))
	got := make([]byte, 64)
	if n := copy(got, early); n < len("early echo") {
		if _, err := io.ReadFull(c, got[n:len("early echo")]); err != nil {
			t.Fatal(err)
		}
	}
	if string(got[:10]) != "early echo" {
		t.Errorf("got %q, want early echo", got[:10])
	}
	if got := client.Stats(); got.Open != 0 {
		t.Errorf("got %+v, want the connection handed over", got)
	}
	if _, _, err := r.Takeover(); !errors.Is(err, ErrClosed) {
		t.Errorf("second takeover: got %v, want ErrClosed", err)
	}
}
