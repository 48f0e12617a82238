//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// request is what a client sends, and the engine gets.
const request = "GET /1 HTTP/1.1\r\nHost: engine\r\n\r\n"

// front is the stand's Front.
type front struct {
	t      *testing.T
	served chan served
	taken  chan *turn

	mu       sync.Mutex
	take     func(p, room []byte) *Exchange // nil: nothing is for the loop
	lingered int
	refused  []error
}

// served is a client that Serve got.
type served struct {
	raw   *stamp.Raw
	early string
	x     *Exchange
}

func (f *front) Request(_ *stamp.Raw, p, room []byte) *Exchange {
	f.mu.Lock()
	take := f.take
	f.mu.Unlock()
	if take == nil {
		return nil
	}
	return take(p, room)
}

func (f *front) Serve(raw *stamp.Raw, early []byte, x *Exchange) {
	if string(early) == hold {
		_ = raw.Close()
		return
	}
	f.served <- served{raw, string(early), x}
}

// hold is what the client of stand.hold sends.
const hold = "HOLD"

func (f *front) Linger(client *stamp.Raw) {
	f.mu.Lock()
	f.lingered++
	f.mu.Unlock()
	_ = client.Close()
}

func (f *front) Left(arrived, left stamp.Instant) {
	if left < arrived {
		f.t.Errorf("bytes left %v before they came", arrived.Sub(left))
	}
}

func (f *front) Refused(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, err)
}

// serve waits for the next client that the front is to serve.
func (f *front) serve() served {
	f.t.Helper()
	select {
	case s := <-f.served:
		return s
	case <-time.After(20 * time.Second):
		f.t.Fatal("the front was not asked to serve")
		return served{}
	}
}

// nobody is to be served.
func (f *front) nobody() {
	f.t.Helper()
	select {
	case s := <-f.served:
		f.t.Errorf("the front was asked to serve %q, %+v", s.early, s.x)
		s.end()
	default:
	}
}

func (f *front) clear() {
	for {
		select {
		case s := <-f.served:
			s.end()
		default:
			return
		}
	}
}

// end closes what Serve got.
func (s served) end() {
	if s.x != nil && s.x.Pending != nil {
		s.x.Pending.Drop()
	}
	_ = s.raw.Close()
}

// turn is an exchange that the loop was given, and its Answer.
type turn struct {
	*sink
	x      *Exchange
	came   string // the request
	refuse bool   // the head is not for the loop
	close  bool   // the client's connection ends with the response
	before string // what the client gets before the head

	mu      sync.Mutex
	head    *upstream.Head // without what points into its bytes
	chunked bool
}

// Head passes the engine's on as it came.
func (u *turn) Head(h *upstream.Head, chunked bool) (head []byte, last, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.head != nil {
		u.t.Error("a second head")
	}
	kept := *h
	kept.Fields, kept.Reason = nil, nil
	u.head, u.chunked = &kept, chunked
	if u.refuse {
		return nil, false, false
	}
	head = fmt.Appendf(nil, "%sHTTP/1.1 %d %s\r\n", u.before, h.Status, h.Reason)
	for _, f := range h.Fields {
		head = f.Append(head)
	}
	return append(head, "\r\n"...), u.close, true
}

func (u *turn) answered() *upstream.Head {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.head
}

// take makes the stand's loop listen, and has it carry out every request that comes
// alone and whole; the engine gets it as it is.
func (st *stand) take(set ...func(*Exchange)) {
	st.t.Helper()
	st.pool = &upstream.Client{Addr: st.engines.Addr().String(), MaxIdle: time.Minute}
	st.t.Cleanup(func() { st.pool.CloseIdle() })
	st.front.mu.Lock()
	st.front.take = func(p, room []byte) *Exchange {
		if !bytes.HasSuffix(p, []byte("\r\n\r\n")) || bytes.Count(p, []byte("\r\n\r\n")) != 1 {
			return nil
		}
		addr, ok := st.pool.Direct()
		if !ok {
			st.t.Errorf("%s has no address", st.pool.Addr)
		}
		both := append(append(room, p...), p...)
		u := &turn{sink: newSink(st.t), came: string(p), x: &Exchange{To: st.pool, Addr: addr, Method: "GET", Early: both[:len(p):len(p)], Request: both[len(p):], Room: both}}
		u.x.Answer = u
		for _, f := range set {
			f(u.x)
		}
		st.front.taken <- u
		return u.x
	}
	st.front.mu.Unlock()
	st.listen()
}

// ofTurn makes a setting of the Answer one of the exchange.
func ofTurn(set func(*turn)) func(*Exchange) {
	return func(x *Exchange) { set(x.Answer.(*turn)) }
}

// turn waits for the next exchange that the loop has been given.
func (st *stand) turn() *turn {
	st.t.Helper()
	select {
	case u := <-st.front.taken:
		return u
	case <-time.After(20 * time.Second):
		st.t.Fatal("no request has come")
		return nil
	}
}

