//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

const (
	chunkedHead = "HTTP/1.1 200 OK\r\nX-Test: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
	sizedHead   = "HTTP/1.1 201 Made here\r\nX-Test: 1\r\nContent-Length: 10\r\n\r\n"
	okay        = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

// target is a request for it.
func target(path string) string { return strings.Replace(request, "/1", path, 1) }

// TestExchange: a request goes to the engine as the front has made it, and the
// response to the client; both connections serve the next one.
func TestExchange(t *testing.T) {
	for _, c := range []struct {
		name, response, data string
		status               int
		chunked              bool
		length               int64
	}{
		{"chunked", chunkedHead + "5\r\nhello\r\n0\r\n\r\n", "hello", 200, true, -1},
		{"chunked, trailers", chunkedHead + "5;x\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "hello", 200, true, -1},
		{"a length", sizedHead + "0123456789", "0123456789", 201, false, 10},
		{"no length at all", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "", 404, false, 0},
		{"no phrase", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", "ok", 200, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			st.take()
			client := st.client()
			var engine *peer
			for round := range 3 {
				path := fmt.Sprintf("/%d", round)
				begun := stamp.Now()
				client.say(target(path))
				if engine == nil {
					engine = st.engine()
				}
				if got := engine.request(); got != path {
					t.Errorf("the engine: got a request for %s, want %s", got, path)
				}
				u := st.turn()
				if n := st.loop.Open(); n != 1 {
					t.Errorf("got %d open, want 1", n)
				}
				asked := stamp.Now()
				engine.say(c.response)
				client.wants(c.response)
				u.whole(c.data)
				h := u.answered()
				if h.Status != c.status || u.chunked != c.chunked || h.ContentLength != c.length || h.Retries != 0 {
					t.Errorf("head: got %+v, chunked %v, want %+v", h, u.chunked, c)
				}
				if h.Sent < begun || h.Sent > asked || h.HeadersAt < asked-stamp.Instant(time.Millisecond) || h.HeadersAt > stamp.Now() {
					t.Errorf("sent %v, answered %v after it was asked", h.Sent.Sub(begun), h.HeadersAt.Sub(asked))
				}
				if n := st.loop.Open(); n != 0 {
					t.Errorf("got %d open, want none", n)
				}
				st.stats(1, 1, 1)
			}
			st.front.nobody()
		})
	}
}

// TestTrickle: each byte of a body with a length is passed on when it comes.
func TestTrickle(t *testing.T) {
	st := newStand(t, Limits{})
	st.take()
	client := st.client()
	client.say(request)
	engine := st.engine()
	engine.request()
	engine.say(sizedHead)
	client.wants(sizedHead)
	for _, b := range "0123456789" {
		engine.say(string(b))
		client.wants(string(b))
	}
	u := st.turn()
	u.whole("0123456789")
	if n := len(u.at); n != 10 {
		t.Errorf("got %d observations, want 10", n)
	}
	st.stats(1, 1, 1)
}

// TestEveryCutOfAResponse cuts responses in two at every offset, head included; the
// second piece is sent when the first has been received.
func TestEveryCutOfAResponse(t *testing.T) {
	for _, c := range []struct{ name, response, data string }{
		{"chunked", chunkedHead + "5;x\r\nhello\r\n2\r\n\r\n\r\n0\r\nX-Sum: 1\r\n\r\n", "hello\r\n"},
		{"a length", sizedHead + "0123456789", "0123456789"},
		{"nothing", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			st.take()
			client := st.client()
			var engine *peer
			for cut := 1; cut < len(c.response); cut++ {
				client.say(request)
				if engine == nil {
					engine = st.engine()
				}
				engine.request()
				engine.say(c.response[:cut])
				st.received()
				engine.say(c.response[cut:])
				if got := client.read(len(c.response)); got != c.response {
					t.Fatalf("cut at %d: got %q, want %q", cut, got, c.response)
				}
				st.turn().whole(c.data)
				st.stats(1, 1, 1)
			}
			st.front.nobody()
		})
	}
}

// TestNotReused: an engine that closes, says that it will, or sends what nobody has
// asked for gets no other request on that connection; its client stays.
func TestNotReused(t *testing.T) {
	const closes = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
	for _, c := range []struct{ name, response, more string }{
		{"it says so", closes, ""},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", ""},
		{"it sends more", okay, "HTTP/1.1 200 OK\r\n"},
		{"it sends more, chunked", chunkedHead + "2\r\nok\r\n0\r\n\r\n", "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			st.take()
			client := st.client()
			for round := 1; round <= 2; round++ {
				client.say(request)
				engine := st.engine()
				engine.request()
				engine.say(c.response + c.more)
				// The version is the front's to say.
				client.wants(strings.Replace(c.response, "HTTP/1.0", "HTTP/1.1", 1))
				st.turn().whole("ok")
				st.stats(0, 0, round)
				if b, _ := engine.rest(); b != "" {
					t.Errorf("the engine got %q", b)
				}
			}
		})
	}
}

// TestLastOfAConnection: the client's connection is closed behind a response that is
// its last; one that has sent more is left to the front, so that it gets its answer.
func TestLastOfAConnection(t *testing.T) {
	for _, more := range []string{"", "GET /2"} {
		st := newStand(t, Limits{})
		st.take(ofTurn(func(u *turn) { u.close = true }))
		client := st.client()
		client.say(request)
		engine := st.engine()
		engine.request()
		if more != "" {
			client.say(more)
		}
		engine.say(okay)
		client.wants(okay)
		_, _ = client.rest()
		st.turn().whole("ok")
		st.stats(1, 1, 1)
		eventually(t, "the client has left the loop", func() bool { return st.sockets() == 1 })
		lingered := func() int {
			st.front.mu.Lock()
			defer st.front.mu.Unlock()
			return st.front.lingered
		}
		if more != "" {
			eventually(t, "the front closes it", func() bool { return lingered() == 1 })
		} else if lingered() != 0 {
			t.Error("the front was given a client that has sent nothing")
		}
		st.front.nobody()
	}
}

// TestPipelined: a request that comes while another is answered is the next one, and
// the engine gets it when the first is over. Two that come at once are not the
// loop's.
func TestPipelined(t *testing.T) {
	st := newStand(t, Limits{})
	st.take()
	client := st.client()
	client.say(request)
	engine := st.engine()
	engine.request()
	client.say(target("/2"))
	eventually(t, "the loop does not wait for more of it", func() bool { return st.asked()&unix.EPOLLIN == 0 })
	engine.say(chunkedHead + "5\r\nhello\r\n")
	client.wants(chunkedHead + "5\r\nhello\r\n")
	if n := queuedOf(t, engine.TCPConn, unix.SIOCINQ); n != 0 || engine.br.Buffered() > 0 {
		t.Errorf("the engine has %d bytes of the second request before the first is answered", n)
	}
	engine.say("0\r\n\r\n")
	client.wants("0\r\n\r\n")
	st.turn().whole("hello")
	if got := engine.request(); got != "/2" {
		t.Errorf("got a request for %s, want /2", got)
	}
	client.say(target("/3") + target("/4"))
	engine.say(okay)
	client.wants(okay)
	st.turn().whole("ok")
	got := st.front.serve()
	if want := target("/3") + target("/4"); got.early != want || got.x != nil {
		t.Errorf("served %q, %v, want %q", got.early, got.x, want)
	}
	got.end()
	st.stats(1, 1, 1)
}

