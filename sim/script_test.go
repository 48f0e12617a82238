package sim

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp/fasthttputil"
)

func TestNotation(t *testing.T) {
	const k = `data: {"id":"r1","object":"chat.completion.chunk","choices":[{"index":0,"delta":`
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct {
		name, in string
		want     []Write
	}{
		{"role and time", `ROLE@50`, []Write{{ms(50), []byte(k + `{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n")}}},
		{"two events in one write, time behind", `FIN("stop") D @541`, []Write{{ms(541), []byte(k + `{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")}}},
		{"bar separates, time carries over", `C("a")@5 | G("b")`, []Write{
			{ms(5), []byte(k + `{"content":"a"},"finish_reason":null}]}` + "\n\n")},
			{ms(5), []byte(k + `{"reasoning_content":"b"},"finish_reason":null}]}` + "\n\n")},
		}},
		{"usage added", `C("a")+u(4)@1`, []Write{{ms(1), []byte(k + `{"content":"a"},"finish_reason":null}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}}` + "\n\n")}}},
		{"usage chunk", `U(10,3)`, []Write{{0, []byte(`data: {"id":"r1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}}` + "\n\n")}}},
		{"literal with parentheses in a string", `ev({"a":")"})`, []Write{{0, []byte("data: {\"a\":\")\"}\n\n")}}},
		{"repeated", `raw("x") x3 every 10 from 300`, []Write{{ms(300), []byte("x")}, {ms(310), []byte("x")}, {ms(320), []byte("x")}}},
	} {
		got, err := ParseWrites(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if d := cmp.Diff(got, c.want); d != "" {
			t.Errorf("%s (got -, want +):\n%s", c.name, d)
		}
	}
	for _, bad := range []string{`C(a)`, `X`, `U(1)`, `C("a")@x`, `ev({`, `C("a") x2 every 5`} {
		if w, err := ParseWrites(bad); err == nil {
			t.Errorf("ParseWrites(%q) = %v, want an error", bad, w)
		}
	}
}

func scriptBubble(t *testing.T, sc Script, f func(t *testing.T, dial func() net.Conn, s *ScriptServer)) {
	synctest.Test(t, func(t *testing.T) {
		ln := fasthttputil.NewInmemoryListener()
		s := ServeScript(ln, Always(sc))
		defer s.Close()
		f(t, func() net.Conn {
			c, err := ln.Dial()
			if err != nil {
				t.Fatal(err)
			}
			return c
		}, s)
	})
}

func TestScriptTimesAreExact(t *testing.T) {
	sc := Script{Writes: MustWrites(`ROLE@50 | C("a")@500 | C("b")@520 | FIN("length") U(10,2) D @541`)}
	scriptBubble(t, sc, func(t *testing.T, dial func() net.Conn, s *ScriptServer) {
		c := dial()
		defer c.Close()
		start := time.Now()
		a := exchange(c, "POST", "/v1/chat/completions", `{}`, nil)
		if a.err != nil {
			t.Fatal(a.err)
		}
		var got []time.Duration
		for _, e := range a.events {
			got = append(got, e.at.Sub(start)/time.Millisecond)
		}
		if d := cmp.Diff(got, []time.Duration{50, 500, 520, 541, 541, 541}); d != "" {
			t.Errorf("event times in ms (got -, want +):\n%s", d)
		}
		// The connection is kept: a second request gets the same.
		if b := exchange(c, "POST", "/again", `{}`, nil); b.err != nil || len(b.events) != len(a.events) {
			t.Errorf("second request: %d events, error %v", len(b.events), b.err)
		}
		p := s.Played()
		if len(p) != 2 || s.Conns() != 1 || p[1].Target != "/again" || string(p[0].Body) != "{}" {
			t.Errorf("played %+v on %d connections", p, s.Conns())
		}
	})
}

func TestScriptEndings(t *testing.T) {
	whole := MustWrites(`C("a")@10`)
	size := len(whole[0].Bytes)
	for _, c := range []struct {
		name string
		sc   Script
		want string // what the client reads after the header
		err  error
	}{
		{"chunked without its last chunk", Script{Writes: whole, End: Drop}, "", io.EOF},
		{"length too long", Script{Writes: whole, Framing: ByLength, Length: size + 5, End: Drop}, "", io.ErrUnexpectedEOF},
		{"length right", Script{Writes: whole, Framing: ByLength}, string(whole[0].Bytes), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			scriptBubble(t, c.sc, func(t *testing.T, dial func() net.Conn, s *ScriptServer) {
				conn := dial()
				defer conn.Close()
				a := exchange(conn, "POST", "/", "", nil)
				if !errors.Is(a.err, c.err) {
					t.Errorf("error %v, want %v", a.err, c.err)
				}
				if c.err == nil && a.body != c.want {
					t.Errorf("body %q, want %q", a.body, c.want)
				}
			})
		})
	}
	for _, c := range []struct {
		framing Framing
		proto   string
	}{{ByClose, "HTTP/1.1"}, {ByHTTP10, "HTTP/1.0"}} {
		scriptBubble(t, Script{Writes: whole, Framing: c.framing}, func(t *testing.T, dial func() net.Conn, s *ScriptServer) {
			conn := dial()
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(b), c.proto+" 200 OK\r\n") || !strings.HasSuffix(string(b), "\r\n\r\n"+string(whole[0].Bytes)) {
				t.Errorf("%s: %q, error %v", c.proto, b, err)
			}
		})
	}
}

func TestScriptHangSeesClientLeave(t *testing.T) {
	sc := Script{Writes: MustWrites(`C("a")@10 | C("b")@20`), End: Hang}
	scriptBubble(t, sc, func(t *testing.T, dial func() net.Conn, s *ScriptServer) {
		c := dial()
		start := time.Now()
		exchange(c, "POST", "/", "", func(e event) bool { return strings.Contains(e.data, `"b"`) })
		<-time.After(7 * time.Second)
		c.Close()
		synctest.Wait()
		if got, want := s.Played()[0].Gone.Sub(start), 7*time.Second+20*time.Millisecond; got != want {
			t.Errorf("client gone at %v, want %v", got, want)
		}
	})
}

func TestScriptClosesIdleConnections(t *testing.T) {
	scriptBubble(t, Script{Writes: MustWrites(`D`), Idle: time.Second}, func(t *testing.T, dial func() net.Conn, s *ScriptServer) {
		c := dial()
		defer c.Close()
		exchange(c, "POST", "/", "", nil)
		start := time.Now()
		if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("Read = %d, %v, want EOF", n, err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("closed after %v, want 1s", got)
		}
	})
}

func TestScriptResetOnTCP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := ServeScript(ln, Always(Script{Writes: MustWrites(`C("a")@1`), EndAt: 20 * time.Millisecond, End: Reset}))
	defer s.Close()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := exchange(c, "POST", "/", "", nil)
	if !errors.Is(a.err, syscall.ECONNRESET) {
		t.Errorf("error %v after %d events, want ECONNRESET", a.err, len(a.events))
	}
}
