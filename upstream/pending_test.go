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

// takeAll gives Take the pieces, each in a buffer that is overwritten afterwards but
// for the last, as a loop's is.
func takeAll(t *testing.T, p *Pending, pieces ...string) (*Head, *Detached, error) {
	t.Helper()
	at := stamp.Now()
	for i, piece := range pieces {
		b := []byte(piece)
		at++
		h, d, err := p.Take(b, at, stamp.Kernel)
		if i == len(pieces)-1 || err != nil {
			if h != nil && (h.HeadersAt != at || h.HeadersSource != stamp.Kernel || d.At != at || d.Source != stamp.Kernel) {
				t.Errorf("got %v by %v, want the last piece's %v", h.HeadersAt, h.HeadersSource, at)
			}
			return h, d, err
		}
		if h != nil || d != nil {
			t.Fatalf("a head after %d of %d pieces", i+1, len(pieces))
		}
		if !p.Begun() {
			t.Errorf("not begun after %q", piece)
		}
		for j := range b {
			b[j] = '#'
		}
	}
	return nil, nil, nil
}

// taken is a response that Take is for.
type taken struct {
	name, method, head, body string
	status                   int
	reason, fields           string
	length                   int64
	chunked                  bool
	reusable                 bool
}

var takes = []taken{
	{"a length", "POST", "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\n", "hello", 200, "OK", "Server: x\nContent-Length: 5\n", 5, false, true},
	{"no byte", "POST", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "", 404, "Not Found", "Content-Length: 0\n", 0, false, true},
	{"chunks", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\nX: 1\r\n\r\n", 200, "OK", "Transfer-Encoding: chunked\n", -1, true, true},
	{"a folded line", "GET", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc\r\nContent-Length: 5\r\n\r\n", "hello", 200, "OK", "X: a   b  \tc\nContent-Length: 5\n", 5, false, true},
	{"bare LF, no phrase", "GET", "HTTP/1.1 200\nContent-Length: 5\n\n", "hello", 200, "", "Content-Length: 5\n", 5, false, true},
	{"its last", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n", "hello", 200, "OK", "Connection: close\nContent-Length: 5\n", 5, false, false},
	{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", "hello", 200, "OK", "Content-Length: 5\n", 5, false, false},
	{"chunks and a length", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "0\r\n\r\n", 200, "OK", "Transfer-Encoding: chunked\nContent-Length: 5\n", -1, true, false},
}

func (c *taken) check(t *testing.T, cut int, h *Head, d *Detached, err error, early string) {
	t.Helper()
	if err != nil || h == nil || d == nil {
		t.Fatalf("cut at %d: got %v, %v, %v, want a head", cut, h, d, err)
	}
	if h.Status != c.status || string(h.Reason) != c.reason || h.ContentLength != max(c.length, -1) || h.Sent != 7 || h.Retries != 1 || h.Upgraded {
		t.Errorf("cut at %d: got %+v, want %+v", cut, h, c)
	}
	if got := fieldsText(h.Fields); got != c.fields {
		t.Errorf("cut at %d: got fields %q, want %q", cut, got, c.fields)
	}
	if d.Chunked() != c.chunked || string(d.Early) != early {
		t.Errorf("cut at %d: got chunked %v and %q, want %q", cut, d.Chunked(), d.Early, early)
	}
	rest := c.body[len(early):]
	_, used, _, err := d.Scan(d.Early, nil)
	if err != nil || used != len(early) || d.Ended() != (rest == "") {
		t.Errorf("cut at %d: scanned %d of %q, ended %v, %v", cut, used, d.Early, d.Ended(), err)
	}
	_, used, _, err = d.Scan([]byte(rest), nil)
	if err != nil || used != len(rest) || !d.Ended() || d.Reusable() != c.reusable {
		t.Errorf("cut at %d: scanned %d of %q, ended %v, reusable %v, %v", cut, used, rest, d.Ended(), d.Reusable(), err)
	}
}

// TestTakeAtEveryCut: the head is found however it comes, and what is behind it is
// the body's.
func TestTakeAtEveryCut(t *testing.T) {
	for _, c := range takes {
		t.Run(c.name, func(t *testing.T) {
			whole := c.head + c.body
			for cut := 0; cut <= len(whole); cut++ {
				p := &Pending{Method: c.method, Sent: 7, Retries: 1}
				if p.Begun() {
					t.Fatal("begun without a byte")
				}
				var h *Head
				var d *Detached
				var err error
				if early := cut - len(c.head); early >= 0 {
					h, d, err = takeAll(t, p, whole[:cut])
					c.check(t, cut, h, d, err, c.body[:early])
					continue
				}
				if cut > 0 {
					h, d, err = takeAll(t, p, whole[:cut], whole[cut:])
				} else {
					h, d, err = takeAll(t, p, whole)
				}
				c.check(t, cut, h, d, err, c.body)
			}
			var bytes []string
			for _, b := range c.head {
				bytes = append(bytes, string(b))
			}
			h, d, err := takeAll(t, &Pending{Method: c.method, Sent: 7, Retries: 1}, bytes...)
			c.check(t, -1, h, d, err, "")
		})
	}
}

// TestScanOfALength: the body is as long as it says, and what is behind it ends the
// connection's use.
func TestScanOfALength(t *testing.T) {
	for _, c := range []struct {
		pieces   []string
		data     string
		ended    bool
		reusable bool
	}{
		{[]string{"hello"}, "hello", true, true},
		{[]string{"", "he", "", "llo", ""}, "hello", true, true},
		{[]string{"hell"}, "hell", false, false},
		{[]string{"hello!"}, "hello", true, false},
		{[]string{"hello", "!"}, "hello", true, false},
	} {
		_, d, err := (&Pending{}).Take([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), 1, stamp.User)
		if err != nil {
			t.Fatal(err)
		}
		data := ""
		for _, p := range c.pieces {
			tail, used, spans, err := d.Scan([]byte(p), nil)
			if err != nil || tail != used {
				t.Errorf("%q: tail %d, used %d, %v", c.pieces, tail, used, err)
			}
			for _, s := range spans {
				data += p[s.From:s.To]
			}
		}
		if data != c.data || d.Ended() != c.ended || d.Reusable() != c.reusable || d.Ending() {
			t.Errorf("%q: got %q, ended %v, reusable %v, want %+v", c.pieces, data, d.Ended(), d.Reusable(), c)
		}
	}
}

// notTaken are responses that are not for a loop, and what Client.Do makes of them.
var notTaken = []struct {
	name, method, response string
	status                 int // 0: an error in the head
	body                   string
	interim, open          int
}{
	{"another protocol", "GET", "SSH-2.0-OpenSSH\r\n", 0, "", 0, 0},
	{"one byte of another", "GET", "S", 0, "", 0, 0},
	{"no status", "GET", "HTTP/1.1 2xx OK\r\n\r\n", 0, "", 0, 0},
	{"no name", "GET", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", 0, "", 0, 0},
	{"a length that is none", "GET", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", 0, "", 0, 0},
	{"lengths that differ", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello", 0, "", 0, 0},
	{"a coding", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello", 0, "", 0, 0},
	{"too long", "GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead), 0, "", 0, 0},
	{"interim", "GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", 103, 1},
	{"switching", "GET", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", 101, "", 0, 0},
	{"no content", "GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", 0, 1},
	{"not modified", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, "", 0, 1},
	{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, "", 0, 1},
	{"until close", "GET", "HTTP/1.1 200 OK\r\n\r\nhello", 200, "hello", 0, 0},
	{"until close, more than a head's room", "GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*headSize) + "\r\n\r\n" + strings.Repeat("y", 5*headSize), 200, strings.Repeat("y", 5*headSize), 0, 0},
}

// pending sends a request over a new socket of a loop's.
func pending(t *testing.T, s *rawServer, c *Client, method string) *Pending {
	t.Helper()
	addr, ok := c.Direct()
	if !ok || !c.Opened() {
		t.Fatalf("%s has no address, or no room", c.Addr)
	}
	raw, err := stamp.DialRaw(addr, false)
	if err != nil {
		t.Fatal(err)
	}
	req, err := c.AppendRequest(nil, &Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	p := &Pending{Raw: raw, Client: c, Method: method, Sent: stamp.Now(), Retries: 1}
	if n, err := raw.Send(req); n != len(req) || err != nil {
		t.Fatalf("sent %d of %d bytes, %v", n, len(req), err)
	}
	return p
}

// receive gives Take what comes, most bytes at a time, until it has an answer.
func (p *Pending) receive(t *testing.T, most int) (*Head, *Detached, error) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond / 10)
	defer tick.Stop()
	rc, buf := stamp.NewReceiver(), make([]byte, most)
	for range 100_000 {
		n, at, src, err := p.Recv(rc, buf)
		if errors.Is(err, syscall.EAGAIN) {
			<-tick.C
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if h, d, err := p.Take(buf[:n], at, src); h != nil || err != nil {
			return h, d, err
		}
	}
	t.Fatal("nothing came")
	return nil, nil, nil
}

// TestAdopt: a response that is not for a loop is read as Client.Do reads it, wherever
// Take has given it up.
func TestAdopt(t *testing.T) {
	for _, c := range notTaken {
		for _, most := range []int{1, 7, 64, 1 << 17} {
			t.Run(c.name, func(t *testing.T) {
				s := serveRaw(t, closing(c.response))
				if c.open > 0 {
					s = serveRaw(t, reply(c.response)) // the connection stays
				}
				cl := s.client(t)
				p := pending(t, s, cl, c.method)
				h, d, err := p.receive(t, most)
				if h != nil || d != nil || !errors.Is(err, ErrAttached) || !p.Begun() {
					t.Fatalf("got %v, %v, %v, want ErrAttached", h, d, err)
				}
				taken := stamp.Now()
				interim := 0
				r, err := p.Adopt(context.Background(), &Request{Method: c.method, Interim: func(status int, _ []Field) { interim = status }})
				if c.status == 0 {
					wantOp(t, err, OpHeader, nil)
					var e *Error
					if errors.As(err, &e) && (e.Sent != p.Sent || e.Retries != 1 || e.Addr != cl.Addr) {
						t.Errorf("got %+v, want the request's", e)
					}
					wantStats(t, cl, 0, 0)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if r.Status != c.status || r.Sent != p.Sent || r.Retries != 1 || interim != c.interim {
					t.Errorf("got %+v, interim %d, want %+v", r.Head, interim, c)
				}
				if r.HeadersAt <= r.Sent || r.HeadersAt > stamp.Now() || c.interim == 0 && r.HeadersAt > taken {
					t.Errorf("sent at %v, answered at %v, want it before %v", r.Sent, r.HeadersAt, taken)
				}
				if got := bodyOf(t, r); got != c.body {
					t.Errorf("got %q, want %q", got, c.body)
				}
				wantStats(t, cl, c.open, c.open)
			})
		}
	}
}

// TestAdoptWhatIsForALoop: it works for a head that Take has found too, if that is
// kept, and for one that is not whole.
func TestAdoptWhatIsForALoop(t *testing.T) {
	for _, c := range takes {
		t.Run(c.name, func(t *testing.T) {
			s := serveRaw(t, reply(c.head+c.body))
			cl := s.client(t)
			for _, most := range []int{1, len(c.head), 1 << 10} {
				p := pending(t, s, cl, c.method)
				rc, buf := stamp.NewReceiver(), make([]byte, most)
				tick := time.NewTicker(time.Millisecond / 10)
				for {
					n, at, src, err := p.Recv(rc, buf)
					if errors.Is(err, syscall.EAGAIN) {
						<-tick.C
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					h, _, err := p.Take(buf[:n], at, src)
					if err != nil {
						t.Fatal(err)
					}
					if h != nil {
						p.Keep(buf[:n])
						break
					}
				}
				tick.Stop()
				clear(buf) // the loop's
				r, err := p.Adopt(context.Background(), &Request{Method: c.method})
				if err != nil {
					t.Fatal(err)
				}
				if r.Status != c.status || fieldsText(r.Fields) != c.fields {
					t.Errorf("got %d and %q, want %d and %q", r.Status, fieldsText(r.Fields), c.status, c.fields)
				}
				want := c.body
				if c.chunked {
					want = map[bool]string{true: "hello"}[strings.Contains(c.body, "hello")]
				}
				if got := bodyOf(t, r); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if st := cl.Stats(); (st.Open == 1) != c.reusable || st.Open != st.Idle {
					t.Errorf("got %+v, reusable %v", st, c.reusable)
				}
				cl.CloseIdle()
			}
		})
	}
}

// TestAdoptGoesOn: what has not come when the front takes over is waited for, within
// the context's and the Client's limits.
func TestAdoptGoesOn(t *testing.T) {
	first, goOn := make(chan struct{}), make(chan struct{})
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		if _, _, err := readRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-")
		close(first)
		<-goOn
		io.WriteString(c, "Length: 5\r\n\r\nhello")
	})
	cl := s.client(t)
	p := pending(t, s, cl, "GET")
	<-first
	buf := make([]byte, 64)
	n, at, src, err := p.Recv(stamp.NewReceiver(), buf)
	if err != nil {
		t.Fatal(err)
	}
	if h, _, err := p.Take(buf[:n], at, src); h != nil || err != nil {
		t.Fatalf("got %v, %v, want no head", h, err)
	}
	clear(buf)
	close(goOn)
	r, err := p.Adopt(context.Background(), &Request{})
	if err != nil {
		t.Fatal(err)
	}
	if r.HeadersAt <= at {
		t.Errorf("got the head %v after its beginning", r.HeadersAt.Sub(at))
	}
	if got := bodyOf(t, r); got != "hello" {
		t.Errorf("got %q, want hello", got)
	}
	wantStats(t, cl, 1, 1)
}

// TestAdoptEnds: in every way that an exchange of the Client's does, and its
// connection is counted off once.
func TestAdoptEnds(t *testing.T) {
	why := errors.New("enough")
	for _, part := range []string{"", "HTTP/1.1 200 OK\r\n"} {
		op := OpHeaderWait
		if part != "" {
			op = OpHeader
		}
		begin := func(t *testing.T, serve func(int, *net.TCPConn)) (*Client, *Pending) {
			t.Helper()
			s := serveRaw(t, serve)
			c := s.client(t)
			p := pending(t, s, c, "GET")
			if part != "" {
				if _, _, err := p.Take([]byte(part), stamp.Now(), stamp.User); err != nil {
					t.Fatal(err)
				}
			}
			return c, p
		}
		t.Run("the context", func(t *testing.T) {
			c, p := begin(t, hanging(""))
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(why)
			r, err := p.Adopt(ctx, &Request{})
			if r != nil {
				t.Errorf("got %v", r)
			}
			wantOp(t, err, op, why)
			wantStats(t, c, 0, 0)
		})
		t.Run("the limit", func(t *testing.T) {
			c, p := begin(t, hanging(""))
			c.HeaderWait = 20 * time.Millisecond
			_, err := p.Adopt(context.Background(), &Request{})
			wantOp(t, err, op, nil)
			if !IsTimeout(err) {
				t.Errorf("got %v, want a timeout", err)
			}
			wantStats(t, c, 0, 0)
		})
		t.Run("the server", func(t *testing.T) {
			c, p := begin(t, closing(""))
			_, err := p.Adopt(context.Background(), &Request{})
			cause := io.EOF
			if part != "" {
				cause = io.ErrUnexpectedEOF
			}
			wantOp(t, err, op, cause)
			wantStats(t, c, 0, 0)
		})
		t.Run("its socket", func(t *testing.T) {
			c, p := begin(t, hanging(""))
			p.Raw.Close()
			_, err := p.Adopt(context.Background(), &Request{})
			wantOp(t, err, OpHeaderWait, net.ErrClosed)
			wantStats(t, c, 0, 0)
		})
	}
}

// TestDropPending: the server sees a reset.
func TestDropPending(t *testing.T) {
	seen := make(chan error, 1)
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		br := bufio.NewReader(c)
		if _, _, err := readRequest(br); err != nil {
			seen <- err
			return
		}
		_, err := br.ReadByte()
		seen <- err
	})
	c := s.client(t)
	p := pending(t, s, c, "GET")
	wantStats(t, c, 1, 0)
	p.Drop()
	if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server: got %v, want a reset", err)
	}
	wantStats(t, c, 0, 0)
}

// TestOpenedForTheLoop: a connection that a loop has made counts as the Client's own,
// and fills its limit; Spare makes room.
func TestOpenedForTheLoop(t *testing.T) {
	s := serveRaw(t, reply(okay))
	c := s.client(t)
	c.MaxConns = 2
	if first, second := c.Opened(), c.Opened(); !first || !second || c.Opened() {
		t.Error("want room for two")
	}
	if got, want := c.Stats(), (Stats{Open: 2, Dials: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.Parked(2)
	c.Parked(-1)
	if got, want := c.Stats(), (Stats{Open: 2, Idle: 1, Dials: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	do := func() error {
		r, err := c.Do(context.Background(), &Request{})
		if err == nil {
			bodyOf(t, r)
		}
		return err
	}
	wantOp(t, do(), OpConnect, ErrNoFreeConns)
	asked := 0
	c.Spare = func() bool { asked++; return false }
	wantOp(t, do(), OpConnect, ErrNoFreeConns)
	c.Spare = func() bool { asked++; c.Parked(-1); c.Closed(); return true }
	if err := do(); err != nil {
		t.Error(err)
	}
	if err := do(); err != nil { // over the one that is idle now
		t.Error(err)
	}
	if asked != 2 {
		t.Errorf("Spare was asked %d times, want 2", asked)
	}
	if got, want := c.Stats(), (Stats{Open: 2, Idle: 1, Dials: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.Closed()
	c.Retried()
	if got, want := c.Stats(), (Stats{Open: 1, Idle: 1, Dials: 3, Retries: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAppendRequest: it is what Do sends.
func TestAppendRequest(t *testing.T) {
	for _, req := range []*Request{
		post(`{"x":1}`),
		{},
		{Method: "PUT", Target: []byte("/a?b"), Header: []Field{{[]byte("host"), []byte("other")}, {[]byte("content-length"), []byte("9")}}, Body: []byte("")},
	} {
		var sent bytes.Buffer
		over := make(chan struct{})
		s := serveRaw(t, func(_ int, c *net.TCPConn) {
			defer close(over)
			if _, _, err := readRequest(bufio.NewReader(io.TeeReader(c, &sent))); err == nil {
				io.WriteString(c, okay)
			}
		})
		c := s.client(t)
		c.Host = "engine"
		r, err := c.Do(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		bodyOf(t, r)
		<-over
		got, err := c.AppendRequest([]byte("before"), req)
		if want := "before" + sent.String(); string(got) != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	got, err := (&Client{Addr: "x:1"}).AppendRequest([]byte("before"), &Request{Target: []byte("/a b")})
	wantOp(t, err, OpWrite, nil)
	if !bytes.HasPrefix(got, []byte("before")) {
		t.Errorf("got %q", got)
	}
}

// TestSpareRoomIsTaken: another takes the room that Spare has made; as long as more
// can be made a request is not refused.
func TestSpareRoomIsTaken(t *testing.T) {
	s := serveRaw(t, reply(okay))
	c := s.client(t)
	c.MaxConns = 2
	c.Opened()
	c.Opened()
	waiting := 2
	c.Spare = func() bool {
		if waiting == 0 {
			return false
		}
		c.Closed()
		if waiting--; waiting > 0 {
			c.Opened() // a loop was faster
		}
		return true
	}
	r, err := c.Do(context.Background(), &Request{})
	if err != nil {
		t.Fatal(err)
	}
	bodyOf(t, r)
	if got, want := c.Stats(), (Stats{Open: 2, Idle: 1, Dials: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.Closed()
}