// TestPipelinedBehindACarried: what came behind the request of a stream that the front
// has carried is the front's, at the end.
func TestPipelinedBehindACarried(t *testing.T) {
	for _, early := range []string{"", wholeBody} {
		st := newStand(t, Limits{})
		l := st.prepare(early, staysOpen, func(s *Stream) { s.Pipelined = []byte(request) })
		st.loop.Carry(l.s, []byte(head))
		if early == "" {
			l.say("0\r\n\r\n")
		}
		if e := l.end(); !e.Whole {
			t.Errorf("end: got %+v, want a whole body", e)
		}
		got := st.front.serve()
		if got.early != request || got.x != nil || got.raw != l.s.Down {
			t.Errorf("served %q, %v, want %q", got.early, got.x, request)
		}
		if n := st.sockets(); n != 0 {
			t.Errorf("got %d sockets, want none", n)
		}
		got.end()
	}
}

// TestManyClients: requests at the same time have a connection each, and the ones
// after them theirs.
func TestManyClients(t *testing.T) {
	st := newStand(t, Limits{})
	st.take()
	const n = 20
	var clients []*peer
	engines := map[string]*peer{}
	for i := range n {
		clients = append(clients, st.client())
		clients[i].say(target(fmt.Sprint("/", i)))
	}
	for range n {
		e := st.engine()
		engines[e.request()] = e
	}
	st.stats(n, 0, n)
	begin := func(path string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path)+1, path)
	}
	release := st.hold() // so that all are answered at once
	for path, e := range engines {
		e.say(begin(path))
	}
	release()
	for i, c := range clients {
		path := fmt.Sprint("/", i)
		c.wants(begin(path))
		engines[path].say("!")
		c.wants("!")
	}
	for range n {
		u := st.turn()
		path := strings.Fields(u.came)[1]
		u.whole(path + "!")
	}
	st.stats(n, n, n)
	// The one used last is used next.
	clients[0].say(request)
	if got := engines[fmt.Sprint("/", n-1)].request(); got != "/1" {
		t.Errorf("got a request for %s, want /1", got)
	}
}

// TestTokensBeforeRequests: requests that come at the same time do not hold a token up,
// whether it is there already or comes while some of them are begun.
func TestTokensBeforeRequests(t *testing.T) {
	st := newStand(t, Limits{})
	st.take()
	client := st.client()
	client.say(request)
	engine := st.engine()
	engine.request()
	engine.say(sizedHead)
	client.wants(sizedHead)
	streamed := st.turn()
	held, goOn := st.gate()
	asked, queued := 0, []int{} // at the client, before each request
	st.front.mu.Lock()
	take := st.front.take
	st.front.take = func(p, room []byte) *Exchange {
		if string(p) == hold {
			return take(p, room)
		}
		queued = append(queued, queuedOf(t, client.TCPConn, unix.SIOCINQ))
		if asked++; asked == requestsAtOnce {
			engine.say("5")
		}
		return nil
	}
	st.front.mu.Unlock()
	var clients []*peer
	for range requestsAtOnce + 2 {
		clients = append(clients, st.client())
	}
	gate := st.client()
	gate.say(hold)
	<-held
	for _, c := range clients {
		c.say(request)
	}
	engine.say("01234")
	goOn <- struct{}{}
	for range clients {
		st.front.serve().end()
	}
	for i, n := range queued {
		want := 5
		if i >= requestsAtOnce {
			want = 6
		}
		if n != want {
			t.Errorf("before request %d the client had %d bytes, want %d", i+1, n, want)
		}
	}
	engine.say("6789")
	client.wants("0123456789")
	streamed.whole("0123456789")
}

// TestIdleConnectionIsLookedAt: one that is over when a request comes is not used,
// though the loop has not heard of it yet.
func TestIdleConnectionIsLookedAt(t *testing.T) {
	for name, do := range map[string]func(p *peer){
		"FIN":   func(p *peer) { _ = p.CloseWrite() },
		"RST":   (*peer).reset,
		"bytes": func(p *peer) { p.say("x") },
	} {
		t.Run(name, func(t *testing.T) {
			st, client, engine := pooled(t, Limits{})
			release := st.holdTurn(func() { client.say(request) })
			do(engine)
			release()
			engine = st.engine()
			engine.request()
			engine.say(okay)
			client.wants(okay)
			u := st.turn()
			u.whole("ok")
			if h := u.answered(); h.Retries != 0 {
				t.Errorf("head: got %+v, want no retry", h)
			}
			st.stats(1, 1, 2)
		})
	}
	t.Run("too old", func(t *testing.T) {
		st := newStand(t, Limits{}) // it looks every second
		st.take()
		st.pool.MaxIdle = 20 * time.Millisecond
		client := st.client()
		client.say(request)
		engine := st.engine()
		engine.request()
		engine.say(okay)
		client.wants(okay)
		st.turn().whole("ok")
		begun := time.Now()
		eventually(t, "the limit is over", func() bool { return time.Since(begun) > st.pool.MaxIdle })
		client.say(request)
		if got, err := engine.rest(); got != "" || err != nil {
			t.Errorf("the old one: got %q, %v, want its end", got, err)
		}
		engine = st.engine()
		engine.request()
		engine.say(okay)
		client.wants(okay)
		st.turn().whole("ok")
		st.stats(1, 1, 2)
	})
}

// TestIdleEngineCloses: an idle connection goes when its engine closes it, or sends
// something, and the next request has a new one.
func TestIdleEngineCloses(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(p *peer)
	}{
		{"FIN", func(p *peer) { _ = p.CloseWrite() }},
		{"RST", (*peer).reset},
		{"bytes", func(p *peer) { p.say("HTTP/1.1 408 Request Timeout\r\n\r\n") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			st.take()
			client := st.client()
			for dials := 1; dials <= 2; dials++ {
				client.say(request)
				engine := st.engine()
				engine.request()
				engine.say(okay)
				client.wants(okay)
				st.turn().whole("ok")
				st.stats(1, 1, dials)
				c.do(engine)
				st.settled(0, 0)
				if n := st.sockets(); n != 1 {
					t.Errorf("got %d sockets, want the client's", n)
				}
			}
			if r := st.pool.Stats().Retries; r != 0 {
				t.Errorf("got %d retries, want none", r)
			}
		})
	}
}

// asks is a client whose request has reached its engine.
func (st *stand) asks() (client, engine *peer) {
	st.t.Helper()
	client = st.client()
	client.say(request)
	engine = st.engine()
	engine.request()
	return client, engine
}

