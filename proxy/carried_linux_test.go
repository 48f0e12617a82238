//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package proxy

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/wire"
)

// TestWhoIsCarried: streams in chunks to clients that know them, over plain TCP and
// under no policy that acts; everything else goes the ordinary way, which makes
// chunks of its own.
func TestWhoIsCarried(t *testing.T) {
	ca := newAuthority(t)
	const head, chunk = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n", "000E\r\ndata: [DONE]\n\n\r\n"
	trickles := []sim.Write{{Bytes: []byte(head)}, {At: 2 * time.Millisecond, Bytes: []byte(chunk)}, {At: 4 * time.Millisecond, Bytes: []byte("0\r\n\r\n")}}
	atOnce := []sim.Write{{Bytes: []byte(head + chunk + "0\r\n\r\n")}}
	for _, c := range []struct {
		name string
		cfg  Config
		sent []sim.Write
		raw  string
		want bool
	}{
		{"a stream", Config{}, trickles, chat(), true},
		{"one that is not observed", Config{}, trickles, get("/x"), true},
		{"under the policy to observe", Config{Policies: policies(t, "observe")}, trickles, chat(), true},
		{"under a policy for others", Config{Policies: policies(t, "cut:model=other")}, trickles, chat(), true},
		{"with user stamps", Config{UserStamps: true}, trickles, chat(), true},
		{"switched off", Config{NoRelay: true}, trickles, chat(), false},
		{"under the policy to tag", Config{Policies: policies(t, "tag")}, trickles, chat(), false},
		{"under the policy to cut", Config{Policies: policies(t, "cut")}, trickles, chat(), false},
		{"an HTTP/1.0 client", Config{}, trickles, strings.Replace(chat(), "HTTP/1.1", "HTTP/1.0", 1), false},
		{"whole with its header", Config{}, atOnce, chat(), true},
		{"whole with its header, by a request that is not plain", Config{}, atOnce, chat("Te: trailers"), false},
		{"by a request that is not plain", Config{}, trickles, chat("Te: trailers"), true},
		{"TLS", Config{TLS: ca.server("data")}, trickles, chat(), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sockets(t, c.cfg, sim.Always(sim.Script{Framing: sim.ByItself, Writes: c.sent}))
			defer w.close()
			if c.cfg.TLS != nil {
				w.secure(&tls.Config{RootCAs: ca.pool, ServerName: "127.0.0.1"})
			}
			a := w.say(c.raw)
			if a.err != nil || string(a.body) != "data: [DONE]\n\n" {
				t.Fatalf("got %q, %v", a.body, a.err)
			}
			if got := bytes.Contains(a.raw, []byte("000E\r\n")); got != c.want {
				t.Errorf("carried: %v, want %v:\n%q", got, c.want, a.raw)
			}
		})
	}
}

// TestCarriedVerbatim: of a carried response the order of the fields and the
// framing of the body are the engine's own too.
func TestCarriedVerbatim(t *testing.T) {
	const head = "HTTP/1.1 200 Fine\r\nx-first: 1\r\nSet-Cookie: a=1\r\ncontent-TYPE: text/event-stream\r\nServer: one\r\nServer: two\r\nX-Empty:\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
	const body = "5;a=b\r\nhello\r\n00A\r\n0123456789\r\n0;last\r\nX-Sum: 7\r\nx-more: 8\r\n\r\n"
	w := sockets(t, Config{}, sim.Always(sim.Script{Framing: sim.ByItself, Writes: []sim.Write{
		{Bytes: []byte(head + "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\n\r\n")},
		{At: 5 * time.Millisecond, Bytes: []byte(body[:20])}, {At: 10 * time.Millisecond, Bytes: []byte(body[20:])}}}))
	defer w.close()
	k := w.keep()
	defer k.Close()
	want := strings.Replace(head, "X-Empty:", "X-Empty: ", 1) + "Transfer-Encoding: chunked\r\n\r\n" + body
	k.say(get("/x"))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(k.br, got); string(got) != want {
		t.Errorf("got\n%q (%v), want\n%q", got[:n], err, want)
	}
	k.say("CONNECT x:1 HTTP/1.1\r\nHost: a\r\n\r\n")
	if status, _, _ := k.hear("CONNECT"); status != 405 {
		t.Errorf("behind it: got %d, want the answer to the next request", status)
	}
}

// TestForbiddenTrailers: what a trailer must not hold does not pass in one.
func TestForbiddenTrailers(t *testing.T) { onBothPaths(t, testForbiddenTrailers) }

