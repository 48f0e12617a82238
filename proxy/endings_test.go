package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

// endless is a stream of an event every ms milliseconds.
func endless(ms int) sim.Script {
	sc := script(fmt.Sprintf(`C("a") x2000 every %d from %d`, ms, ms))
	sc.End = sim.Hang
	return sc
}

// openStream sends a request and reads n bytes of its body.
func openStream(t *testing.T, w *world, raw string, n int) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	if n > 0 {
		for line := ""; line != "\r\n"; {
			if line, err = br.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.CopyN(io.Discard, br, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	return c, br
}

// leave is how a client goes.
var leave = []struct {
	name string
	do   func(t *testing.T, c net.Conn)
}{
	{"FIN", func(t *testing.T, c net.Conn) { _ = c.Close() }},
	{"RST", func(t *testing.T, c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }},
	{"half-close", func(t *testing.T, c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }},
}

// TestR24 has the client leave in every phase: the upstream is aborted within
// 50 ms, and the record says who left.
func TestR24(t *testing.T) { onBothPaths(t, testR24) }

func testR24(t *testing.T, on path) {
	headersOnly := sim.Script{End: sim.Hang}
	never := sim.Script{After: time.Hour, End: sim.Hang}
	afterLast := script(`C("a")@1`)
	afterLast.End = sim.Hang
	slow := endless(300) // between two tokens only the watcher can tell
	for _, phase := range []struct {
		name, raw string
		sc        sim.Script
		read      int
		metric    string
	}{
		{"before the header", chat(), never, 0, "prefill"},
		{"after the header", chat(), headersOnly, 0, "prefill"},
		{"between tokens", chat(), slow, 100, "decode"},
		{"mid-stream", chat(), endless(2), 1000, "decode"},
		{"after the last token", chat(), afterLast, 100, "decode"},
		{"a request that is no stream", post("/v1/embeddings", "{}"), never, 0, "other"},
	} {
		for _, how := range leave {
			t.Run(phase.name+", "+how.name, func(t *testing.T) {
				// The bar is 50 ms; a busy machine may add to it, so the best
				// of three counts.
				var took time.Duration
				for range 3 {
					if took = leaveIn(t, on, phase.sc, phase.raw, phase.read, phase.metric, how.do); took <= 50*time.Millisecond {
						return
					}
				}
				t.Errorf("the upstream was aborted after %v, want 50 ms at most", took)
			})
		}
	}
}

// leaveIn has a client leave and returns how long the upstream took to see it.
func leaveIn(t *testing.T, on path, sc sim.Script, raw string, read int, metric string, leave func(*testing.T, net.Conn)) time.Duration {
	t.Helper()
	w := sockets(t, on(Config{}), sim.Always(sc))
	defer w.close()
	c, _ := openStream(t, w, raw, read)
	defer c.Close()
	eventually(t, "the request is with the upstream", func() bool { return len(w.up.Played()) == 1 })
	left := time.Now()
	leave(t, c)
	eventually(t, "the upstream sees it", func() bool {
		p := w.up.Played()[0]
		return !p.Gone.IsZero() || p.Err != nil
	})
	took := time.Since(left)
	eventually(t, "it is counted", func() bool {
		return w.metric(`streamgauge_client_gone_total{phase="`+metric+`"}`) == "1"
	})
	if metric != "other" {
		if r := w.record(); r.End != stream.ClientGone {
			t.Errorf("record: got %s(%s), want client_gone", r.End, r.Reason)
		}
	}
	return took
}

func TestKeepHalfClosed(t *testing.T) { onBothPaths(t, testKeepHalfClosed) }

func testKeepHalfClosed(t *testing.T, on path) {
	sc := script(r1)
	w := sockets(t, on(Config{KeepHalfClosed: true}), sim.Always(sc))
	defer w.close()
	c, br := openStream(t, w, chat(), 0)
	defer c.Close()
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if a := listen(br, "POST"); a.err != nil || !bytes.Equal(a.body, bytesOf(sc)) {
		t.Errorf("a client that half-closed got %d bytes (%v), want the whole stream", len(a.body), a.err)
	}
}

// TestClientLeavesInItsBody: half a request is nothing the upstream should see.
func TestClientLeavesInItsBody(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   Config
		whole bool
	}{{"small", Config{}, false}, {"streamed", Config{BufferBody: 16}, false}} {
		t.Run(c.name, func(t *testing.T) {
			w := sockets(t, c.cfg, sim.Always(sim.Script{}))
			defer w.close()
			conn, _ := openStream(t, w, "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{\"model\"", 0)
			if c.cfg.BufferBody > 0 {
				eventually(t, "it is open", func() bool {
					return w.ask("/upstreams").status == 200 && strings.Contains(string(w.ask("/upstreams").body), `"open_requests":1`)
				})
			}
			_ = conn.Close()
			eventually(t, "it is counted", func() bool {
				out := string(w.ask("/metrics").body)
				return strings.Contains(out, `streamgauge_client_gone_total{phase="`)
			})
			if p := w.up.Played(); len(p) != 0 {
				t.Errorf("the upstream took half a body for a request: %+v", p)
			}
		})
	}
}

// TestUpstreamDies: the client must see a broken body, in every framing.
func TestUpstreamDies(t *testing.T) { onBothPaths(t, testUpstreamDies) }

func testUpstreamDies(t *testing.T, on path) {
	for _, framing := range []struct {
		name string
		f    sim.Framing
	}{{"chunks", sim.ByChunks}, {"length", sim.ByLength}} {
		for _, end := range []struct {
			name   string
			e      sim.Ending
			reason string
			as     stream.End
		}{{"FIN", sim.Drop, "", stream.Truncated}, {"RST", sim.Reset, "reset", stream.Failed}} {
			for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
				t.Run(framing.name+", "+end.name+", "+proto, func(t *testing.T) {
					sc := script(`C("a")@1 | C("b")@2 | C("c")@3`)
					sc.Framing, sc.End, sc.EndAt = framing.f, end.e, 5*time.Millisecond
					sc.Length = 5000
					w := sockets(t, on(Config{}), sim.Always(sc))
					defer w.close()
					a := w.say(strings.Replace(chat(), "HTTP/1.1", proto, 1))
					if a.err == nil {
						t.Errorf("the client saw a clean end after %q", a.body)
					}
					if proto == "HTTP/1.0" && framing.f == sim.ByChunks && !errors.Is(a.err, syscall.ECONNRESET) {
						t.Errorf("an HTTP/1.0 client saw %v, want a reset: FIN is its clean end", a.err)
					}
					if !bytes.HasPrefix(bytesOf(sc), a.body) {
						t.Errorf("the client got %q, which is not what was sent", a.body)
					}
					if bytes.Contains(a.raw, []byte("[DONE]")) {
						t.Error("a marker was invented")
					}
					if r := w.record(); r.End != end.as || string(r.Reason) != end.reason {
						t.Errorf("record: got %s(%s), want %s(%s)", r.End, r.Reason, end.as, end.reason)
					}
				})
			}
		}
	}
}

