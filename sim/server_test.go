package sim

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"
)

func TestFlushCache(t *testing.T) {
	p := plain()
	p.Dialect = SGLang
	inBubble(t, p, Options{}, func(b *bench) {
		b.do("POST", "/v1/chat/completions", chatBody(p, 1000, 1, "a", ""), nil)
		go b.do("POST", "/v1/chat/completions", chatBody(p, 500, 10, "b", ""), nil)
		<-time.After(time.Millisecond)
		if a := b.do("GET", "/flush_cache", "", nil); a.status != 400 {
			t.Errorf("while a request runs: %d, want 400", a.status)
		}
		<-time.After(time.Second)
		if a := b.do("GET", "/flush_cache", "", nil); a.status != 200 {
			t.Errorf("idle: %d, want 200", a.status)
		}
		b.do("POST", "/v1/chat/completions", chatBody(p, 1000, 1, "a", ""), nil)
		rs := b.srv.Truth().Requests()
		if got := rs[len(rs)-1].Cached; got != 0 {
			t.Errorf("%d tokens cached after a flush", got)
		}
	})
}

func TestClientGoneFreesItsSlot(t *testing.T) {
	p := plain()
	p.Speed.TBT = NewSurface([]Sample{{Time: time.Second}})
	inBubble(t, p, Options{}, func(b *bench) {
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), func(event) bool { return true })
		synctest.Wait()
		if st := b.srv.sched.status(); st.running != 0 {
			t.Errorf("%d running after the client left, want 0", st.running)
		}
		r := b.srv.Truth().Requests()[0]
		if r.End != ClientGone || r.Ended != 50*time.Millisecond {
			t.Errorf("end %q at %v, want %q at the first token, 50ms", r.End, r.Ended, ClientGone)
		}
	})
}

func TestLingerUnlessAborted(t *testing.T) {
	p := plain()
	p.Dialect, p.Linger = SGLang, 20*time.Second
	leave := func(event) bool { return true }
	inBubble(t, p, Options{}, func(b *bench) {
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 5000, "a", `,"rid":"r1"`), leave)
		<-time.After(19 * time.Second)
		if st := b.srv.sched.status(); st.running != 1 {
			t.Errorf("%d running 19 s after the client left, want 1", st.running)
		}
		<-time.After(2 * time.Second)
		if st := b.srv.sched.status(); st.running != 0 {
			t.Errorf("%d running 21 s after the client left, want 0", st.running)
		}
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 5000, "b", `,"rid":"r2"`), leave)
		if a := b.do("POST", "/abort_request", `{"rid":"r2"}`, nil); a.status != 200 {
			t.Errorf("abort: status %d", a.status)
		}
		if st := b.srv.sched.status(); st.running != 0 {
			t.Errorf("%d running after the abort, want 0", st.running)
		}
	})
}

func TestAbortFinishesAnOpenStream(t *testing.T) {
	p := plain()
	p.Dialect = SGLang
	inBubble(t, p, Options{}, func(b *bench) {
		go func() {
			<-time.After(100 * time.Millisecond)
			b.do("POST", "/abort_request", `{"rid":"r1"}`, nil)
		}()
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 50, 5000, "a", `,"rid":"r1"`), nil)
		if a.err != nil || len(a.events) < 2 {
			t.Fatalf("%d events, error %v", len(a.events), a.err)
		}
		c := parseEvent(t, a.events[len(a.events)-2])
		if r := c.Choices[0].FinishReason; r == nil || *r != "abort" || a.events[len(a.events)-1].data != "[DONE]" {
			t.Errorf("last events %v", a.events[len(a.events)-2:])
		}
	})
}

func TestFaults(t *testing.T) {
	p := plain()
	fault := func(f Fault) Options { return Options{Fault: func(Request) *Fault { return &f }} }
	inBubble(t, p, fault(Fault{After: 3, Kind: ErrorEvent, Message: "boom"}), func(b *bench) {
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), nil)
		n := len(a.events)
		if a.err != nil || n != 6 || parseEvent(t, a.events[n-2]).Error == nil || a.events[n-1].data != "[DONE]" {
			t.Errorf("role, 3 tokens, error and [DONE] expected, got %d events, error %v", n, a.err)
		}
	})
	inBubble(t, p, fault(Fault{After: 3, Kind: Cut}), func(b *bench) {
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), nil)
		if a.err == nil || len(a.events) != 4 {
			t.Errorf("%d events, error %v; want role, 3 tokens and a cut", len(a.events), a.err)
		}
	})
	inBubble(t, p, fault(Fault{After: 3, Kind: Silence}), func(b *bench) {
		c, err := b.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		a := exchange(c, "POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), nil)
		c.Close()
		if timeout, ok := a.err.(interface{ Timeout() bool }); !ok || !timeout.Timeout() || len(a.events) != 4 {
			t.Errorf("%d events, error %v; want role, 3 tokens and a minute of silence", len(a.events), a.err)
		}
	})
}