// pooled is a stand whose engine has an idle connection.
func pooled(t *testing.T, limits Limits, set ...func(*Exchange)) (st *stand, client, engine *peer) {
	t.Helper()
	st = newStand(t, limits)
	st.take(set...)
	client, engine = st.asks()
	engine.say(okay)
	client.wants(okay)
	if e := st.turn().end(); !e.Whole {
		t.Fatalf("end: got %+v, want a whole body", e)
	}
	return st, client, engine
}

// dies are the ways in which an engine ends a connection upon a request.
var dies = []struct {
	name string
	do   func(p *peer)
	err  error
}{
	{"FIN", func(p *peer) { p.request(); _ = p.Close() }, io.EOF},
	{"RST", func(p *peer) { p.request(); p.reset() }, syscall.ECONNRESET},
	{"unread", func(p *peer) {
		eventually(p.t, "the request is there", func() bool { return queuedOf(p.t, p.TCPConn, unix.SIOCINQ) > 0 })
		_ = p.Close()
	}, syscall.ECONNRESET},
}

// TestStaleConnection: a request that an engine's idle connection was closed upon is
// sent a second time, on a new connection, and no third time.
func TestStaleConnection(t *testing.T) {
	for _, die := range dies {
		t.Run(die.name, func(t *testing.T) {
			st, client, engine := pooled(t, Limits{})
			client.say(target("/2"))
			die.do(engine)
			engine = st.engine()
			if got := engine.request(); got != "/2" {
				t.Errorf("got a request for %s, want /2", got)
			}
			engine.say(okay)
			client.wants(okay)
			u := st.turn()
			u.whole("ok")
			if h := u.answered(); h.Retries != 1 {
				t.Errorf("head: got %+v, want one retry", h)
			}
			st.stats(1, 1, 2)
			if r := st.pool.Stats().Retries; r != 1 {
				t.Errorf("got %d retries, want 1", r)
			}
			st.front.nobody()
		})
		t.Run(die.name+", twice", func(t *testing.T) {
			st, client, engine := pooled(t, Limits{})
			client.say(target("/2"))
			die.do(engine)
			die.do(st.engine())
			st.failed(target("/2"), upstream.OpHeaderWait, die.err, 1).end()
			st.stats(0, 0, 2)
			if r := st.pool.Stats().Retries; r != 1 {
				t.Errorf("got %d retries, want 1", r)
			}
		})
		t.Run(die.name+", new", func(t *testing.T) {
			st := newStand(t, Limits{})
			st.take()
			st.client().say(request)
			die.do(st.engine())
			st.failed(request, upstream.OpHeaderWait, die.err, 0).end()
			st.stats(0, 0, 1)
		})
	}
	t.Run("no new one", func(t *testing.T) {
		st, client, engine := pooled(t, Limits{})
		_ = st.engines.Close()
		client.say(target("/2"))
		dies[0].do(engine)
		st.failed(target("/2"), upstream.OpConnect, syscall.ECONNREFUSED, 1).end()
		st.stats(0, 0, 2)
	})
}

// failed waits for the exchange that the front gets back without a response, and
// checks why.
func (st *stand) failed(early string, op upstream.Op, cause error, retries int) served {
	st.t.Helper()
	got := st.front.serve()
	if got.early != early || got.x == nil {
		st.t.Fatalf("served %q, %v, want %q", got.early, got.x, early)
	}
	var e *upstream.Error
	if !errors.As(got.x.Err, &e) || e.Op != op || !errors.Is(e, cause) || e.Retries != retries || e.Addr != st.pool.Addr {
		st.t.Errorf("got %+v, want %s: %v", got.x.Err, op, cause)
	}
	if e != nil && (e.Sent == 0) != (op == upstream.OpConnect) {
		st.t.Errorf("%v: got sent at %v", e, e.Sent)
	}
	if got.x.Pending != nil {
		st.t.Error("a request that has failed is pending")
	}
	u := st.turn()
	if !u.open() || u.answered() != nil {
		st.t.Error("the exchange was answered or ended")
	}
	if n := st.loop.Open(); n != 0 {
		st.t.Errorf("got %d open, want none", n)
	}
	return got
}

// TestNoConnection: an engine that cannot be reached.
func TestNoConnection(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		st := newStand(t, Limits{})
		st.take()
		_ = st.engines.Close()
		st.client().say(request)
		st.failed(request, upstream.OpConnect, syscall.ECONNREFUSED, 0).end()
		st.stats(0, 0, 1)
	})
	t.Run("no way there", func(t *testing.T) {
		st := newStand(t, Limits{})
		// A broadcast address: the system does not even begin.
		st.take(func(x *Exchange) { x.Addr = netip.MustParseAddrPort("255.255.255.255:1") })
		st.client().say(request)
		st.failed(request, upstream.OpConnect, syscall.ENETUNREACH, 0).end()
		st.stats(0, 0, 1)
	})
	t.Run("none is free", func(t *testing.T) {
		st := newStand(t, Limits{})
		st.take()
		st.pool.MaxConns = 1
		first := st.client()
		first.say(request)
		engine := st.engine()
		engine.request()
		st.client().say(target("/2"))
		got := st.front.serve()
		if got.early != target("/2") || got.x == nil || got.x.Pending != nil || got.x.Err != nil {
			t.Errorf("served %q, %+v, want a request that is still to be sent", got.early, got.x)
		}
		got.end()
		engine.say(okay)
		first.wants(okay)
		st.settled(1, 1)
	})
}

// TestDeathInTheHead: a response that has begun is not asked for again.
func TestDeathInTheHead(t *testing.T) {
	for _, part := range []string{"H", "HTTP/1.1 200 OK\r\nContent-Le"} {
		t.Run("FIN", func(t *testing.T) {
			st, client, engine := pooled(t, Limits{})
			client.say(target("/2"))
			engine.request()
			engine.say(part)
			_ = engine.Close()
			st.failed(target("/2"), upstream.OpHeader, io.ErrUnexpectedEOF, 0).end()
			st.stats(0, 0, 1)
		})
		t.Run("RST", func(t *testing.T) {
			st, client, engine := pooled(t, Limits{})
			client.say(target("/2"))
			engine.request()
			engine.say(part)
			st.received()
			engine.reset()
			st.failed(target("/2"), upstream.OpHeader, syscall.ECONNRESET, 0).end()
			st.stats(0, 0, 1)
		})
	}
}

