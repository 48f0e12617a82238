package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

// size is n, or full with STREAMGAUGE_CHAOS set (make chaos).
func size(n, full int) int {
	if os.Getenv("STREAMGAUGE_CHAOS") != "" {
		return full
	}
	return n
}

// crowd runs f n times, some at once.
func crowd(n, at int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				f(i)
			}
		})
	}
	wg.Wait()
}

// TestChaosClients kills clients at random moments: no upstream stream, file or
// goroutine may stay.
func TestChaosClients(t *testing.T) { onBothPaths(t, testChaosClients) }

func testChaosClients(t *testing.T, on path) {
	w := sockets(t, on(Config{}), sim.Always(endless(3)))
	defer w.close()
	kill := func(i int) {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		c, err := w.dial()
		if err != nil {
			t.Error(err)
			return
		}
		raw := chat()
		if r.IntN(4) == 0 {
			raw = raw[:r.IntN(len(raw))]
		}
		if _, err := io.WriteString(c, raw); err != nil {
			t.Error(err)
		}
		<-time.After(time.Duration(r.IntN(20)) * time.Millisecond)
		if r.IntN(2) == 0 {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
	}
	open := func() int {
		w.p.openMu.Lock()
		defer w.p.openMu.Unlock()
		return len(w.p.open)
	}
	crowd(50, 16, kill)
	eventually(t, "the first are over", func() bool { return open() == 0 })
	fds, routines := openFDs(t), runtime.NumGoroutine()
	n := size(400, 2000)
	crowd(n, 16, kill)
	eventually(t, "no request is open", func() bool { return open() == 0 })
	eventually(t, "no upstream stream is left", func() bool {
		left := 0
		for _, p := range w.up.Played() {
			if p.Gone.IsZero() && p.Err == nil {
				left++
			}
		}
		return left == 0
	})
	settles(t, n, fds, routines)
	for _, r := range w.records() {
		if r.End != stream.ClientGone {
			t.Errorf("a record says %s(%s), want client_gone", r.End, r.Reason)
		}
	}
}

// TestChaosUpstream kills the upstream at random moments: each body is broken,
// none ends cleanly.
func TestChaosUpstream(t *testing.T) { onBothPaths(t, testChaosUpstream) }

func testChaosUpstream(t *testing.T, on path) {
	n := size(100, 500)
	w := sockets(t, on(Config{}), func(i int, _ *sim.Played) sim.Script {
		r := rand.New(rand.NewPCG(2, uint64(i)))
		sc := script(fmt.Sprintf(`C("a") x%d every 1 from 1`, 1+r.IntN(20)))
		sc.End = []sim.Ending{sim.Drop, sim.Reset}[r.IntN(2)]
		sc.Framing = []sim.Framing{sim.ByChunks, sim.ByLength}[r.IntN(2)]
		sc.Length = 1 << 20
		return sc
	})
	defer w.close()
	var clean atomic.Int64
	crowd(n, 16, func(i int) {
		raw := chat()
		if i%5 == 0 {
			raw = strings.Replace(raw, "HTTP/1.1", "HTTP/1.0", 1)
		}
		if a := w.say(raw); a.err == nil {
			clean.Add(1)
			t.Logf("clean: %.200q", a.raw)
		}
	})
	if clean.Load() != 0 {
		t.Errorf("%d of %d dead upstreams look like clean ends", clean.Load(), n)
	}
	eventually(t, "all records are there", func() bool { return len(w.records()) == n })
}

// TestChaosStale sends requests to upstreams that close idle connections after
// 200 ms, at about the moment at which they do: no client sees that. Each of the
// proxies has one client, so that its only connection is the one that goes stale.
func TestChaosStale(t *testing.T) {
	n := size(400, 10_000)
	const at = 40
	var failed, dials, retries atomic.Int64
	crowd(at, at, func(i int) {
		w := sockets(t, Config{}, sim.Always(sim.Script{Framing: sim.ByLength, Idle: 200 * time.Millisecond, Writes: []sim.Write{{Bytes: []byte("ok")}}}))
		defer w.close()
		r := rand.New(rand.NewPCG(3, uint64(i)))
		c, err := w.dial()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		br := bufio.NewReaderSize(c, 64<<10)
		for range n / at {
			<-time.After(195*time.Millisecond + time.Duration(r.IntN(10_000))*time.Microsecond)
			a := hear(t, c, br, post("/v1/embeddings", `{"input":"x"}`))
			if a.status != 200 || a.err != nil || string(a.body) != "ok" {
				failed.Add(1)
				t.Logf("got %d %q (%v)", a.status, a.header.Get(errorHeader), a.err)
				return
			}
		}
		s := w.p.backends[0].client.Stats()
		dials.Add(s.Dials)
		retries.Add(s.Retries)
	})
	if failed.Load() != 0 {
		t.Errorf("%d of %d clients saw an error", failed.Load(), at)
	}
	t.Logf("%d requests, %d connections to the upstreams, %d sent a second time", n, dials.Load(), retries.Load())
	if dials.Load() <= at {
		t.Error("no connection went stale: nothing was tested")
	}
}

// TestGiantLine: a line without an end is forwarded, and not kept.
func TestGiantLine(t *testing.T) {
	n := size(20<<20, 100<<20)
	sc := sim.Script{Framing: sim.ByLength, Header: []string{"Content-Type: text/event-stream"},
		Writes: []sim.Write{{Bytes: append([]byte("data: {\"choices\":[{\"delta\":{\"content\":\""), bytes.Repeat([]byte("x"), n)...)}}}
	w := sockets(t, Config{}, sim.Always(sc))
	defer w.close()
	if a := w.say(chat()); a.err != nil || !bytes.Equal(a.body, bytesOf(sc)) {
		t.Errorf("got %d bytes (%v), want %d", len(a.body), a.err, n)
	}
	eventually(t, "it is counted", func() bool { return w.metric(`streamgauge_blind_streams_total{reason="event_size"}`) == "1" })
}

// TestSlowloris: a client that does not finish its request in time is told so
// and dropped, whether it lacks the header or the body.
func TestSlowloris(t *testing.T) {
	for _, c := range []struct {
		name, sent string
		buffer     int
	}{
		{"in the header", "GET / HTTP/1.1\r\nHost: a\r\nX", 0},
		{"in a streamed body", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", 5},
		{"in the body", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sockets(t, Config{ClientRead: 50 * time.Millisecond, BufferBody: c.buffer}, sim.Always(sim.Script{}))
			defer w.close()
			a := w.say(c.sent)
			if a.status != 408 || a.header.Get(errorHeader) != "client_read" || !a.closed {
				t.Errorf("got %d %q (%v), want 408 client_read and the connection's end", a.status, a.header.Get(errorHeader), a.err)
			}
		})
	}
	t.Run("a header without an end", func(t *testing.T) {
		w := sockets(t, Config{}, sim.Always(sim.Script{}))
		defer w.close()
		c, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n")
			for range 10_000 {
				if _, err := io.WriteString(c, "X-Header: 1234567890\r\n"); err != nil {
					return
				}
			}
		}()
		a := listen(bufio.NewReader(c), "GET")
		if a.err == nil && (a.status != 431 || a.header.Get(errorHeader) != "header_too_large") {
			t.Errorf("got %d %q, want 431 header_too_large", a.status, a.header.Get(errorHeader))
		}
	})
}