// TestHTTP10Client gets no chunks and no reset.
func TestHTTP10Client(t *testing.T) {
	sc := script(r1)
	w := sockets(t, Config{}, sim.Always(sc))
	defer w.close()
	a := w.say(strings.Replace(chat(), "HTTP/1.1", "HTTP/1.0", 1))
	if a.err != nil || !bytes.Equal(a.body, bytesOf(sc)) {
		t.Errorf("got %q (%v), want the stream and a clean end", a.body, a.err)
	}
	if te := a.header.Get("Transfer-Encoding"); te != "" || !strings.Contains(string(a.raw), "Connection: close\r\n") {
		t.Errorf("header %q: want no coding, and the connection's end announced", a.raw)
	}
	if got := outcomeOf(w.record()).n; got != 3 {
		t.Errorf("record: got %d tokens, want 3", got)
	}
}

// TestFaults are the proxy's own answers.
func TestFaults(t *testing.T) {
	dead := loopbackListener(t)
	deadAddr := dead.Addr().String()
	_ = dead.Close()
	never := sim.Script{After: time.Hour, End: sim.Hang}
	for _, c := range []struct {
		name   string
		cfg    Config
		sc     sim.Script
		status int
		reason string
		end    stream.End
		cause  string
	}{
		{"nobody listens", Config{Upstreams: []string{"http://" + deadAddr}}, never, 502, "connect", stream.Failed, "connect"},
		{"closed before an answer", Config{}, sim.Script{Framing: sim.ByItself, End: sim.Drop}, 502, "closed", stream.Failed, "empty"},
		{"reset before an answer", Config{}, sim.Script{Framing: sim.ByItself, End: sim.Reset}, 502, "closed", stream.Failed, "reset"},
		{"no HTTP", Config{}, sim.Script{Framing: sim.ByItself, Writes: []sim.Write{{Bytes: []byte("SSH-2.0-OpenSSH\r\n")}}, End: sim.Hang}, 502, "response", stream.Failed, "empty"},
		{"closed in the header", Config{}, sim.Script{Framing: sim.ByItself, Writes: []sim.Write{{Bytes: []byte("HTTP/1.1 200 OK\r\nX:")}}, End: sim.Drop}, 502, "closed", stream.Failed, "empty"},
		{"header wait", Config{HeaderWait: 20 * time.Millisecond}, never, 504, "header_wait", stream.Failed, "ttft_timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sockets(t, c.cfg, sim.Always(c.sc))
			defer w.close()
			a := w.say(chat())
			if a.status != c.status || a.header.Get(errorHeader) != c.reason {
				t.Errorf("got %d %q (%v), want %d %q", a.status, a.header.Get(errorHeader), a.err, c.status, c.reason)
			}
			if want := `"code":"` + c.reason + `"`; !strings.HasPrefix(string(a.body), `{"error":{"message":`) || !strings.Contains(string(a.body), want) {
				t.Errorf("body %q: want OpenAI's error shape with %s", a.body, want)
			}
			if r := w.record(); r.End != c.end || string(r.Reason) != c.cause {
				t.Errorf("record: got %s(%s), want %s(%s)", r.End, r.Reason, c.end, c.cause)
			}
			if got := w.metric(`streamgauge_no_first_token_total{model="m",reason="` + c.cause + `"}`); got != "1" {
				t.Errorf("no_first_token(%s): got %q, want 1", c.cause, got)
			}
		})
	}
}