func TestTCP(t *testing.T) {
	p := plain()
	p.Speed.TBT = NewSurface([]Sample{{Time: time.Minute}})
	srv := New(p, Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a := exchange(c, "POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), func(e event) bool { return strings.Contains(e.data, `"content":" `) })
	if a.err != nil {
		t.Fatal(a.err)
	}
	c.Close()
	left := time.Since(srv.Truth().Start)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := srv.Truth().Idle(ctx); err != nil {
		t.Error(err)
	}
	if r := srv.Truth().Requests()[0]; r.End != ClientGone || r.Ended-left > 50*time.Millisecond {
		t.Errorf("end %q %v after the client left, want %q within 50ms", r.End, r.Ended-left, ClientGone)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestKeepAlive(t *testing.T) {
	inBubble(t, plain(), Options{}, func(b *bench) {
		c, err := b.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i := range 3 {
			a := exchange(c, "POST", "/v1/chat/completions", chatBody(plain(), 50, 3, "a", ""), nil)
			if a.err != nil || a.status != 200 || len(a.events) != 5 {
				t.Fatalf("request %d: status %d, %d events, error %v", i, a.status, len(a.events), a.err)
			}
		}
	})
}

func TestLlamaClosesUnannounced(t *testing.T) {
	p := plain()
	p.Dialect = LlamaCPP
	inBubble(t, p, Options{}, func(b *bench) {
		c, err := b.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a := exchange(c, "POST", "/v1/chat/completions", chatBody(p, 50, 3, "a", ""), nil)
		if strings.Contains(strings.ToLower(a.header), "connection: close") || !strings.Contains(a.header, "Keep-Alive: timeout=5") {
			t.Errorf("header %q", a.header)
		}
		start := time.Now()
		if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(start) != 0 {
			t.Errorf("Read = %d, %v after %v, want EOF at once", n, err, time.Since(start))
		}
	})
}

func TestShutdownIsPrompt(t *testing.T) {
	p := plain()
	p.Linger = time.Hour
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, srv: New(p, Options{}), ln: fasthttputil.NewInmemoryListener(), done: make(chan error, 1)}
		go func() { b.done <- b.srv.Serve(b.ln) }()
		idle, err := b.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		open := make(chan answer)
		go func() { open <- b.do("POST", "/v1/chat/completions", chatBody(p, 50, 5000, "a", ""), nil) }()
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 5000, "b", ""), func(event) bool { return true })
		<-time.After(100 * time.Millisecond)
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("took %v with an idle connection, an open stream and a lingering request", d)
		}
		if a := <-open; a.err == nil {
			t.Error("the open stream ended as if whole")
		}
		if n := len(b.srv.lingers); n != 0 {
			t.Errorf("%d requests linger on", n)
		}
		for _, r := range b.srv.Truth().Requests() {
			if r.End != Closed {
				t.Errorf("request %d: end %q, want %q", r.Seq, r.End, Closed)
			}
		}
		<-b.done
		<-time.After(2 * time.Minute)
	})
}

// TestGarbled: what is no request is refused without a Date. fasthttp's own answer
// has one, and starts a goroutine with it that no bubble survives.
func TestGarbled(t *testing.T) {
	for _, c := range []struct {
		name, request string
		status        string
	}{
		{"no request line", "hello there\r\n\r\n", "HTTP/1.1 400 "},
		{"a length that is none", "POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nContent-Length: many\r\n\r\n", "HTTP/1.1 400 "},
		{"a head without an end", "GET /" + strings.Repeat("x", 8192) + " HTTP/1.1\r\nHost: sim\r\n\r\n", "HTTP/1.1 431 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, plain(), Options{}, func(b *bench) {
				conn, err := b.ln.Dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, c.request); err != nil {
					t.Fatal(err)
				}
				said, err := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(said), c.status) || strings.Contains(string(said), "\r\nDate:") {
					t.Errorf("answered %q (%v), want %sand no Date", said, err, c.status)
				}
			})
		})
	}
}