func testForbiddenTrailers(t *testing.T, on path) {
	raw := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 5\r\nX-Sum: 7\r\nTransfer-Encoding: gzip\r\nAuthorization: x\r\nHost: y\r\n\r\n"
	w := sockets(t, on(Config{}), sim.Always(sim.Script{Framing: sim.ByItself, Writes: []sim.Write{{Bytes: []byte(raw)}}}))
	defer w.close()
	k := w.keep()
	defer k.Close()
	want := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n"
	k.say(get("/x"))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(k.br, got); string(got) != want {
		t.Errorf("got\n%q (%v), want\n%q", got[:n], err, want)
	}
}

// TestDeathBehindTheLastChunk: an engine that dies between its last chunk and the
// body's end leaves a broken body, also to clients that are content with that chunk.
func TestDeathBehindTheLastChunk(t *testing.T) { onBothPaths(t, testDeathBehindTheLastChunk) }

func testDeathBehindTheLastChunk(t *testing.T, on path) {
	for _, end := range []string{"0\r\n", "0\r\nX-Sum: 7\r\n", "0\r\n\r"} {
		w := sockets(t, on(Config{}), sim.Always(sim.Script{Framing: sim.ByItself, End: sim.Drop, Writes: []sim.Write{
			{Bytes: []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")},
			{At: 20 * time.Millisecond, Bytes: []byte(end)},
			{At: 40 * time.Millisecond},
		}}))
		c, br := openStream(t, w, get("/x"), 0)
		got, err := io.ReadAll(br)
		if err == nil && bytes.Contains(got, []byte("\r\n0\r\n")) {
			t.Errorf("%q: got %q and a clean end of the connection", end, got)
		}
		_ = c.Close()
		w.close()
	}
}

// TestPanicInCarriedMetering: a panic in one stream's metering touches neither
// that stream's bytes nor the loop's other streams.
func TestPanicInCarriedMetering(t *testing.T) {
	w := sockets(t, Config{}, sim.Always(quick))
	defer w.close()
	w.p.openMu.Lock() // each request takes it before it looks at the options
	w.p.options.Text = func(wire.Channel, int, []byte) { panic("secret of the prompt") }
	w.p.openMu.Unlock()
	k := w.keep()
	defer k.Close()
	for range 3 {
		k.say(chat())
		if status, body, closed := k.hear("POST"); status != 200 || !bytes.Equal(body, bytesOf(quick)) || closed {
			t.Errorf("got %d %q, closed %v, want the whole stream", status, body, closed)
		}
	}
	eventually(t, "they are counted", func() bool { return w.metric("streamgauge_panics_total") == "3" })
	if strings.Contains(w.logs.String(), "secret") {
		t.Errorf("the panic's value is in the log: %s", w.logs)
	}
}

// TestManyCarried: the streams of many clients at once, each with its own text.
func TestManyCarried(t *testing.T) {
	w := sockets(t, Config{}, func(_ int, p *sim.Played) sim.Script {
		who := p.Header.Get("X-Who")
		return script(fmt.Sprintf(`C("%s ") x20 every 5 from 5 | FIN("stop") D@101`, who))
	})
	defer w.close()
	crowd(200, 100, func(i int) {
		a := w.say(chat(fmt.Sprintf("X-Who: client %d", i)))
		want := bytesOf(script(fmt.Sprintf(`C("client %d ") x20 every 5 from 5 | FIN("stop") D@101`, i)))
		if a.err != nil || !bytes.Equal(a.body, want) {
			t.Errorf("client %d: got %d bytes (%v), want its %d", i, len(a.body), a.err, len(want))
		}
	})
}

// TestFactsDoNotHoldTheLoop: a request's body whose scan is still going on when the
// first token comes holds up the metrics of its own stream, not the other streams.
func TestFactsDoNotHoldTheLoop(t *testing.T) {
	first := make(chan struct{})
	w := sockets(t, Config{}, func(_ int, p *sim.Played) sim.Script {
		if p.Header.Get("X-First") == "" {
			return endless(5)
		}
		<-first
		return script(`C("a")@50 | FIN("stop") D@60`)
	})
	defer w.close()
	scanned := make(chan answer, 1)
	go func() { scanned <- w.say(chat("X-First: 1")) }()
	var o *observer
	eventually(t, "its request is observed", func() bool {
		w.p.openMu.Lock()
		defer w.p.openMu.Unlock()
		for x := range w.p.open {
			o = x.shown.Load()
		}
		return o != nil
	})
	o.facts.Add(1)
	model := o.model.Swap(nil)
	o.blind.Store(false) // which the metering reads: Add comes before its Wait
	close(first)
	c, br := openStream(t, w, chat(), 0)
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.CopyN(io.Discard, br, 5000); err != nil {
		t.Errorf("another stream: %v", err)
	}
	o.model.Store(model)
	o.facts.Done()
	if a := <-scanned; a.err != nil {
		t.Errorf("the stream itself: %v", a.err)
	}
}