// TestNotForTheLoop: a response of another kind, and one that the Answer does not want
// of it, is the front's, with its connection and all that came of it.
func TestNotForTheLoop(t *testing.T) {
	refuse := ofTurn(func(u *turn) { u.refuse = true })
	plain := func(*Exchange) {}
	for _, c := range []struct {
		name, response string
		set            func(*Exchange)
		status         int
		body           string // of the Response
		kept           bool   // its connection, by the Client
		interim        int
	}{
		{name: "malformed", response: "HTTP/1.1 20x OK\r\n\r\n", set: plain},
		{name: "no HTTP", response: "SSH-2.0-OpenSSH\r\n", set: plain},
		{name: "a length that is none", response: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok", set: plain},
		{name: "interim", response: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + okay, set: plain, status: 200, body: "ok", kept: true, interim: 103},
		{name: "switching", response: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", set: plain, status: 101},
		{name: "no content", response: "HTTP/1.1 204 No Content\r\n\r\n", set: plain, status: 204, kept: true},
		{name: "until close", response: "HTTP/1.1 200 OK\r\n\r\nhello", set: plain, status: 200, body: "hello"},
		{name: "HTTP/1.0", response: "HTTP/1.0 200 OK\r\n\r\nhello", set: plain, status: 200, body: "hello"},
		{name: "HEAD", response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", set: func(x *Exchange) { x.Method = "HEAD" }, status: 200, kept: true},
		{name: "refused", response: sizedHead + "0123456789", set: refuse, status: 201, body: "0123456789", kept: true},
		{name: "refused, chunked", response: chunkedHead + "5\r\nhello\r\n0\r\n\r\n", set: refuse, status: 200, body: "hello", kept: true},
		{name: "refused, folded", response: "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok", set: refuse, status: 200, body: "ok", kept: true},
	} {
		for _, cut := range []int{0, 1, 12, 20} {
			cut = min(cut, len(c.response)-1)
			t.Run(fmt.Sprintf("%s, cut at %d", c.name, cut), func(t *testing.T) {
				st := newStand(t, Limits{})
				st.take(c.set)
				st.client().say(request)
				engine := st.engine()
				engine.request()
				answered := stamp.Now()
				if cut > 0 {
					engine.say(c.response[:cut])
					st.received()
				}
				engine.say(c.response[cut:])
				if c.body != "" && !c.kept {
					_ = engine.CloseWrite() // it ends the body
				}
				got := st.front.serve()
				if got.early != request || got.x == nil || got.x.Pending == nil || got.x.Err != nil {
					t.Fatalf("served %q, %+v, want a request that is pending", got.early, got.x)
				}
				if n := st.sockets(); n != 0 {
					t.Errorf("got %d sockets in the loop, want none", n)
				}
				st.stats(1, 0, 1)
				interim := 0
				method := got.x.Method
				r, err := got.x.Pending.Adopt(context.Background(), &upstream.Request{Method: method, Interim: func(status int, _ []upstream.Field) { interim = status }})
				if c.status == 0 {
					var e *upstream.Error
					if !errors.As(err, &e) || e.Op != upstream.OpHeader || e.Sent == 0 {
						t.Errorf("got %v, want an error in the head", err)
					}
					st.stats(0, 0, 1)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if r.Status != c.status || interim != c.interim || r.Retries != 0 {
					t.Errorf("got status %d, interim %d, want %d and %d", r.Status, interim, c.status, c.interim)
				}
				if r.HeadersAt < answered-stamp.Instant(time.Millisecond) || r.HeadersAt > stamp.Now() || r.Sent == 0 || r.Sent > r.HeadersAt {
					t.Errorf("sent at %v, answered %v after the engine began", r.Sent, r.HeadersAt.Sub(answered))
				}
				b, err := io.ReadAll(r)
				if string(b) != c.body || err != nil {
					t.Errorf("got %q, %v, want %q", b, err, c.body)
				}
				_ = r.Close()
				if c.kept {
					st.stats(1, 1, 1)
				} else {
					st.stats(0, 0, 1)
				}
				u := st.turn()
				if !u.open() || len(u.observed()) > 0 {
					t.Error("the exchange went on in the loop")
				}
				_ = got.raw.Close()
			})
		}
	}
}

// TestAdoptAfterARetry: the Response that the front goes on with knows of it.
func TestAdoptAfterARetry(t *testing.T) {
	st, client, engine := pooled(t, Limits{})
	client.say(target("/2"))
	dies[0].do(engine)
	engine = st.engine()
	engine.request()
	engine.say("HTTP/1.1 204 No Content\r\n\r\n")
	got := st.front.serve()
	if got.x.Pending == nil {
		t.Fatalf("served %+v, want it pending", got.x)
	}
	r, err := got.x.Pending.Adopt(context.Background(), &upstream.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != 204 || r.Retries != 1 {
		t.Errorf("got %+v, want 204 after one retry", r.Head)
	}
	_ = r.Close()
	st.stats(1, 1, 2)
	_ = got.raw.Close()
}

// TestHalfARequest: a request that an engine's socket does not take at once is sent
// anew, by the front; its engine never takes the half for a whole one.
func TestHalfARequest(t *testing.T) {
	large := func(x *Exchange) {
		if strings.HasPrefix(string(x.Request), "GET /2 ") {
			x.Request = append(x.Request[:len(x.Request)-2], "Content-Length: 16777216\r\n\r\n"+long...)
		}
	}
	check := func(t *testing.T, st *stand, engine *peer) {
		t.Helper()
		got := st.front.serve()
		if got.early != target("/2") || got.x == nil || got.x.Pending != nil || got.x.Err != nil {
			t.Errorf("served %q, %+v, want a request that is still to be sent", got.early, got.x)
		}
		got.end()
		if engine == nil {
			engine = st.engine()
		}
		if _, err := engine.rest(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the engine: got %v, want a reset", err)
		}
		st.stats(0, 0, 1)
	}
	t.Run("on a new connection", func(t *testing.T) {
		st := newStand(t, Limits{})
		st.take(large)
		st.client().say(target("/2"))
		check(t, st, nil)
	})
	t.Run("on an idle one", func(t *testing.T) {
		st, client, engine := pooled(t, Limits{}, large)
		client.say(target("/2"))
		check(t, st, engine)
	})
}

// TestNothingToSend: an exchange without a request is the front's, and takes no
// connection from those that wait.
func TestNothingToSend(t *testing.T) {
	st, client, engine := pooled(t, Limits{}, func(x *Exchange) {
		if !strings.HasPrefix(string(x.Request), "GET /1 ") {
			x.Request = nil
		}
	})
	client.say(target("/2"))
	got := st.front.serve()
	if got.early != target("/2") || got.x == nil || got.x.Pending != nil || got.x.Err != nil {
		t.Errorf("served %q, %+v, want a request that is still to be sent", got.early, got.x)
	}
	got.end()
	st.stats(1, 1, 1)
	_ = engine.Close()
	st.settled(0, 0)
}

// TestKeptAfterASlowClient: the engine's connection is watched, and used again, after
// a response whose end the client was slow to take.
func TestKeptAfterASlowClient(t *testing.T) {
	for _, again := range []bool{false, true} {
		st := newStand(t, Limits{})
		st.take(ofTurn(func(u *turn) {
			if u.came == request {
				u.before = long
			}
		}))
		client := st.client()
		client.say(request)
		engine := st.engine()
		engine.request()
		engine.say(okay)
		u := st.turn()
		eventually(t, "the body has come", func() bool { return string(u.observed()) == "ok" })
		if !u.open() {
			t.Fatal("it ended before the client had it")
		}
		st.stats(1, 0, 1)
		if got := client.read(len(long) + len(okay)); got != long+okay {
			t.Errorf("the client got …%q, want …%q", got[len(long):], okay)
		}
		u.whole("ok")
		st.stats(1, 1, 1)
		if again {
			client.say(target("/2"))
			engine.request()
			engine.say(okay)
			client.wants(okay)
			st.turn().whole("ok")
			st.stats(1, 1, 1)
		}
		_ = engine.CloseWrite()
		st.settled(0, 0)
	}
}

// TestSlowClientOfAnExchange: a body that no socket takes at once comes whole.
func TestSlowClientOfAnExchange(t *testing.T) {
	st := newStand(t, Limits{})
	st.take()
	client := st.client()
	client.say(request)
	engine := st.engine()
	engine.request()
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(long))
	go func() { _, _ = io.WriteString(engine.TCPConn, head+long) }()
	eventually(t, "both sockets are full", func() bool {
		return queuedOf(t, client.TCPConn, unix.SIOCINQ) > 0 && queuedOf(t, engine.TCPConn, unix.SIOCOUTQ) > 0
	})
	client.wants(head)
	if got := client.read(len(long)); got != long {
		t.Error("the client got another body")
	}
	st.turn().whole(long)
	st.stats(1, 1, 1)
}

// TestClientLeavesAnExchange: before the head or behind it, the engine is told at
// once, and the answer's end once.
func TestClientLeavesAnExchange(t *testing.T) {
	for _, stage := range []struct {
		name, said string
		data       string
	}{
		{"before the head", "", ""},
		{"in the head", "HTTP/1.1 200 OK\r\n", ""},
		{"in the body", chunkedHead + "5\r\nhello\r\n", "hello"},
		{"in a body with a length", sizedHead + "01234", "01234"},
	} {
		for _, how := range leave {
			t.Run(stage.name+", "+how.name, func(t *testing.T) {
				st := newStand(t, Limits{})
				st.take()
				client := st.client()
				client.say(request)
				engine := st.engine()
				engine.request()
				engine.say(stage.said)
				st.received()
				if stage.data != "" {
					client.wants(stage.said)
				}
				if err := how.do(client.TCPConn); err != nil {
					t.Fatal(err)
				}
				u := st.turn()
				if e := u.end(); !e.Gone || e.Whole {
					t.Errorf("end: got %+v, want the client gone", e)
				}
				if got := string(u.observed()); got != stage.data {
					t.Errorf("observed: got %q, want %q", got, stage.data)
				}
				if _, err := engine.rest(); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the engine: got %v, want a reset", err)
				}
				st.stats(0, 0, 1)
				if n := st.loop.Open() + st.sockets(); n != 0 {
					t.Errorf("got %d streams and sockets, want none", n)
				}
				st.front.nobody()
			})
		}
	}
	t.Run("before there is a connection", func(t *testing.T) {
		st := newStand(t, Limits{})
		st.take()
		st.pool.Addr = fullListener(t).String()
		client := st.client()
		client.say(request)
		u := st.turn()
		eventually(t, "it is being connected", func() bool { return st.sockets() == 2 })
		_ = client.Close()
		if e := u.end(); !e.Gone || e.Whole {
			t.Errorf("end: got %+v, want the client gone", e)
		}
		st.stats(0, 0, 1)
		if n := st.loop.Open() + st.sockets(); n != 0 {
			t.Errorf("got %d streams and sockets, want none", n)
		}
	})
}

// TestHalfClosedClientOfAnExchange: one that may close its sending side gets its
// answer; one that has broken off is found out while its engine is silent.
func TestHalfClosedClientOfAnExchange(t *testing.T) {
	stays := func(x *Exchange) { x.StayHalfClosed = true }
	st := newStand(t, Limits{})
	st.take(stays)
	client := st.client()
	client.say(request)
	engine := st.engine()
	engine.request()
	_ = client.CloseWrite()
	for _, piece := range []string{"HTTP/1.1 200 OK\r\nConte", "nt-Length: 2\r\n\r\no", "k"} {
		engine.say(piece)
		st.received()
	}
	client.wants(okay)
	st.turn().whole("ok")
	if got, err := client.rest(); got != "" || err != nil {
		t.Errorf("behind the answer: got %q, %v, want its end", got, err)
	}
	st.stats(1, 1, 1)

	client = st.client()
	client.say(request)
	engine.request()
	client.reset()
	if e := st.turn().end(); !e.Gone {
		t.Errorf("end: got %+v, want the client gone", e)
	}
	st.stats(0, 0, 1)
}

// TestCancelAnExchange: before the head the front is told why there will be no
// response, and the Answer's Ended afterwards.
func TestCancelAnExchange(t *testing.T) {
	why := errors.New("enough")
	t.Run("from the start", func(t *testing.T) {
		st := newStand(t, Limits{})
		st.take(func(x *Exchange) { st.loop.Cancel(&x.Stream, why) })
		st.client().say(request)
		st.failed(request, upstream.OpHeaderWait, why, 0).end()
		st.stats(0, 0, 1)
	})
	t.Run("before there is a connection", func(t *testing.T) {
		st := newStand(t, Limits{})
		st.take()
		st.pool.Addr = fullListener(t).String()
		st.client().say(request)
		eventually(t, "it is being connected", func() bool { return st.sockets() == 2 })
		u := st.turn()
		st.front.taken <- u
		st.loop.Cancel(&u.x.Stream, why)
		st.failed(request, upstream.OpConnect, why, 0).end()
		st.stats(0, 0, 1)
	})
	for _, part := range []string{"", "HTTP/1.1 200 OK\r\n"} {
		t.Run("before the head's end", func(t *testing.T) {
			st := newStand(t, Limits{})
			st.take()
			st.client().say(request)
			engine := st.engine()
			engine.request()
			engine.say(part)
			st.received()
			u := st.turn()
			st.front.taken <- u
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() { st.loop.Cancel(&u.x.Stream, why) })
			}
			op := upstream.OpHeaderWait
			if part != "" {
				op = upstream.OpHeader
			}
			st.failed(request, op, why, 0).end()
			wait.Wait()
			if _, err := engine.rest(); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the engine: got %v, want a reset", err)
			}
			st.stats(0, 0, 1)
			st.front.nobody()
		})
	}
	t.Run("in the body", func(t *testing.T) {
		st := newStand(t, Limits{})
		st.take()
		client := st.client()
		client.say(request)
		engine := st.engine()
		engine.request()
		engine.say(sizedHead + "0123")
		client.wants(sizedHead + "0123")
		u := st.turn()
		st.loop.Cancel(&u.x.Stream, why)
		if e := u.end(); !errors.Is(e.Err, why) || e.Gone || e.Whole {
			t.Errorf("end: got %+v, want %v", e, why)
		}
		if got := string(u.observed()); got != "0123" {
			t.Errorf("observed: got %q, want 0123", got)
		}
		if got, err := client.rest(); got != "" || err != nil {
			t.Errorf("client: got %q, %v, want its end", got, err)
		}
		st.stats(0, 0, 1)
		st.front.nobody()
	})
	t.Run("after the end", func(t *testing.T) {
		st, client, engine := pooled(t, Limits{})
		client.say(request)
		engine.request()
		old := st.turn()
		engine.say(okay)
		client.wants(okay)
		old.whole("ok")
		client.say(request)
		engine.request()
		st.loop.Cancel(&old.x.Stream, why)
		engine.say(okay)
		client.wants(okay)
		st.turn().whole("ok")
	})
}

