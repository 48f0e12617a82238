package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

// byTarget plays a script by the request's target, and a short one else.
func byTarget(scripts map[string]sim.Script) func(int, *sim.Played) sim.Script {
	return func(_ int, p *sim.Played) sim.Script {
		if sc, ok := scripts[p.Target]; ok {
			return sc
		}
		return sim.Script{Framing: sim.ByLength, Header: []string{"Content-Type: application/json"}, Writes: []sim.Write{{Bytes: []byte(`{"ok":true}`)}}}
	}
}

// quick is a short stream that does not come in one piece.
var quick = script(`ROLE@1 | C("a")@2 | C("b")@3 | FIN("stop") U(10,2) D@4`)

// keptClient is a client's connection over several requests.
type keptClient struct {
	*net.TCPConn
	t  *testing.T
	br *bufio.Reader
}

func (w *world) keep() *keptClient {
	w.t.Helper()
	c, err := w.dial()
	if err != nil {
		w.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // a hang is a failure, not a wait
	return &keptClient{c.(*net.TCPConn), w.t, bufio.NewReaderSize(c, 64<<10)}
}

// hear reads one answer from the connection, none of the next one's bytes.
func (k *keptClient) hear(method string) (status int, body []byte, closed bool) {
	k.t.Helper()
	res, err := http.ReadResponse(k.br, &http.Request{Method: method})
	if err != nil {
		k.t.Fatalf("an answer: %v", err)
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		k.t.Fatalf("an answer's body: %v after %q", err, body)
	}
	return res.StatusCode, body, res.Close
}

func (k *keptClient) say(raw string) {
	k.t.Helper()
	if _, err := io.WriteString(k, raw); err != nil {
		k.t.Fatal(err)
	}
}

// TestKeptAfterStreams: a client sends one streaming request after the other on one
// connection, to an engine that keeps its own.
func TestKeptAfterStreams(t *testing.T) { onBothPaths(t, testKeptAfterStreams) }

func testKeptAfterStreams(t *testing.T, on path) {
	w := sockets(t, on(Config{}), sim.Always(quick))
	defer w.close()
	k := w.keep()
	defer k.Close()
	const n = 100
	fds := 0
	for i := range n {
		k.say(chat(fmt.Sprintf("X-Request-Id: r%d", i)))
		if status, body, closed := k.hear("POST"); status != 200 || !bytes.Equal(body, bytesOf(quick)) || closed {
			t.Fatalf("stream %d: got %d %q, closed %v", i, status, body, closed)
		}
		if i == 5 {
			fds = openFDs(t)
		}
	}
	if now := openFDs(t); now > fds+2 {
		t.Errorf("got %d descriptors after %d streams, %d after 5", now, n, fds)
	}
	eventually(t, "all are recorded", func() bool { return len(w.records()) == n })
	for i, r := range w.records() {
		if r.ID != fmt.Sprintf("r%d", i) || r.Tokens != 2 || r.End != stream.Completed || msOf(r.TTFTNS) < 1 || msOf(r.TTFTNS) > 10_000 {
			t.Errorf("record %d: got %s, %d tokens, %s, ttft %v ms", i, r.ID, r.Tokens, r.End, msOf(r.TTFTNS))
		}
	}
	if s := w.p.backends[0].client.Stats(); s.Dials != 1 || s.Retries != 0 {
		t.Errorf("got %d connections to the engine, %d retries, want one for all", s.Dials, s.Retries)
	}
}

// TestMixedOnOneConnection: streams and all else in any order on one connection.
func TestMixedOnOneConnection(t *testing.T) { onBothPaths(t, testMixedOnOneConnection) }

func testMixedOnOneConnection(t *testing.T, on path) {
	broken := sim.Script{Framing: sim.ByItself, Writes: []sim.Write{{Bytes: []byte("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx")}}, End: sim.Drop}
	w := sockets(t, on(Config{}), byTarget(map[string]sim.Script{"/v1/chat/completions": quick, "/broken": broken,
		"/head": {Framing: sim.ByItself, Writes: []sim.Write{{Bytes: []byte("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")}}}}))
	defer w.close()
	k := w.keep()
	defer k.Close()
	kinds := []struct {
		raw, method string
		status      int
		body        string
	}{
		{chat(), "POST", 200, string(bytesOf(quick))},
		{chat("Expect: 100-continue"), "POST", 200, string(bytesOf(quick))},
		{post("/v1/embeddings", `{"input":"x"}`), "POST", 200, `{"ok":true}`},
		{get("/x"), "GET", 200, `{"ok":true}`},
		{"HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD", 200, ""},
		{get("/broken"), "GET", 502, ""},
	}
	r := rand.New(rand.NewPCG(5, 5))
	for i := range 100 {
		c := kinds[r.IntN(len(kinds))]
		k.say(c.raw)
		status, body, closed := k.hear(c.method)
		if status == 100 {
			status, body, closed = k.hear(c.method)
		}
		if status != c.status || closed || c.status == 200 && string(body) != c.body {
			t.Fatalf("request %d, %.30q: got %d %q, closed %v", i, c.raw, status, body, closed)
		}
	}
	k.say(get("/v1/realtime", "Connection: Upgrade", "Upgrade: websocket"))
	if status, _, _ := k.hear("GET"); status != 200 {
		t.Errorf("an upgrade that the engine does not want: got %d", status)
	}
}

// TestPipelined: requests behind a streaming one, sent with it, in parts, or while
// it streams, are answered in their turn; their time begins when they came.
func TestPipelined(t *testing.T) { onBothPaths(t, testPipelined) }

func testPipelined(t *testing.T, on path) {
	large := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", 1<<20) + `"}]}`
	for _, c := range []struct {
		name string
		next string
		cut  int // how much of it comes together with the first request
	}{
		{"whole", chat(), len(chat())},
		{"a part of its header", chat(), 10},
		{"its header", chat(), strings.Index(chat(), "\r\n\r\n") + 4},
		{"none of it", chat(), 0},
		{"a large body", post("/v1/chat/completions", large), 90_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sockets(t, on(Config{}), sim.Always(script(`ROLE@1 | C("a")@10 | C("b")@20 | FIN("stop") U(10,2) D@30`)))
			defer w.close()
			k := w.keep()
			defer k.Close()
			begun := time.Now()
			k.say(chat() + c.next[:c.cut])
			w.wait.Go(func() { _, _ = io.WriteString(k, c.next[c.cut:]) })
			for i := range 2 {
				if status, body, closed := k.hear("POST"); status != 200 || !bytes.HasSuffix(body, []byte("data: [DONE]\n\n")) || closed {
					t.Fatalf("answer %d: got %d …%q, closed %v", i, status, tail(body), closed)
				}
			}
			took := time.Since(begun)
			eventually(t, "both are recorded", func() bool { return len(w.records()) == 2 })
			for i, r := range w.records() {
				if ttft := time.Duration(r.TTFTNS.V); !r.TTFTNS.OK || ttft < 9*time.Millisecond || ttft > took {
					t.Errorf("record %d: got ttft %v, want it within the %v that it took", i, ttft, took)
				}
				if came := -time.Duration(r.RequestReceivedNS.V); !r.RequestReceivedNS.OK || came < 0 || came > took {
					t.Errorf("record %d: received %v before it was sent on (%v), want it within the %v", i, came, r.RequestReceivedNS.OK, took)
				}
			}
			if got := len(w.up.Played()[1].Body); got != len(c.next)-strings.Index(c.next, "\r\n\r\n")-4 {
				t.Errorf("the engine got %d bytes of the second body", got)
			}
			k.say(get("/x"))
			k.hear("GET")
		})
	}
}

// TestClosingClients: a response that is its connection's last says so and ends it.
func TestClosingClients(t *testing.T) { onBothPaths(t, testClosingClients) }

func testClosingClients(t *testing.T, on path) {
	twice := strings.Replace(chat(), "Content-Length:", "Transfer-Encoding: chunked\r\nContent-Length:", 1)
	twice = strings.Replace(twice, chatBody, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(chatBody), chatBody), 1)
	for _, c := range []struct{ name, raw string }{
		{"Connection: close", chat("Connection: close")},
		{"among others", chat("Connection: x-mine, close")},
		{"a length beside chunks", twice},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sockets(t, on(Config{}), sim.Always(quick))
			defer w.close()
			k := w.keep()
			defer k.Close()
			k.say(c.raw)
			if status, body, closed := k.hear("POST"); status != 200 || !bytes.Equal(body, bytesOf(quick)) || !closed {
				t.Errorf("got %d %q, announced as the last: %v", status, body, closed)
			}
			if b, err := io.ReadAll(k.br); len(b) > 0 || err != nil {
				t.Errorf("behind it: got %q, %v, want the connection's end", b, err)
			}
		})
	}
}

// TestBetweenRequests: after a stream a client is held to the same limits as
// after any other answer.
func TestBetweenRequests(t *testing.T) { onBothPaths(t, testBetweenRequests) }

func testBetweenRequests(t *testing.T, on path) {
	after := func(t *testing.T, cfg Config) *keptClient {
		w := sockets(t, on(cfg), sim.Always(quick))
		t.Cleanup(w.close)
		k := w.keep()
		t.Cleanup(func() { _ = k.Close() })
		k.say(chat())
		k.hear("POST")
		return k
	}
	t.Run("silence", func(t *testing.T) {
		k := after(t, Config{ClientIdle: 50 * time.Millisecond})
		if b, err := io.ReadAll(k.br); len(b) > 0 || err != nil {
			t.Errorf("got %q, %v, want the connection's end without a word", b, err)
		}
	})
	t.Run("half a request", func(t *testing.T) {
		k := after(t, Config{ClientRead: 50 * time.Millisecond})
		k.say("GET /x HTTP/1.1\r\nHo")
		if status, _, closed := k.hear("GET"); status != 408 || !closed {
			t.Errorf("got %d, closed %v, want 408 and the connection's end", status, closed)
		}
	})
	t.Run("no request", func(t *testing.T) {
		k := after(t, Config{})
		k.say("SSH-2.0-x\r\n\r\n")
		if status, _, closed := k.hear("GET"); status != 400 || !closed {
			t.Errorf("got %d, closed %v, want 400 and the connection's end", status, closed)
		}
	})
}

// TestShutdownIdleClients: clients between two requests, of which some have had
// streams, do not hold the shutdown up.
func TestShutdownIdleClients(t *testing.T) { onBothPaths(t, testShutdownIdleClients) }

func testShutdownIdleClients(t *testing.T, on path) {
	w := sockets(t, on(Config{}), byTarget(map[string]sim.Script{"/v1/chat/completions": quick}))
	var clients []*keptClient
	for i := range 30 {
		k := w.keep()
		defer k.Close()
		for j := range 1 + i%3 { // the last answer is a stream, or an answer after one
			raw := chat()
			if j == 1 {
				raw = get("/x")
			}
			k.say(raw)
			k.hear(raw[:4])
		}
		clients = append(clients, k)
	}
	eventually(t, "all are over", func() bool {
		w.p.openMu.Lock()
		defer w.p.openMu.Unlock()
		return len(w.p.open) == 0
	})
	begun := time.Now()
	w.close()
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("the shutdown took %v", took)
	}
	for i, k := range clients {
		if b, err := io.ReadAll(k.br); len(b) > 0 || err != nil {
			t.Errorf("client %d: got %q, %v, want its end without a word", i, b, err)
		}
	}
}

// TestShutdownHalfRequest: a client that has begun a request behind a stream, and
// does not go on with it, holds a shutdown for a write's time and not for a read's.
func TestShutdownHalfRequest(t *testing.T) { onBothPaths(t, testShutdownHalfRequest) }

func testShutdownHalfRequest(t *testing.T, on path) {
	w := sockets(t, on(Config{ClientRead: time.Minute, ClientIdle: time.Minute, ClientWrite: time.Second}), sim.Always(quick))
	k := w.keep()
	defer k.Close()
	raw := chat()
	k.say(raw)
	k.hear(raw[:4])
	k.say("PO")
	eventually(t, "it is served again", func() bool { return w.p.data.GetOpenConnectionsCount() == 1 })
	begun := time.Now()
	w.close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the shutdown took %v", took)
	}
}

// TestPolicyOnSockets: streams under a policy that may touch them are tagged and
// cut on sockets as in memory, and a kept client has its next stream.
func TestPolicyOnSockets(t *testing.T) { onBothPaths(t, testPolicyOnSockets) }

func testPolicyOnSockets(t *testing.T, on path) {
	loop := script("")
	loop.Writes = []sim.Write{{At: time.Millisecond, Bytes: looping(confirmed(t, small))}, {At: 5 * time.Millisecond, Bytes: []byte("data: [DONE]\n\n")}}
	for _, action := range []string{"tag", "cut"} {
		t.Run(action, func(t *testing.T) {
			w := sockets(t, on(Config{Limits: small, Policies: policies(t, action)}), sim.Always(loop))
			defer w.close()
			a := w.say(chat())
			if a.err != nil {
				t.Fatal(a.err)
			}
			switch action {
			case "tag":
				if got := a.trailer.Get(loopTrailer); !strings.HasPrefix(got, "confirmed") || !bytes.Equal(a.body, bytesOf(loop)) {
					t.Errorf("got trailer %q and %d bytes, want a verdict and the body as it came", got, len(a.body))
				}
			case "cut":
				if !bytes.HasSuffix(a.body, []byte(chatLast)) {
					t.Errorf("got …%q, want the end that is ours", tail(a.body))
				}
			}
		})
	}
}

// TestSameOnBothPaths: what is recorded and counted of a stream does not depend on
// the way it went.
func TestSameOnBothPaths(t *testing.T) {
	header := func(raw string) sim.Script {
		return sim.Script{Framing: sim.ByItself, Writes: []sim.Write{{Bytes: []byte(raw)}}}
	}
	dies := func(notation string, end sim.Ending) sim.Script {
		sc := script(notation)
		sc.End = end
		return sc
	}
	spread := script(r1)
	for i := range spread.Writes {
		spread.Writes[i].At /= 20
	}
	for _, c := range []struct {
		name string
		sc   sim.Script
		raw  string
	}{
		{"a stream", spread, chat()},
		{"its events cut up", sim.Script{Writes: sim.Split(spread.Writes, 7)}, chat()},
		{"200 tokens in one write", script(strings.Repeat(`C("a") `, 200) + `FIN("stop") U(10,200) D@5`), chat()},
		{"an event of 1 MiB", script(`C("` + strings.Repeat("b", 1<<20) + `")@1 | FIN("stop") U(10,9) D@2`), chat()},
		{"an error in the band", script(`C("a")@1 | ev({"error":{"message":"boom"}}) D@2`), chat()},
		{"no token", script(`D@1`), chat()},
		{"nothing", sim.Script{}, chat()},
		{"no marker", script(`C("a")@1 | FIN("stop")@2`), chat()},
		{"the engine's FIN", dies(`C("a")@1 | C("b")@2`, sim.Drop), chat()},
		{"the engine's RST", dies(`C("a")@1 | C("b")@2`, sim.Reset), chat()},
		{"the engine's silence", dies(`C("a")@1 | C("b")@2`, sim.Hang), chat()},
		{"an error status in chunks", header("HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{\"error\":{\"message\":\"no, sorry\"}}\r\n0\r\n\r\n"), chat()},
		{"malformed framing", header("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\nzz\r\n"), chat()},
		{"trailers", header("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\nX-Sum: 1\r\n\r\n"), chat()},
		{"compressed", header("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\x1f\x8b\x08\x00\r\n0\r\n\r\n"), chat()},
		{"not observed", spread, post("/x", "{}")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var results []any
			for _, noRelay := range []bool{false, true} {
				w := sockets(t, Config{NoRelay: noRelay, BodyIdle: 400 * time.Millisecond}, sim.Always(c.sc))
				a := w.say(c.raw)
				eventually(t, "it is over", func() bool {
					w.p.openMu.Lock()
					defer w.p.openMu.Unlock()
					// The engine's connection is given back behind the record.
					pool := w.p.backends[0].client.Stats()
					return len(w.p.open) == 0 && pool.Open == pool.Idle
				})
				var records []outcome
				for _, r := range w.records() {
					records = append(records, untimed(outcomeOf(r)))
				}
				results = append(results, []any{a.status, string(a.body), a.err != nil, a.header, a.trailer, records, counters(w)})
				w.close()
			}
			if d := cmp.Diff(results[0], results[1], cmp.AllowUnexported(outcome{})); d != "" {
				t.Errorf("by the loop (-) and by goroutines (+):\n%s", d)
			}
		})
	}
}

// untimed is an outcome without what the machine's load decides.
func untimed(o outcome) outcome {
	for _, ms := range []*float64{&o.ttfe, &o.ttft, &o.ttfv, &o.tbt} {
		*ms = min(*ms, 0) // −1 stays null
	}
	o.tbt, o.gaps, o.coalesced = 0, "", 0
	return o
}

// counters are the series that count requests, streams and tokens.
func counters(w *world) (lines []string) {
	w.t.Helper()
	name := w.p.backends[0].name
	for line := range strings.Lines(string(w.ask("/metrics").body)) {
		series, _, _ := strings.Cut(line, "{")
		series, _, _ = strings.Cut(series, " ")
		if !strings.HasPrefix(series, "streamgauge_") || strings.Contains(series, "bucket") || strings.Contains(series, "_sum") || strings.Contains(series, "seconds") {
			continue
		}
		switch series {
		case "streamgauge_coalesced_events_total", "streamgauge_request_tokens_per_second_count":
			continue // what came together: a stream that came at once has no rate
		case "streamgauge_stamps_refused_total":
			continue // of the whole process
		}
		lines = append(lines, strings.ReplaceAll(line, name, "engine"))
	}
	slices.Sort(lines)
	return lines
}

// TestSlowReaderMemory: clients that do not read cost a bounded amount each, and
// their engines wait.
func TestSlowReaderMemory(t *testing.T) { onBothPaths(t, testSlowReaderMemory) }

func testSlowReaderMemory(t *testing.T, on path) {
	const n, piece = 16, 64 << 10
	shared := bytes.Repeat([]byte("x"), piece)
	sc := sim.Script{Header: []string{"Content-Type: text/plain"}, End: sim.Hang}
	for range 512 {
		sc.Writes = append(sc.Writes, sim.Write{Bytes: shared})
	}
	w := sockets(t, on(Config{}), sim.Always(sc))
	defer w.close()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for range n {
		k := w.keep()
		defer k.Close()
		k.say(get("/x"))
	}
	stuck := func() (wrote int) {
		for _, p := range w.up.Played() {
			wrote += len(p.Wrote)
		}
		return wrote
	}
	eventually(t, "all are being answered", func() bool { return stuck() >= n })
	last := time.Now()
	wrote := stuck()
	eventually(t, "the engines wait", func() bool {
		if now := stuck(); now != wrote {
			wrote, last = now, time.Now()
		}
		return time.Since(last) > 300*time.Millisecond
	})
	if wrote == n*len(sc.Writes) {
		t.Fatal("all was taken: nobody was slow")
	}
	// The upstream that plays is in this process too, with a piece in its hands.
	per := (heap() - before) / n
	t.Logf("%d KiB a slow reader", per>>10)
	if limit := int64(4*piece + 256<<10); per > limit {
		t.Errorf("got %d bytes a slow reader, want at most %d", per, limit)
	}
}

// TestStoppedAtOnce: an exchange is stopped while its loop is still setting it up.
func TestStoppedAtOnce(t *testing.T) {
	w := sockets(t, Config{}, sim.Always(sim.Script{Writes: []sim.Write{{At: time.Hour}}}))
	defer w.close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			w.p.openMu.Lock()
			for x := range w.p.open {
				if x.halt.cause() == nil {
					x.stop(errDrained)
				}
			}
			w.p.openMu.Unlock()
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	for i := range 50 {
		k := w.keep()
		_ = k.SetDeadline(time.Now().Add(5 * time.Second))
		k.say(chat())
		if _, err := io.ReadAll(k.br); err != nil {
			t.Fatalf("request %d was not ended: %v", i, err)
		}
		_ = k.Close()
	}
}