func TestPoolFull(t *testing.T) { onBothPaths(t, testPoolFull) }

func testPoolFull(t *testing.T, on path) {
	w := sockets(t, on(Config{MaxConns: 1}), sim.Always(endless(5)))
	defer w.close()
	c, _ := openStream(t, w, chat(), 100)
	defer c.Close()
	a := w.say(chat())
	if a.status != 503 || a.header.Get(errorHeader) != "pool_full" || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %q, want 503 pool_full with Retry-After", a.status, a.header.Get(errorHeader))
	}
}

// TestSilence tells the limits apart, in virtual time: none of them ends a
// healthy stream, however long its silence before the first token.
func TestSilence(t *testing.T) {
	t.Run("700 s before the header", func(t *testing.T) {
		sc := script(`C("a")@700000 | FIN("stop") D@700001`)
		sc.After = -1
		bubble(t, Config{}, sim.Always(sc), func(t *testing.T, w *world) {
			if a := w.say(chat()); a.err != nil || !bytes.Equal(a.body, bytesOf(sc)) {
				t.Errorf("got %q, %v", a.body, a.err)
			}
			if got := msOf(w.record().TTFTNS); got != 700000 {
				t.Errorf("ttft: got %v ms, want 700000", got)
			}
		})
	})
	t.Run("40 minutes of tokens", func(t *testing.T) {
		sc := script(`C("a") x2400 every 1000 from 1000 | FIN("stop") D@2401000`)
		bubble(t, Config{BodyIdle: 2 * time.Second, HeaderWait: time.Second, ClientWrite: time.Second, ClientRead: time.Second}, sim.Always(sc), func(t *testing.T, w *world) {
			if a := w.say(chat()); a.err != nil || len(a.pieces) != 2401 {
				t.Errorf("got %d pieces, %v, want 2401", len(a.pieces), a.err)
			}
		})
	})
	t.Run("silence over the body's limit", func(t *testing.T) {
		sc := script(`C("a")@10`)
		sc.End = sim.Hang
		bubble(t, Config{BodyIdle: 3 * time.Second}, sim.Always(sc), func(t *testing.T, w *world) {
			begun := time.Now()
			a := w.say(chat())
			if took := time.Since(begun); a.err == nil || took != 3010*time.Millisecond {
				t.Errorf("the body broke after %v (%v), want 3.01 s", took, a.err)
			}
		})
	})
}

// TestSlowReader: a client that stops reading costs bounded memory and is cut
// when a write to it takes too long.
func TestSlowReader(t *testing.T) { onBothPaths(t, testSlowReader) }

func testSlowReader(t *testing.T, on path) {
	sc := sim.Script{Writes: []sim.Write{{Bytes: bytes.Repeat([]byte("x"), 64<<20)}}, End: sim.Hang}
	w := sockets(t, on(Config{ClientWrite: 200 * time.Millisecond}), sim.Always(sc))
	defer w.close()
	c, _ := openStream(t, w, chat(), 10)
	defer c.Close()
	eventually(t, "the client is given up", func() bool { return len(w.records()) == 1 })
	if r := w.record(); r.End != stream.ClientGone {
		t.Errorf("record: got %s(%s), want client_gone", r.End, r.Reason)
	}
}