// TestBodyOfAnExchangeDies: the client keeps what came, and no end.
func TestBodyOfAnExchangeDies(t *testing.T) {
	for _, c := range []struct {
		name, said string
		reset      bool // the client's
	}{
		{"a length", sizedHead + "01234", false},
		{"only a head", sizedHead, false},
		{"chunks", chunkedHead + "5\r\nhel", false},
		{"the last chunk", chunkedHead + "5\r\nhello\r\n0\r\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			st.take()
			client := st.client()
			client.say(request)
			engine := st.engine()
			engine.request()
			engine.say(c.said)
			client.wants(c.said)
			_ = engine.Close()
			if e := st.turn().end(); !errors.Is(e.Err, io.ErrUnexpectedEOF) || e.Gone || e.Whole {
				t.Errorf("end: got %+v, want io.ErrUnexpectedEOF", e)
			}
			if got, err := client.rest(); got != "" || errors.Is(err, syscall.ECONNRESET) != c.reset {
				t.Errorf("client: got %q, %v, want a reset %v", got, err, c.reset)
			}
			st.stats(0, 0, 1)
		})
	}
}

// TestLimitsOfAnExchange: each limit ends what it is for, not early. Those of a client
// are in TestAwait.
func TestLimitsOfAnExchange(t *testing.T) {
	const limit = 80 * time.Millisecond
	late := func(t *testing.T, begun time.Time) {
		t.Helper()
		if took := time.Since(begun); took < limit {
			t.Errorf("over after %v, want %v", took, limit)
		}
	}
	for _, part := range []string{"", "HTTP/1.1 200 OK\r\n"} {
		t.Run("Header", func(t *testing.T) {
			st := newStand(t, Limits{Connect: time.Hour, Header: limit, Idle: time.Hour, Await: time.Hour, First: time.Hour})
			st.take()
			begun := time.Now()
			st.client().say(request)
			engine := st.engine()
			engine.request()
			engine.say(part)
			op := upstream.OpHeaderWait
			if part != "" {
				op = upstream.OpHeader
			}
			got := st.failed(request, op, os.ErrDeadlineExceeded, 0)
			late(t, begun)
			if !upstream.IsTimeout(got.x.Err) {
				t.Errorf("got %v, want a timeout", got.x.Err)
			}
			got.end()
			st.stats(0, 0, 1)
		})
	}
	t.Run("Connect", func(t *testing.T) {
		st := newStand(t, Limits{Connect: limit, Header: time.Hour})
		st.take()
		st.pool.Addr = fullListener(t).String()
		begun := time.Now()
		st.client().say(request)
		got := st.failed(request, upstream.OpConnect, os.ErrDeadlineExceeded, 0)
		late(t, begun)
		got.end()
		st.stats(0, 0, 1)
	})
	t.Run("Idle", func(t *testing.T) {
		st := newStand(t, Limits{Header: time.Hour, Idle: limit})
		st.take()
		client := st.client()
		client.say(request)
		engine := st.engine()
		engine.request()
		begun := time.Now()
		engine.say(sizedHead + "0")
		if e := st.turn().end(); !errors.Is(e.Err, os.ErrDeadlineExceeded) || e.Gone {
			t.Errorf("end: got %+v, want the deadline", e)
		}
		late(t, begun)
		st.stats(0, 0, 1)
	})
	t.Run("Write", func(t *testing.T) {
		st := newStand(t, Limits{Header: time.Hour, Idle: time.Hour, Write: limit})
		st.take()
		client := st.client()
		client.say(request)
		engine := st.engine()
		engine.request()
		begun := time.Now()
		l := &line{engine: engine.TCPConn}
		engine.say(chunkedHead)
		stop := l.flood()
		defer func() { _ = stop() }()
		if e := st.turn().end(); !e.Gone || e.Whole {
			t.Errorf("end: got %+v, want the client given up", e)
		}
		late(t, begun)
		st.stats(0, 0, 1)
	})
	t.Run("a client between two requests", func(t *testing.T) {
		st, client, _ := pooled(t, Limits{First: time.Hour, Await: limit, Header: time.Hour})
		begun := time.Now()
		if got, err := client.rest(); got != "" || err != nil {
			t.Errorf("got %q, %v, want its end", got, err)
		}
		if took := time.Since(begun); took < limit/2 {
			t.Errorf("closed after %v, want %v", took, limit)
		}
		st.stats(1, 1, 1)
	})
	t.Run("an idle connection", func(t *testing.T) {
		st := newStand(t, Limits{Await: limit * 20}) // it looks every limit
		st.take()
		st.pool.MaxIdle = limit
		client := st.client()
		client.say(request)
		engine := st.engine()
		engine.request()
		begun := time.Now()
		engine.say(okay)
		client.wants(okay)
		st.turn().whole("ok")
		if got, err := engine.rest(); got != "" || err != nil {
			t.Errorf("the engine: got %q, %v, want its end", got, err)
		}
		late(t, begun)
		st.settled(0, 0)
	})
	t.Run("no idle connections", func(t *testing.T) {
		st := newStand(t, Limits{})
		st.take()
		st.pool.MaxIdle = -1
		client := st.client()
		for dials := 1; dials <= 2; dials++ {
			client.say(request)
			engine := st.engine()
			engine.request()
			engine.say(okay)
			client.wants(okay)
			st.turn().whole("ok")
			st.stats(0, 0, dials)
		}
	})
}

