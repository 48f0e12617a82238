package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

// world is a proxy between a scripted upstream and the test's raw client.
type world struct {
	t     *testing.T
	p     *Proxy
	up    *sim.ScriptServer
	dial  func() (net.Conn, error)
	admin func() (net.Conn, error)
	logs  *lockedBuffer
	wait  sync.WaitGroup
	down  atomic.Bool
	over  chan struct{} // closed when the shutdown has returned
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// memory puts everything on in-memory connections, for synctest bubbles;
// sockets puts it on loopback TCP.
func memory(t *testing.T, cfg Config, next func(int, *sim.Played) sim.Script) *world {
	upLn, dataLn, adminLn := fasthttputil.NewInmemoryListener(), fasthttputil.NewInmemoryListener(), fasthttputil.NewInmemoryListener()
	cfg.Upstreams = []string{"http://engine:80"}
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return upLn.Dial() }
	return newWorld(t, cfg, next, upLn, dataLn, adminLn,
		func() (net.Conn, error) { return dataLn.Dial() }, func() (net.Conn, error) { return adminLn.Dial() })
}

func sockets(t *testing.T, cfg Config, next func(int, *sim.Played) sim.Script) *world {
	upLn, dataLn, adminLn := loopbackListener(t), loopbackListener(t), loopbackListener(t)
	if cfg.Upstreams == nil {
		cfg.Upstreams = []string{"http://" + upLn.Addr().String()}
	}
	return newWorld(t, cfg, next, upLn, dataLn, adminLn,
		func() (net.Conn, error) { return net.Dial("tcp", dataLn.Addr().String()) },
		func() (net.Conn, error) { return net.Dial("tcp", adminLn.Addr().String()) })
}

func loopbackListener(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func newWorld(t *testing.T, cfg Config, next func(int, *sim.Played) sim.Script, upLn, dataLn, adminLn net.Listener, dial, admin func() (net.Conn, error)) *world {
	t.Helper()
	w := &world{t: t, dial: dial, admin: admin, logs: &lockedBuffer{}, over: make(chan struct{})}
	if cfg.ModelsEvery == 0 {
		cfg.ModelsEvery = -1
	}
	if cfg.Models == nil {
		cfg.Models = []string{"m"}
	}
	w.up = sim.ServeScript(upLn, next)
	var err error
	if w.p, err = New(cfg, zerolog.New(w.logs).Level(zerolog.DebugLevel)); err != nil {
		t.Fatal(err)
	}
	w.wait.Go(func() {
		if err := w.p.Serve(dataLn); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	w.wait.Go(func() {
		if err := w.p.ServeAdmin(adminLn); err != nil {
			t.Errorf("ServeAdmin: %v", err)
		}
	})
	return w
}

// close shuts the proxy down, unless the test has, and ends the upstream.
func (w *world) close() {
	w.t.Helper()
	w.shutdown()
	w.wait.Wait()
	w.up.Close()
}

// shutdown shuts the proxy down or waits for who does. A channel, since a mutex
// would stop a bubble's clock.
func (w *world) shutdown() {
	w.t.Helper()
	if !w.down.CompareAndSwap(false, true) {
		<-w.over
		return
	}
	defer close(w.over)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.p.Shutdown(ctx); err != nil {
		w.t.Errorf("Shutdown: %v", err)
	}
}

// bubble runs f in virtual time with everything in memory.
func bubble(t *testing.T, cfg Config, next func(int, *sim.Played) sim.Script, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := memory(t, cfg, next)
		defer func() {
			w.close()
			<-time.After(time.Minute) // fasthttp's cleaners end
		}()
		f(t, w)
	})
}

const chatBody = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// chat is the raw bytes of a chat request; lines are further header lines.
func chat(lines ...string) string { return post("/v1/chat/completions", chatBody, lines...) }

func post(target, body string, lines ...string) string {
	head := "POST " + target + " HTTP/1.1\r\nHost: api.example\r\n"
	for _, l := range lines {
		head += l + "\r\n"
	}
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

func get(target string, lines ...string) string {
	head := "GET " + target + " HTTP/1.1\r\nHost: api.example\r\n"
	for _, l := range lines {
		head += l + "\r\n"
	}
	return head + "\r\n"
}

// answer is what a raw client saw.
type answer struct {
	raw     []byte // everything, as it came
	status  int
	header  http.Header
	trailer http.Header
	body    []byte
	err     error // of the body: nil is a clean end
	length  int64
	closed  bool // the server asked for the connection's end
	pieces  []piece
}

// piece is one read of the body.
type piece struct {
	at    time.Time
	bytes []byte
}

// say sends raw bytes on a new connection and reads one response.
func (w *world) say(raw string) answer {
	w.t.Helper()
	c, err := w.dial()
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetDeadline(time.Now().Add(10 * time.Second)) // a hang is a failure, not a wait
	}
	return hear(w.t, c, bufio.NewReaderSize(c, 64<<10), raw)
}

// hear sends raw bytes and reads one response.
func hear(t *testing.T, c net.Conn, br *bufio.Reader, raw string) answer {
	t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		return answer{err: err}
	}
	method, _, _ := strings.Cut(raw, " ")
	return listen(br, method)
}

