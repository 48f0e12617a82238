package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// against runs one script on an engine without a proxy between.
func against(t *testing.T, s script, how conduct) (*tally, error) {
	t.Helper()
	tl := newTally()
	e, err := newEngine(tl, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c := client{addr: e.addr(), tally: tl}
	err = c.do(t.Context(), s, how)
	if c.c != nil && (s.Fault != "" || how.leave > 0) {
		t.Error("the connection is kept after a fault")
	}
	c.hangUp()
	e.close() // waits for what the engine has still to notice
	return tl, err
}

func TestEngineAndClient(t *testing.T) {
	short := script{ID: 1, Events: 6, Text: 20, Every: time.Microsecond}
	with := func(f func(*script)) script {
		s := short
		f(&s)
		return s
	}
	dies := func(f fault) script { return with(func(s *script) { s.Fault, s.At = f, 3 }) }
	for _, tc := range []struct {
		name string
		s    script
		how  conduct
		want string // of the error; "": none
	}{
		{"a stream", short, conduct{}, ""},
		{"an answer", with(func(s *script) { s.Whole = true }), conduct{}, ""},
		{"large ones", with(func(s *script) { s.Prompt, s.Text = 1<<20, 1<<20 }), conduct{}, ""},
		{"a loop", with(func(s *script) { s.Loop = 2 }), conduct{}, ""},
		{"a slow reader", short, conduct{slow: time.Millisecond}, ""},
		{"an engine that closes, expected", dies(cut), conduct{broken: true}, ""},
		{"an engine that resets, expected", dies(reset), conduct{broken: true}, ""},
		{"an engine that closes", dies(cut), conduct{}, "unexpected EOF"},
		{"an engine that resets", dies(reset), conduct{}, "after"},
		{"a whole body that was to break", short, conduct{broken: true}, "a clean end"},
		{"another status", short, conduct{status: http.StatusGatewayTimeout}, "status 200, want 504"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tl, err := against(t, tc.s, tc.how)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if len(tl.faults) > 0 {
				t.Errorf("faults: %v", tl.first)
			}
		})
	}
}

// A client that leaves, whenever it does, is no fault.
func TestLeaving(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault fault
		how   conduct
	}{
		{"while tokens flow", "", conduct{leave: 20 * time.Millisecond}},
		{"by a reset", "", conduct{leave: 20 * time.Millisecond, abrupt: true}},
		{"in a silence", quiet, conduct{leave: 20 * time.Millisecond, broken: true}},
		{"before an answer", mute, conduct{leave: 20 * time.Millisecond}},
		{"at once", "", conduct{leave: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tl, err := against(t, script{ID: 4, Events: 1 << 20, Text: 9, Every: time.Millisecond, Fault: tc.fault, At: 2}, tc.how)
			if err != nil || len(tl.faults) > 0 {
				t.Errorf("error %v, faults %v; want none", err, tl.first)
			}
		})
	}
}

// The engine knows how soon it was left.
func TestEngineIsLeft(t *testing.T) {
	for _, f := range []fault{"", quiet, mute} {
		tl := newTally()
		e, err := newEngine(tl, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		c := client{addr: e.addr(), tally: tl}
		if err := c.dial(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.ask(script{ID: 4, Events: 1 << 20, Text: 9, Every: time.Millisecond, Fault: f, At: 2}); err != nil {
			t.Fatal(err)
		}
		tick := time.NewTicker(time.Millisecond)
		until := func(what string, ok func() bool) {
			for limit := time.After(10 * time.Second); !ok(); {
				select {
				case <-tick.C:
				case <-limit:
					t.Fatalf("fault %q: not %s within 10 s", f, what)
				}
			}
		}
		until("asked", func() bool { return e.open.Load() == 1 })
		tl.leaving(4)
		c.hangUp()
		until("left", func() bool { return e.open.Load() == 0 })
		if len(tl.aborts) != 1 {
			t.Errorf("fault %q: %d aborts, want 1", f, len(tl.aborts))
		}
		tick.Stop()
		e.close()
	}
}

// Streams that are held are open together, and whole once they may finish.
func TestHold(t *testing.T) {
	tl := newTally()
	e, err := newEngine(tl, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	const n = 8
	release := e.hold()
	go func() {
		defer release()
		awaitOpen(t.Context(), e, n)
	}()
	if err := openAll(t.Context(), &proxy{addr: e.addr()}, tl, 1, n, time.Microsecond, 3); err != nil {
		t.Fatal(err)
	}
	if got := e.most.Load(); got != n || tl.done() != n {
		t.Errorf("%d open at once, %d whole, want %d; faults %v", got, tl.done(), n, tl.first)
	}
}

// An upstream that is left while its client is there, or goes on when it is not,
// is a fault.
func TestAborts(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		name string
		f    func(*tally)
		want string
	}{
		{"left without its client", func(tl *tally) { tl.aborted(script{ID: 1}, now) }, "its client was there"},
		{"left late", func(tl *tally) {
			tl.leaving(1)
			tl.aborted(script{ID: 1}, tl.left[1].Add(lost+1))
		}, "after its client"},
		{"went on", func(tl *tally) {
			tl.leaving(1)
			tl.ranOn(script{ID: 1}, tl.left[1].Add(lost+1))
		}, "it ran on"},
		{"left in time", func(tl *tally) {
			tl.leaving(1)
			tl.aborted(script{ID: 1}, tl.left[1].Add(lost))
		}, ""},
		{"a silence that the proxy ended", func(tl *tally) { tl.aborted(script{ID: 1, Fault: quiet}, now) }, ""},
	} {
		tl := newTally()
		tc.f(tl)
		var b bytes.Buffer
		if n := tl.print(&b); (n > 0) != (tc.want != "") || !strings.Contains(b.String(), tc.want) {
			t.Errorf("%s: %d faults, want %q:\n%s", tc.name, n, tc.want, b.String())
		}
	}
}

// serveRaw answers one request with these bytes and closes.
func serveRaw(t *testing.T, answer string) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(c, answer)
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String()
}

// The client sees what a proxy must not do.
func TestClientSees(t *testing.T) {
	s := script{ID: 5, Events: 3, Text: 12}
	whole := string(s.stream())
	chunked := func(body string, end string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%s", len(body), body, end)
	}
	for _, tc := range []struct {
		name, answer string
		how          conduct
		want         string
	}{
		{"nothing wrong", chunked(whole, "0\r\n\r\n"), conduct{}, ""},
		{"a letter changed", chunked(strings.Replace(whole, "soak", "soap", 1), "0\r\n\r\n"), conduct{}, "instead of"},
		{"a byte added", chunked(whole+"\n", "0\r\n\r\n"), conduct{}, "past the end"},
		{"the end marker lost", chunked(strings.TrimSuffix(whole, "data: [DONE]\n\n"), "0\r\n\r\n"), conduct{}, "before the end"},
		{"a cut ended cleanly", chunked(whole[:90], "0\r\n\r\n"), conduct{broken: true}, "a clean end"},
		{"a cut with wrong bytes", chunked(whole[1:90], ""), conduct{broken: true}, "instead of"},
		{"a refusal", "HTTP/1.1 502 Bad Gateway\r\nX-Streamgauge-Error: closed\r\nContent-Length: 0\r\n\r\n", conduct{}, "status 502 (closed)"},
		{"nothing", "", conduct{}, "no answer"},
		{"wrong bytes before it left", chunked(whole[1:], ""), conduct{leave: time.Hour}, "instead of"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := client{addr: serveRaw(t, tc.answer), tally: newTally()}
			defer c.hangUp()
			err := c.do(t.Context(), s, tc.how)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