// gate makes the loop wait in Front.Request, upon each client that sends hold: held
// tells of it, and goOn ends it.
func (st *stand) gate() (held <-chan struct{}, goOn chan<- struct{}) {
	h, g := make(chan struct{}), make(chan struct{})
	st.front.mu.Lock()
	defer st.front.mu.Unlock()
	take := st.front.take
	st.front.take = func(p, room []byte) *Exchange {
		if string(p) == hold {
			h <- struct{}{}
			<-g
			return nil
		}
		return take(p, room)
	}
	return h, g
}

// hold makes the loop wait until release.
func (st *stand) hold() (release func()) {
	st.t.Helper()
	held, goOn := st.gate()
	st.client().say(hold)
	<-held
	return func() { goOn <- struct{}{} }
}

// holdTurn makes the loop wait until release in a turn that finds what comes: that is
// ready, and not yet looked at.
func (st *stand) holdTurn(comes func()) (release func()) {
	st.t.Helper()
	held, goOn := st.gate()
	one, two := st.client(), st.client()
	one.say(hold)
	<-held
	two.say(hold)
	comes()
	goOn <- struct{}{}
	<-held
	return func() { goOn <- struct{}{} }
}

// TestDismissAnswersWhatHasCome: the listening ends, and who is waited for is closed,
// but a request that lies in its socket is answered, and one that is being answered
// too.
func TestDismissAnswersWhatHasCome(t *testing.T) {
	st := newStand(t, Limits{})
	st.take()
	idle, plain, other, busy := st.client(), st.client(), st.client(), st.client()
	busy.say(request)
	first := st.engine()
	first.request()
	release := st.hold()
	plain.say(target("/2"))
	other.say("OPTIONS * HTT")
	over := make(chan struct{})
	go func() { defer close(over); st.loop.Dismiss() }()
	eventually(t, "the loop is told", func() bool {
		st.loop.mu.Lock()
		defer st.loop.mu.Unlock()
		return st.loop.dismissed
	})
	release()
	<-over
	if n := len(st.front.served); n != 1 {
		t.Errorf("%d clients are served when it returns, want the one whose request had come", n)
	}
	if open, n := st.loop.Open(), st.sockets(); open != 2 || n != 4 {
		t.Errorf("%d requests are begun when it returns, with %d sockets, want 2 with 4", open, n)
	}
	if got := st.front.serve(); got.early != "OPTIONS * HTT" || got.x != nil {
		t.Errorf("served %q, %v, want the other request", got.early, got.x)
	} else {
		got.end()
	}
	second := st.engine()
	second.request()
	if got, err := idle.rest(); got != "" || err != nil {
		t.Errorf("who was waited for: got %q, %v, want the end", got, err)
	}
	for engine, client := range map[*peer]*peer{first: busy, second: plain} {
		engine.say(okay)
		client.wants(okay)
		if got, err := client.rest(); got != "" || err != nil {
			t.Errorf("behind the answer: got %q, %v, want the end", got, err)
		}
	}
	if c, err := net.Dial("tcp", st.addr.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = c.Close()
		}
		t.Errorf("got %v, want nobody to listen", err)
	}
	for range 2 {
		st.turn().whole("ok")
	}
	st.stats(2, 2, 2)
}