// TestShutdown: what is open goes on for the drain period and is cut then;
// nothing new is taken.
func TestShutdown(t *testing.T) { onBothPaths(t, testShutdown) }

func testShutdown(t *testing.T, on path) {
	t.Run("streams that end in time are whole", func(t *testing.T) {
		sc := script(r1)
		bubble(t, Config{Drain: 10 * time.Second}, sim.Always(sc), func(t *testing.T, w *world) {
			c, br := openStream(t, w, chat(), 50)
			defer c.Close()
			w.wait.Go(w.shutdown)
			<-time.After(time.Millisecond)
			if a := w.ask("/readyz"); a.status != 503 || string(a.body) != "draining\n" {
				t.Errorf("/readyz: got %d %q, want 503 draining", a.status, a.body)
			}
			rest, _ := io.ReadAll(br)
			if !bytes.HasSuffix(rest, []byte("\r\n0\r\n\r\n")) {
				t.Errorf("the stream ended with %q, want its last chunk", rest[max(0, len(rest)-20):])
			}
			w.shutdown()
			wantLogged(t, w, `"drain":"10s","open":1,"message":"draining`, `"ended":1,"cut":0,"message":"drained"`)
		})
	})
	t.Run("others are cut", func(t *testing.T) {
		w := sockets(t, on(Config{Drain: 50 * time.Millisecond}), sim.Always(endless(5)))
		c, br := openStream(t, w, chat(), 100)
		defer c.Close()
		w.close()
		rest, err := io.ReadAll(br)
		if err == nil && bytes.HasSuffix(rest, []byte("\r\n0\r\n\r\n")) {
			t.Error("a stream that was cut has a clean end")
		}
		items, _, _ := w.p.ring.since("")
		if len(items) != 1 || items[0].record().End != stream.Failed || items[0].record().Reason != "drain" {
			t.Errorf("records: got %+v, want one failed(drain)", items)
		}
		wantLogged(t, w, `"drain":"50ms","open":1,"message":"draining`, `"ended":0,"cut":1,"message":"drained"`)
	})
	t.Run("a kept connection is refused", func(t *testing.T) {
		w := sockets(t, on(Config{}), func(n int, _ *sim.Played) sim.Script {
			if n == 0 {
				return endless(5)
			}
			return sim.Script{Framing: sim.ByLength}
		})
		held, _ := openStream(t, w, chat(), 100)
		c, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		br := bufio.NewReader(c)
		// Its request is open while the shutdown begins, so the server does
		// not close it as idle.
		if _, err := io.WriteString(c, "POST /x HTTP/1.1\r\nHost: a\r\n"); err != nil {
			t.Fatal(err)
		}
		defer w.close()
		w.wait.Go(w.shutdown)
		eventually(t, "it drains", func() bool { return w.p.notReady() == "draining" })
		a := hear(t, c, br, "Content-Length: 0\r\n\r\n")
		if a.err == nil && (a.status != 503 || a.header.Get(errorHeader) != "draining") {
			t.Errorf("got %d %q, want 503 draining", a.status, a.header.Get(errorHeader))
		}
		_ = held.Close()
	})
	t.Run("an idle connection is closed, a new one refused", func(t *testing.T) {
		w := sockets(t, on(Config{}), func(n int, _ *sim.Played) sim.Script {
			if n == 0 {
				return endless(5)
			}
			return sim.Script{Framing: sim.ByLength}
		})
		held, _ := openStream(t, w, chat(), 100)
		c, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		br := bufio.NewReader(c)
		if a := hear(t, c, br, get("/x")); a.status != 200 {
			t.Fatalf("got %d (%v), want 200", a.status, a.err)
		}
		defer w.close()
		w.wait.Go(w.shutdown)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if b, err := br.ReadByte(); err != io.EOF {
			t.Errorf("the idle connection: got %q, %v, want its end and no word", b, err)
		}
		eventually(t, "new connections are refused", func() bool {
			c, err := w.dial()
			if err != nil {
				return errors.Is(err, syscall.ECONNREFUSED)
			}
			_ = c.Close()
			return false
		})
		_ = held.Close()
	})
}

func wantLogged(t *testing.T, w *world, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(w.logs.String(), l) {
			t.Errorf("the log lacks %s:\n%s", l, w.logs)
		}
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	return len(d)
}

