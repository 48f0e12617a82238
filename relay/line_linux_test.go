//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// stand is a loop between an engine and clients that the test plays itself, on
// loopback TCP.
type stand struct {
	t       *testing.T
	loop    *Loop
	front   *front
	engines net.Listener
	clients net.Listener // accepts stamped connections
	addr    net.Addr     // where the loop listens
	pool    *upstream.Client
}

func newStand(t *testing.T, limits Limits) *stand {
	t.Helper()
	f := &front{t: t, served: make(chan served, 64), taken: make(chan *turn, 64)}
	loop, err := New(limits, f)
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{t: t, loop: loop, front: f, engines: listen(t), clients: stamp.WrapListener(listen(t), false)}
	t.Cleanup(func() {
		loop.Close()
		f.clear()
		_ = s.engines.Close()
		_ = s.clients.Close()
	})
	return s
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// line is one stream: what the test writes to engine comes out at client.
type line struct {
	*sink
	s      *Stream
	pool   *upstream.Client // the engine's connection is the only one in it
	engine *net.TCPConn
	client *net.TCPConn
	up     int // the descriptors on our side, while the stream lives
	down   int
}

// head is what the client gets before the body.
const head = "HTTP/1.1 200 OK\r\nX-Test: 1\r\nTransfer-Encoding: chunked\r\n\r\n"

// open carries a stream whose early bytes come together with the engine's head.
func (st *stand) open(early string, set ...func(*Stream)) *line {
	st.t.Helper()
	l := st.prepare(early, set...)
	st.loop.Carry(l.s, []byte(head))
	return l
}

// prepare is open without the carrying.
func (st *stand) prepare(early string, set ...func(*Stream)) *line {
	st.t.Helper()
	l := &line{sink: newSink(st.t), pool: &upstream.Client{Addr: st.engines.Addr().String(), MaxIdle: time.Minute}}
	st.t.Cleanup(l.pool.CloseIdle)
	engine := make(chan *net.TCPConn, 1)
	go func() {
		defer close(engine)
		c, err := st.engines.Accept()
		if err != nil {
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body)
		}
		if err == nil {
			_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+early)
		}
		if err != nil {
			st.t.Errorf("the engine: %v", err)
		}
		engine <- c.(*net.TCPConn)
	}()
	resp, err := l.pool.Do(context.Background(), &upstream.Request{Method: "POST", Target: []byte("/"), Body: []byte("{}")})
	if err != nil {
		st.t.Fatal(err)
	}
	l.engine = <-engine
	up, err := resp.Detach()
	if err != nil {
		st.t.Fatalf("Detach after %q: %v", early, err)
	}
	var down *stamp.Raw
	l.client, down = st.pair()
	l.s = &Stream{Up: up, Down: down, Sink: l.sink, Last: true}
	for _, f := range set {
		f(l.s)
	}
	l.up, l.down = up.FD(), down.FD()
	st.t.Cleanup(func() { _ = l.engine.Close() })
	return l
}

// pair is a client and its socket on our side.
func (st *stand) pair() (client *net.TCPConn, ours *stamp.Raw) {
	st.t.Helper()
	client = dial(st.t, st.clients.Addr())
	a, err := st.clients.Accept()
	if err != nil {
		st.t.Fatal(err)
	}
	raw, rest, err := a.(*stamp.Conn).Detach()
	if err != nil || len(rest) > 0 {
		st.t.Fatalf("Detach: %q, %v", rest, err)
	}
	return client, raw
}

// dial is a client that fails the test when it hangs.
func dial(t *testing.T, addr net.Addr) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// sockets is how many the loop has.
func (st *stand) sockets() (n int) {
	st.loop.mu.Lock()
	defer st.loop.mu.Unlock()
	for _, k := range st.loop.sockets {
		if k != nil {
			n++
		}
	}
	return n
}

func halfClosedStays(s *Stream) { s.StayHalfClosed = true }

// staysOpen makes the client's connection outlive the stream.
func staysOpen(s *Stream) { s.Last = false }

// send writes a piece of the engine's body and returns when the loop has
// received it. The stream must not end by it.
func (l *line) send(piece string) {
	l.t.Helper()
	l.say(piece)
	eventually(l.t, "the piece is received", func() bool { return queued(l.t, l.up, unix.SIOCINQ) == 0 })
}

// say writes a piece of the engine's body.
func (l *line) say(piece string) {
	l.t.Helper()
	if _, err := io.WriteString(l.engine, piece); err != nil {
		l.t.Fatalf("the engine: %v", err)
	}
}

// read returns the next n bytes that the client gets.
func (l *line) read(n int) string {
	l.t.Helper()
	b := make([]byte, n)
	if m, err := io.ReadFull(l.client, b); err != nil {
		l.t.Fatalf("the client: %q, %v", b[:m], err)
	}
	return string(b)
}

// rest returns all that the client still gets.
func (l *line) rest() (string, error) {
	b, err := io.ReadAll(l.client)
	return string(b), err
}

// queued asks a socket how much it holds: to receive (SIOCINQ), or sent and not
// yet taken by the peer (SIOCOUTQ).
func queued(t *testing.T, fd int, which uint) int {
	t.Helper()
	n, err := unix.IoctlGetInt(fd, which)
	if err != nil {
		t.Fatalf("ioctl: %v", err)
	}
	return n
}

func queuedOf(t *testing.T, c *net.TCPConn, which uint) (n int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { n = queued(t, int(fd), which) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sink keeps what a stream's loop tells.
type sink struct {
	t    *testing.T
	pass func(upstream.Field) bool // the trailer fields that pass; nil: all
	over chan End
	when When // what Observe returns

	mu    sync.Mutex
	data  []byte
	at    []stamp.Instant // of each Observe
	ended bool
}

func newSink(t *testing.T) *sink { return &sink{t: t, over: make(chan End, 1)} }

func (k *sink) Observe(p []byte, at stamp.Instant, _ stamp.Source) When {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		k.t.Errorf("%.20q observed after the end", p)
	}
	if n := len(k.at); n > 0 && at < k.at[n-1] {
		k.t.Errorf("%.20q: its stamp is %v before the one before", p, k.at[n-1].Sub(at))
	}
	k.data, k.at = append(k.data, p...), append(k.at, at)
	return k.when
}

func (k *sink) Trailer(fields []upstream.Field) (lines []byte) {
	for _, f := range fields {
		if k.pass == nil || k.pass(f) {
			lines = append(append(append(append(lines, f.Name...), ": "...), f.Value...), "\r\n"...)
		}
	}
	return lines
}

func (k *sink) Ended(end End) {
	k.mu.Lock()
	if k.ended {
		k.t.Error("a stream ended twice")
	}
	k.ended = true
	k.mu.Unlock()
	k.over <- end
}

// wants says when it is to observe from now on.
func (k *sink) wants(when When) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.when = when
}

// end waits for the stream's end.
func (k *sink) end() End {
	k.t.Helper()
	select {
	case e := <-k.over:
		return e
	case <-time.After(20 * time.Second):
		k.t.Fatal("the stream did not end")
		return End{}
	}
}

// open reports that the stream has not ended.
func (k *sink) open() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.ended
}

func (k *sink) observed() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.data)
}

// eventually waits until ok, for what another goroutine is about to do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond / 4)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never came true: %s", what)
		}
	}
}