// TestDismissAnswersWhatIsPipelined: a request that lies behind one that is answered
// has come too.
func TestDismissAnswersWhatIsPipelined(t *testing.T) {
	st := newStand(t, Limits{})
	st.take()
	client := st.client()
	client.say(request)
	engine := st.engine()
	engine.request()
	client.say(target("/2"))
	st.loop.Dismiss()
	if c, err := net.Dial("tcp", st.addr.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = c.Close()
		}
		t.Errorf("got %v, want nobody to listen", err)
	}
	st.loop.Dismiss() // again is no matter
	for _, path := range []string{"", "/2"} {
		if path != "" && engine.request() != path {
			t.Errorf("not a request for %s", path)
		}
		engine.say(okay)
		client.wants(okay)
		st.turn().whole("ok")
	}
	if got, err := client.rest(); got != "" || err != nil {
		t.Errorf("behind the answers: got %q, %v, want the end", got, err)
	}
	st.front.nobody()
}

// TestListenersShareASocket: it listens until the last loop has let go.
func TestListenersShareASocket(t *testing.T) {
	one, two := newStand(t, Limits{}), newStand(t, Limits{})
	ln := listen(t)
	raw, err := stamp.ListenRaw(ln, false)
	if err != nil {
		t.Fatal(err)
	}
	another, err := raw.Another()
	if err != nil {
		t.Fatal(err)
	}
	for st, raw := range map[*stand]*stamp.RawListener{one: raw, two: another} {
		if err := st.loop.Listen(raw); err != nil {
			t.Fatal(err)
		}
	}
	const n = 20
	for range n {
		dial(t, ln.Addr())
	}
	eventually(t, "all are accepted", func() bool { return one.sockets()+two.sockets() == n })
	one.loop.Dismiss()
	eventually(t, "one has none", func() bool { return one.sockets() == 0 })
	had := two.sockets()
	dial(t, ln.Addr())
	eventually(t, "the other accepts", func() bool { return two.sockets() == had+1 })
	two.loop.Close()
	if c, err := net.Dial("tcp", ln.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = c.Close()
		}
		t.Errorf("got %v, want nobody to listen", err)
	}
}

// TestListenAfterDismiss: the listener is closed.
func TestListenAfterDismiss(t *testing.T) {
	for _, end := range []func(*Loop){(*Loop).Dismiss, (*Loop).Close} {
		st := newStand(t, Limits{})
		end(st.loop)
		st.listen()
		if c, err := net.Dial("tcp", st.addr.String()); !errors.Is(err, syscall.ECONNREFUSED) {
			if err == nil {
				_ = c.Close()
			}
			t.Errorf("got %v, want nobody to listen", err)
		}
	}
}

// TestCloseCutsExchanges in every stage, and leaves no descriptor and no connection
// counted.
func TestCloseCutsExchanges(t *testing.T) {
	loop := func() (closed func()) {
		st, client, engine := pooled(t, Limits{}) // idle, and waited for
		body := st.client()
		body.say(request)
		engine.request()
		engine.say(sizedHead + "0123")
		body.wants(sizedHead + "0123")
		inBody := st.turn()
		waiting := st.client()
		waiting.say(target("/2"))
		second := st.engine()
		second.request()
		third := st.client() // makes a second idle connection
		third.say(target("/3"))
		e := st.engine()
		e.request()
		u := st.turn()
		st.front.taken <- u
		pending := u
		last := st.turn()
		e.say(okay)
		third.wants(okay)
		last.whole("ok")
		st.stats(3, 1, 3)
		if n := st.loop.Open(); n != 2 {
			t.Errorf("got %d open, want 2", n)
		}
		return func() {
			t.Helper()
			st.loop.Close()
			if e := inBody.end(); !errors.Is(e.Err, errClosed) || e.Gone || e.Whole {
				t.Errorf("end: got %+v, want %v", e, errClosed)
			}
			if got, err := body.rest(); got != "" || err != nil {
				t.Errorf("in the body: got %q, %v, want the end", got, err)
			}
			if <-st.front.taken != pending {
				t.Error("another exchange")
			}
			st.front.taken <- pending
			st.failed(target("/2"), upstream.OpHeaderWait, errClosed, 0).end()
			for _, c := range []*peer{client, third, e} {
				if got, err := c.rest(); got != "" || err != nil {
					t.Errorf("who was waited for: got %q, %v, want the end", got, err)
				}
			}
			st.stats(0, 0, 3)
			if st.loop.Spare(st.pool) {
				t.Error("a closed loop has a connection to spare")
			}
			st.stats(0, 0, 3)
			for _, c := range []io.Closer{client, third, e, body, waiting, engine, second, st.engines, st.clients} {
				_ = c.Close()
			}
		}
	}
	loop()() // what the first one opens for good stays
	fds := openFDs(t)
	loop()()
	eventually(t, "no descriptor is left", func() bool { return openFDs(t) <= fds })
}