// listen reads one response.
func listen(br *bufio.Reader, method string) (a answer) {
	tee := &teeReader{r: br}
	in := bufio.NewReaderSize(tee, 64<<10)
	defer func() { a.raw = tee.b }()
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	for err == nil && res.StatusCode < 200 && res.StatusCode != 101 {
		res, err = http.ReadResponse(in, &http.Request{Method: method})
	}
	if err != nil {
		a.err = err
		return a
	}
	defer res.Body.Close()
	a.status, a.header, a.length, a.closed = res.StatusCode, res.Header, res.ContentLength, res.Close
	buf := make([]byte, 64<<10)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 {
			a.body = append(a.body, buf[:n]...)
			a.pieces = append(a.pieces, piece{time.Now(), bytes.Clone(buf[:n])})
		}
		if err != nil {
			if err != io.EOF {
				a.err = err
			}
			break
		}
	}
	a.trailer = res.Trailer
	return a
}

type teeReader struct {
	r io.Reader
	b []byte
}

func (t *teeReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.b = append(t.b, p[:n]...)
	return n, err
}

// addr is the data port's address.
func (w *world) addr() string {
	w.t.Helper()
	eventually(w.t, "the data port is served", func() bool { return w.p.dataAddr() != "" })
	return w.p.dataAddr()
}

// ask does a GET at the admin port.
func (w *world) ask(target string, lines ...string) answer {
	w.t.Helper()
	c, err := w.admin()
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	a := hear(w.t, c, bufio.NewReader(c), get(target, append(lines, "Connection: close")...))
	if a.err != nil {
		w.t.Fatalf("admin %s: %v", target, a.err)
	}
	return a
}

// records reads all records with their events.
func (w *world) records() []stream.Record {
	w.t.Helper()
	a := w.ask("/records?events=1")
	var out []stream.Record
	for line := range bytes.Lines(a.body) {
		var r stream.Record
		if err := json.Unmarshal(line, &r); err != nil {
			w.t.Fatalf("record %s: %v", line, err)
		}
		out = append(out, r)
	}
	return out
}

// record waits for the only record: a body with a length is over for its client
// before it is for the proxy.
func (w *world) record() stream.Record {
	w.t.Helper()
	var r []stream.Record
	eventually(w.t, "one record", func() bool { r = w.records(); return len(r) == 1 })
	return r[0]
}

// metric returns the value of a series as it is written.
func (w *world) metric(series string) string {
	w.t.Helper()
	for line := range bytes.Lines(w.ask("/metrics").body) {
		if v, ok := strings.CutPrefix(string(line), series+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// eventually waits until ok, for what another goroutine is about to do; in a
// bubble the wait is virtual.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(15 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never came true: %s", what)
		}
	}
}

func script(notation string) sim.Script { return sim.Script{Writes: sim.MustWrites(notation)} }

func bytesOf(sc sim.Script) []byte {
	var b []byte
	for _, w := range sc.Writes {
		b = append(b, w.Bytes...)
	}
	return b
}