// listen makes the loop accept clients.
func (st *stand) listen() {
	st.t.Helper()
	st.listenOn(listen(st.t))
}

func (st *stand) listenOn(ln net.Listener) {
	st.t.Helper()
	st.addr = ln.Addr()
	raw, err := stamp.ListenRaw(ln, false)
	if err == nil {
		err = st.loop.Listen(raw)
	}
	if err != nil {
		st.t.Fatal(err)
	}
}

// peer is an end of a connection that the test plays.
type peer struct {
	*net.TCPConn
	t  *testing.T
	br *bufio.Reader
}

// client is one that the loop has accepted.
func (st *stand) client() *peer {
	st.t.Helper()
	had := st.sockets()
	c := dial(st.t, st.addr)
	eventually(st.t, "the client is accepted", func() bool { return st.sockets() > had })
	return &peer{c, st.t, bufio.NewReader(c)}
}

// engine accepts the loop's next connection.
func (st *stand) engine() *peer {
	st.t.Helper()
	_ = st.engines.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Second))
	c, err := st.engines.Accept()
	if err != nil {
		st.t.Fatal(err)
	}
	st.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &peer{c.(*net.TCPConn), st.t, bufio.NewReader(c)}
}

// request reads a request and returns its target.
func (p *peer) request() string {
	p.t.Helper()
	req, err := http.ReadRequest(p.br)
	if err != nil {
		p.t.Fatalf("the engine: %v", err)
	}
	return req.URL.Path
}

func (p *peer) say(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.TCPConn, text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) read(n int) string {
	p.t.Helper()
	b := make([]byte, n)
	if m, err := io.ReadFull(p.br, b); err != nil {
		p.t.Fatalf("got %q, %v, want %d bytes", b[:m], err, n)
	}
	return string(b)
}

// wants reads what is to come next.
func (p *peer) wants(text string) {
	p.t.Helper()
	if got := p.read(len(text)); got != text {
		p.t.Errorf("got %q, want %q", got, text)
	}
}

// rest reads to the end.
func (p *peer) rest() (string, error) {
	b, err := io.ReadAll(p.br)
	return string(b), err
}

// reset closes a connection so that the other side sees it broken.
func (p *peer) reset() {
	_ = p.SetLinger(0)
	_ = p.Close()
}

// received waits until the loop has received all that engines have sent.
func (st *stand) received() {
	st.t.Helper()
	eventually(st.t, "the piece is received", func() bool {
		st.loop.mu.Lock()
		defer st.loop.mu.Unlock()
		return !slices.ContainsFunc(st.loop.sockets, func(k *socket) bool {
			return k != nil && !k.client && queued(st.t, k.raw.FD(), unix.SIOCINQ) > 0
		})
	})
}

// asked is what the loop's set is asked for of the only client, by the kernel.
func (st *stand) asked() (events uint32) {
	st.t.Helper()
	st.loop.mu.Lock()
	fd := -1
	for _, k := range st.loop.sockets {
		if k != nil && k.client {
			fd = k.raw.FD()
		}
	}
	st.loop.mu.Unlock()
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", st.loop.epoll))
	if err != nil {
		st.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var of int
		if n, _ := fmt.Sscanf(line, "tfd: %d events: %x", &of, &events); n == 2 && of == fd {
			return events
		}
	}
	st.t.Fatalf("descriptor %d is not in the set: %s", fd, b)
	return 0
}

// stats checks the counts of the engine's connections.
func (st *stand) stats(open, idle, dials int) {
	st.t.Helper()
	if s := st.pool.Stats(); s.Open != open || s.Idle != idle || s.Dials != int64(dials) {
		st.t.Errorf("got %d open, %d idle, %d dialled, want %d, %d and %d", s.Open, s.Idle, s.Dials, open, idle, dials)
	}
}

// settled waits for counts that the loop is about to reach.
func (st *stand) settled(open, idle int) {
	st.t.Helper()
	eventually(st.t, fmt.Sprintf("%d connections are open, %d idle", open, idle), func() bool {
		s := st.pool.Stats()
		return s.Open == open && s.Idle == idle
	})
}

// whole checks that an exchange has ended well, and what was observed of it.
func (u *turn) whole(data string) {
	u.t.Helper()
	if e := u.end(); !e.Whole || e.Gone || e.Err != nil {
		u.t.Errorf("end: got %+v, want a whole body", e)
	}
	if got := string(u.observed()); got != data {
		u.t.Errorf("observed: got %q, want %q", got, data)
	}
}

// fullListener is the address of a listener that takes no connection any more: one to it
// stays as it is begun.
func fullListener(t *testing.T) net.Addr {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*unix.SockaddrInet4).Port}
	for range 4 {
		c, err := net.DialTimeout("tcp", addr.String(), 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Skip("the system takes connections beyond a listener's backlog")
	return nil
}

// long is a body that no socket takes at once.
var long = strings.Repeat("x", 16<<20)