// TestSpareTakesTheOldest: it closes the connection that has waited longest, of that
// engine.
func TestSpareTakesTheOldest(t *testing.T) {
	st, first, one := pooled(t, Limits{})
	second := st.client()
	first.say(request)
	one.request()
	second.say(request)
	two := st.engine()
	two.request()
	for _, c := range []struct{ engine, client *peer }{{two, second}, {one, first}} {
		c.engine.say(okay)
		c.client.wants(okay)
		st.turn()
		st.settled(2, map[*peer]int{two: 1, one: 2}[c.engine])
	}
	if st.loop.Spare(&upstream.Client{}) {
		t.Error("another engine's is spared")
	}
	if !st.loop.Spare(st.pool) {
		t.Error("nothing is spared")
	}
	st.stats(1, 1, 2)
	if got, err := two.rest(); got != "" || err != nil {
		t.Errorf("the one that has waited longest: got %q, %v, want its end", got, err)
	}
	first.say(request)
	one.request()
	if st.loop.Spare(st.pool) {
		t.Error("one in use is spared")
	}
	one.say(okay)
	first.wants(okay)
	st.settled(1, 1)
	if n := st.sockets(); n != 3 {
		t.Errorf("got %d sockets, want those of two clients and an engine", n)
	}
}

// TestSpareForTheClient: a Client at its limit gets room from the loop's idle
// connections, and the loop counts against the limit too.
func TestSpareForTheClient(t *testing.T) {
	st, client, engine := pooled(t, Limits{}, func(x *Exchange) {})
	st.pool.MaxConns = 1
	ask := func() chan error {
		over := make(chan error, 1)
		go func() {
			r, err := st.pool.Do(context.Background(), &upstream.Request{})
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				_ = r.Close()
			}
			over <- err
		}()
		return over
	}
	if err := <-ask(); !errors.Is(err, upstream.ErrNoFreeConns) {
		t.Errorf("without Spare: got %v, want ErrNoFreeConns", err)
	}
	st.pool.Spare = func() bool { return st.loop.Spare(st.pool) }
	over := ask()
	if got, err := engine.rest(); got != "" || err != nil {
		t.Errorf("the spared connection: got %q, %v, want its end", got, err)
	}
	engine = st.engine()
	engine.request()
	engine.say(okay)
	if err := <-over; err != nil {
		t.Error(err)
	}
	st.stats(1, 1, 2)
	client.say(target("/2"))
	got := st.front.serve()
	if got.x == nil || got.x.Pending != nil || got.x.Err != nil {
		t.Errorf("served %+v, want a request that is still to be sent", got.x)
	}
	got.end()
	if err := func() error { over := ask(); engine.request(); engine.say(okay); return <-over }(); err != nil {
		t.Error(err)
	}
	st.stats(1, 1, 2)
}

// TestSpareInTraffic: connections are spared, and closed by their engines, while
// others serve; each request is answered once.
func TestSpareInTraffic(t *testing.T) {
	st := newStand(t, Limits{Write: 16 * time.Millisecond}) // it looks every 2 ms
	st.take()
	st.pool.MaxIdle = 3 * time.Millisecond
	var served atomic.Int64
	var engines sync.WaitGroup
	engines.Go(func() {
		for {
			c, err := st.engines.Accept()
			if err != nil {
				return
			}
			engines.Go(func() {
				defer c.Close()
				p := make([]byte, 4096)
				for {
					n, err := c.Read(p)
					if err != nil {
						return
					}
					if string(p[:n]) != request {
						t.Errorf("an engine got %q", p[:n])
						return
					}
					served.Add(1)
					if _, err := io.WriteString(c, okay); err != nil {
						return
					}
				}
			})
		}
	})
	const clients, each = 8, 100
	var wait sync.WaitGroup
	for range clients {
		c := st.client()
		wait.Go(func() {
			b := make([]byte, len(okay))
			for range each {
				if _, err := io.WriteString(c, request); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(c.br, b); err != nil || string(b) != okay {
					t.Errorf("got %q, %v, want %q", b, err, okay)
					return
				}
			}
		})
	}
	stop, spared := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		tick := time.NewTicker(50 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if st.loop.Spare(st.pool) {
					n++
				}
			case <-stop:
				spared <- n
				return
			}
		}
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range clients * each {
			if e := (<-st.front.taken).end(); !e.Whole {
				t.Errorf("end: got %+v, want a whole body", e)
			}
		}
	}()
	wait.Wait()
	<-ended
	close(stop)
	if n := <-spared; n == 0 {
		t.Error("nothing was spared")
	}
	if n := served.Load(); n != clients*each {
		t.Errorf("served %d times, want %d", n, clients*each)
	}
	if s := st.pool.Stats(); s.Open != s.Idle || s.Retries != 0 {
		t.Errorf("got %+v, want only idle connections and no retries", s)
	}
	st.loop.Close()
	if s := st.pool.Stats(); s.Open != 0 || s.Idle != 0 {
		t.Errorf("after Close: got %+v, want no connection", s)
	}
	_ = st.engines.Close()
	engines.Wait()
	st.front.nobody()
}

// TestNoDescriptors: a loop that cannot accept says so, does not spin, and accepts
// when it can again; what it has goes on.
func TestNoDescriptors(t *testing.T) {
	const look = 20 * time.Millisecond
	st := newStand(t, Limits{Header: 8 * look, Idle: time.Minute})
	st.take()
	old := st.client()
	old.say(request)
	engine := st.engine()
	engine.request()
	engine.say(sizedHead)
	old.wants(sizedHead)
	release := st.hold()
	client := &peer{t: t, TCPConn: dial(t, st.addr)}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	refused := func() []error {
		st.front.mu.Lock()
		defer st.front.mu.Unlock()
		return st.front.refused
	}
	release()
	eventually(t, "it is refused again", func() bool { return len(refused()) >= 3 })
	engine.say("0123456789")
	b := make([]byte, 10)
	_, readErr := io.ReadFull(old.br, b)
	n, took := len(refused()), time.Since(begun)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if string(b) != "0123456789" || readErr != nil {
		t.Errorf("a stream meanwhile: got %q, %v", b, readErr)
	}
	for _, err := range refused() {
		if !errors.Is(err, syscall.EMFILE) {
			t.Errorf("refused: got %v, want EMFILE", err)
		}
	}
	if most := int(took/look) + 2; n > most {
		t.Errorf("refused %d times in %v, want %d at most", n, took, most)
	}
	client.say("OTHER")
	if got := st.front.serve(); got.early != "OTHER" {
		t.Errorf("served %q, want OTHER", got.early)
	} else {
		got.end()
	}
}
