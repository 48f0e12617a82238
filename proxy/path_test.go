package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
	"github.com/streamgauge/streamgauge/wire"
)

// TestNothingMerges: on sockets no more events come together through the proxy
// than on the direct path, and 2 %. (In virtual time, TestR22, none do.)
func TestNothingMerges(t *testing.T) { onBothPaths(t, testNothingMerges) }

func testNothingMerges(t *testing.T, on path) {
	sc := script(`C("a") x250 every 2 from 2 | FIN("stop") D@501`)
	w := sockets(t, on(Config{}), sim.Always(sc))
	defer w.close()
	merged := func(a answer) (n int) {
		if !bytes.Equal(a.body, bytesOf(sc)) {
			t.Fatalf("got %d bytes, want %d", len(a.body), len(bytesOf(sc)))
		}
		for _, p := range a.pieces {
			n += max(bytes.Count(p.bytes, []byte("data: "))-1, 0)
		}
		return n
	}
	// On a busy machine the upstream itself writes late, and then two at once:
	// a round counts when it was quiet enough to tell.
	const rounds, events = 5, 252
	for range rounds {
		through := merged(w.say(chat()))
		c, err := net.Dial("tcp", w.up.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		direct := merged(hear(t, c, bufio.NewReaderSize(c, 64<<10), chat()))
		_ = c.Close()
		t.Logf("of %d events merged: %d direct, %d through the proxy", events, direct, through)
		if through <= direct+events*2/100 {
			return
		}
	}
	t.Errorf("in none of %d rounds the proxy merged as few events as the direct path and 2 %%", rounds)
}

// feed is a tap over a scripted body, without a server: what the token path is
// between two writes.
func feed(tb testing.TB, events int) (*tap, func()) {
	tb.Helper()
	body := &endlessConn{}
	p, err := New(Config{Upstreams: []string{"http://engine:80"}, ModelsEvery: -1, Models: []string{"m"}}, zerolog.Nop())
	if err != nil {
		tb.Fatal(err)
	}
	body.event = []byte(fmt.Sprintf("%x\r\n%s\r\n", len(tokenEvent), tokenEvent))
	client := &upstream.Client{Addr: "engine:80", Dialer: stamp.Dialer{Dial: body.dial}}
	x := &exchange{p: p, route: "chat", backend: p.backends[0], received: stamp.Now()}
	p.admit(x)
	x.backend.open.Add(1)
	x.obs = p.newObserver("id", "chat", &engineName, wire.Chat)
	x.obs.learn([]byte(chatBody))
	if x.resp, err = client.Do(x.halt.context(), &upstream.Request{Method: "POST", Target: []byte("/v1/chat/completions"), Body: []byte("{}")}); err != nil {
		tb.Fatal(err)
	}
	x.obs.answered(&x.resp.Head, x.received)
	t := &tap{x: x}
	buf := make([]byte, 4096)
	for range events {
		if _, err := t.Read(buf); err != nil {
			tb.Fatal(err)
		}
	}
	return t, func() {
		_ = t.CloseWithError(io.ErrClosedPipe)
		client.CloseIdle()
		if err := p.Shutdown(tb.Context()); err != nil {
			tb.Error(err)
		}
	}
}

const tokenEvent = `data: {"id":"chatcmpl-6e2a","object":"chat.completion.chunk","created":1760000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

// endlessConn answers any request with a header and then gives one chunk a read.
type endlessConn struct {
	net.Conn
	event []byte
	begun bool
}

func (c *endlessConn) dial(context.Context, string, string) (net.Conn, error) { return c, nil }
func (c *endlessConn) Write(p []byte) (int, error)                            { return len(p), nil }
func (c *endlessConn) Close() error                                           { return nil }
func (c *endlessConn) SetReadDeadline(time.Time) error                        { return nil }
func (c *endlessConn) SetWriteDeadline(time.Time) error                       { return nil }
func (c *endlessConn) SetDeadline(time.Time) error                            { return nil }
func (c *endlessConn) Read(p []byte) (int, error) {
	if !c.begun {
		c.begun = true
		return copy(p, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"), nil
	}
	return copy(p, c.event), nil
}

// TestTokenPathAllocations: in steady state a token costs no allocation in the
// tap, the meter and the metrics together. What is left is the log's growth.
func TestTokenPathAllocations(t *testing.T) {
	tap, done := feed(t, 5000)
	defer done()
	buf := make([]byte, 4096)
	got := testing.AllocsPerRun(2000, func() {
		if _, err := tap.Read(buf); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations a token, want 0", got)
	}
}

// BenchmarkTap is the whole token path but for the two sockets. The model's
// text repeats, which is the detector's worst case.
func BenchmarkTap(b *testing.B) {
	tap, done := feed(b, 100)
	defer done()
	buf := make([]byte, 4096)
	b.SetBytes(int64(len(tokenEvent)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tap.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTapUnobserved is the same for a body that is not metered.
func BenchmarkTapUnobserved(b *testing.B) {
	tap, done := feed(b, 100)
	defer done()
	obs := tap.x.obs
	tap.x.obs = nil
	defer func() { tap.x.obs = obs }()
	buf := make([]byte, 4096)
	b.SetBytes(int64(len(tokenEvent)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tap.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}