// settles waits until files and goroutines are back to about what they were
// before n streams. About, since some of the server's workers stay for a while,
// idle: a leak would be n.
func settles(t *testing.T, n, fds, routines int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("files %d -> %d, goroutines %d -> %d", fds, openFDs(t), routines, runtime.NumGoroutine())
		}
	}()
	eventually(t, "files and goroutines are back", func() bool {
		return openFDs(t) <= fds+n/8 && runtime.NumGoroutine() <= routines+n/2
	})
}

// TestAbandoned: headers, then nothing, each abandoned by its client. Nothing
// may stay behind.
func TestAbandoned(t *testing.T) { onBothPaths(t, testAbandoned) }

func testAbandoned(t *testing.T, on path) {
	w := sockets(t, on(Config{}), sim.Always(sim.Script{End: sim.Hang}))
	defer w.close()
	round := func(n int) {
		for range n {
			c, _ := openStream(t, w, chat(), 0)
			br := bufio.NewReader(c)
			if _, err := br.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}
		eventually(t, "all are over", func() bool { return string(bytes.TrimSpace(w.ask("/streams").body)) == "[]" })
	}
	round(20)
	// The upstream's side is in this process too: its connections are gone
	// when it has seen them go.
	settled := func() bool {
		for _, p := range w.up.Played() {
			if p.Gone.IsZero() {
				return false
			}
		}
		return true
	}
	eventually(t, "the first are gone", settled)
	fds, routines := openFDs(t), runtime.NumGoroutine()
	round(500)
	eventually(t, "the upstream's are gone", settled)
	settles(t, 500, fds, routines)
}

// TestFaultKeepsTheConnection: a client whose engine is away need not dial anew
// for each try.
func TestFaultKeepsTheConnection(t *testing.T) {
	dead := loopbackListener(t)
	addr := dead.Addr().String()
	_ = dead.Close()
	w := sockets(t, Config{Upstreams: []string{"http://" + addr}}, nil)
	defer w.close()
	c, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	br := bufio.NewReader(c)
	for i := range 20 {
		if a := hear(t, c, br, chat()); a.err != nil || a.status != 502 || a.closed {
			t.Fatalf("try %d: got %d, %v, closed %v, want 502 and the connection kept", i, a.status, a.err, a.closed)
		}
	}
	if n := strings.Count(w.logs.String(), "no response from the upstream"); n == 0 || n > 10 {
		t.Errorf("got %d log lines, want a few", n)
	}
}

// TestShutdownHalfRequests: clients that have sent a part of a request, at any point
// of a connection's life, do not hold the shutdown up.
func TestShutdownHalfRequests(t *testing.T) { onBothPaths(t, testShutdownHalfRequests) }

func testShutdownHalfRequests(t *testing.T, on path) {
	bodyless := sim.Script{Framing: sim.ByItself, Writes: []sim.Write{{Bytes: []byte("HTTP/1.1 204 No Content\r\n\r\n")}}}
	whole := post("/x", strings.Repeat("x", 100))
	large := post("/x", strings.Repeat("x", 1<<20))
	for _, first := range []struct{ name, raw string }{
		{"nothing", ""}, {"a plain request", get("/x")}, {"another", get("/x", "TE: trailers")}, {"no body", get("/204")}, {"a stream that was handed over", chat("TE: trailers")},
	} {
		for _, half := range []struct{ name, raw string }{
			{"a part of the header", whole[:30]}, {"a part of the body", whole[:len(whole)-1]}, {"a part of a large one", large[:len(large)/2]},
		} {
			t.Run(half.name+" after "+first.name, func(t *testing.T) {
				w := sockets(t, on(Config{Drain: 20 * time.Millisecond, ClientRead: 8 * time.Second, BufferBody: 512 << 10}), byTarget(map[string]sim.Script{"/204": bodyless, "/v1/chat/completions": quick}))
				k := w.keep()
				defer k.Close()
				if first.raw != "" {
					k.say(first.raw)
					k.hear(first.raw[:4])
				}
				k.say(half.raw)
				if len(half.raw) > 60 {
					eventually(t, "it is open", func() bool {
						w.p.openMu.Lock()
						defer w.p.openMu.Unlock()
						return len(w.p.open) == 1
					})
				}
				begun := time.Now()
				w.close()
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("the shutdown took %v", took)
				}
				_, _ = io.Copy(io.Discard, k.br)
			})
		}
	}
}
