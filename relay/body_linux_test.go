//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/streamgauge/streamgauge/upstream"
)

// TestVerbatim: the client gets the engine's bytes, framing included, and the
// sink the data in them.
func TestVerbatim(t *testing.T) {
	for _, c := range []struct {
		name, body, data string
	}{
		{"one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello"},
		{"extensions", "5;a=b;c=\"d e\"\r\nhello\r\n0;last\r\n\r\n", "hello"},
		{"odd sizes", "0005\r\nhello\r\nA\r\n0123456789\r\na\r\n0123456789\r\n000\r\n\r\n", "hello01234567890123456789"},
		{"data that looks like framing", "9\r\n0\r\n\r\n0\r\n\r\r\n0\r\n\r\n", "0\r\n\r\n0\r\n\r"},
		{"no data at all", "0\r\n\r\n", ""},
		{"trailers", "2\r\nok\r\n0\r\nX-Sum: 7\r\nx-more: 8\r\n\r\n", "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			l := st.open("")
			l.say(c.body)
			if got, err := l.rest(); got != head+c.body || err != nil {
				t.Errorf("client: got %q, %v, want %q", got, err, head+c.body)
			}
			if e := l.end(); !e.Whole || e.Gone || e.Err != nil {
				t.Errorf("end: got %+v, want a whole body", e)
			}
			if got := string(l.observed()); got != c.data {
				t.Errorf("observed: got %q, want %q", got, c.data)
			}
			if s := l.pool.Stats(); s.Open != 1 || s.Idle != 1 {
				t.Errorf("upstream: got %d open, %d idle, want the connection kept", s.Open, s.Idle)
			}
		})
	}
}

// TestEveryCut cuts a body in two at every offset; the first piece comes with the
// engine's head, or alone and before the other.
func TestEveryCut(t *testing.T) {
	noSecret := func(f upstream.Field) bool { return !f.Is("X-Secret") }
	for _, c := range []struct {
		name, body, want, data string
		pass                   func(upstream.Field) bool
	}{
		{name: "no trailers", body: "14;x=1\r\n0\r\n\r\n: data, no end.\r\n2\r\nok\r\n00;l\r\n\r\n", data: "0\r\n\r\n: data, no end.ok"},
		{name: "trailers", body: "5\r\nhello\r\n0\r\nX-Sum: 7\r\nX-Sum: 8\r\n\r\n", data: "hello"},
		{name: "some trailers pass", body: "5\r\nhello\r\n0\r\nX-Secret: 1\r\nX-Sum: 7\r\n\r\n", want: "5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n", data: "hello", pass: noSecret},
		{name: "no trailer passes", body: "5\r\nhello\r\n0\r\nX-Secret: 1\r\n\r\n", want: "5\r\nhello\r\n0\r\n\r\n", data: "hello", pass: noSecret},
		{name: "trailers that are none", body: "5\r\nhello\r\n0\r\nno colon\r\n\r\n", want: "5\r\nhello\r\n0\r\n\r\n", data: "hello"},
	} {
		if c.want == "" {
			c.want = c.body
		}
		t.Run(c.name, func(t *testing.T) {
			st := newStand(t, Limits{})
			check := func(how string, cut int, l *line) {
				t.Helper()
				if got, err := l.rest(); got != head+c.want || err != nil {
					t.Errorf("%s, cut at %d: client got %q, %v, want %q", how, cut, got, err, head+c.want)
				}
				if e := l.end(); !e.Whole {
					t.Errorf("%s, cut at %d: got %+v, want a whole body", how, cut, e)
				}
				if got := string(l.observed()); got != c.data {
					t.Errorf("%s, cut at %d: observed %q, want %q", how, cut, got, c.data)
				}
				if s := l.pool.Stats(); s.Open != 1 || s.Idle != 1 {
					t.Errorf("%s, cut at %d: got %d open, %d idle, want the connection kept", how, cut, s.Open, s.Idle)
				}
				l.pool.CloseIdle()
			}
			for cut := range len(c.body) {
				l := st.prepare("")
				l.pass = c.pass
				st.loop.Carry(l.s, []byte(head))
				l.send(c.body[:cut])
				l.say(c.body[cut:])
				check("alone", cut, l)

				if strings.HasSuffix(c.body[:cut], "0\r\n\r\n") {
					continue // it looks whole, and is not detached
				}
				l = st.prepare(c.body[:cut])
				l.pass = c.pass
				st.loop.Carry(l.s, []byte(head))
				l.say(c.body[cut:])
				check("with the head", cut, l)
			}
		})
	}
}

// TestWholeWithTheHead: a body that is here whole ends at once, without the loop.
func TestWholeWithTheHead(t *testing.T) {
	st := newStand(t, Limits{})
	const body = "2\r\nok\r\n0\r\nX: 1\r\n\r\n"
	l := st.open(body)
	if got, _ := l.rest(); got != head+body {
		t.Errorf("client: got %q, want %q", got, head+body)
	}
	if e := l.end(); !e.Whole {
		t.Errorf("end: got %+v, want a whole body", e)
	}
	if got := string(l.observed()); got != "ok" {
		t.Errorf("observed: got %q, want ok", got)
	}
}

// TestBehindTheEnd: bytes that no request has asked for do not reach the client,
// and their connection is not used again.
func TestBehindTheEnd(t *testing.T) {
	const body = "2\r\nok\r\n0\r\n\r\n"
	for _, trailer := range []string{"", "X: 1\r\n"} {
		body := strings.Replace(body, "0\r\n", "0\r\n"+trailer, 1)
		st := newStand(t, Limits{})
		l := st.open("")
		l.say(body + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if got, err := l.rest(); got != head+body || err != nil {
			t.Errorf("client: got %q, %v, want %q", got, err, head+body)
		}
		if e := l.end(); !e.Whole {
			t.Errorf("end: got %+v, want a whole body", e)
		}
		if s := l.pool.Stats(); s.Open != 0 {
			t.Errorf("upstream: got %d open, want the connection closed", s.Open)
		}
	}
}

// TestMalformed: the client keeps what came before the mistake, and no end.
func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		name, body, want, data string
	}{
		{"no size", "5\r\nhello\r\nzz\r\nmore", "5\r\nhello\r\n", "hello"},
		{"LF without CR behind a size", "5\nhello\r\n", "5", ""},
		{"no CRLF behind the data", "5\r\nhelloo\r\n1\r\n", "5\r\nhello", "hello"},
		{"a size over all bounds", "fffffffffffffffff\r\n", "fffffffffffffff", ""},
		{"LF in an extension", "5;a\nb\r\nhello\r\n", "5;a", ""},
		{"CR in the blank line, no LF", "2\r\nok\r\n0\r\n\rx", "2\r\nok\r\n0\r\n", "ok"},
	} {
		for _, early := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				st := newStand(t, Limits{})
				var l *line
				if early {
					l = st.open(c.body)
				} else {
					l = st.open("")
					l.say(c.body)
				}
				if got, _ := l.rest(); got != head+c.want {
					t.Errorf("client: got %q, want %q", got, head+c.want)
				}
				if e := l.end(); e.Whole || e.Gone || e.Err == nil {
					t.Errorf("end: got %+v, want the framing's error", e)
				}
				if got := string(l.observed()); got != c.data {
					t.Errorf("observed: got %q, want %q", got, c.data)
				}
				if s := l.pool.Stats(); s.Open != 0 {
					t.Errorf("upstream: got %d open, want the connection closed", s.Open)
				}
			})
		}
	}
}

// TestEngineDies: the error says how, and nothing is made up behind what came.
func TestEngineDies(t *testing.T) {
	for _, c := range []struct {
		name string
		die  func(*net.TCPConn) error
		want error
	}{
		{"FIN", (*net.TCPConn).Close, io.ErrUnexpectedEOF},
		{"half-close", (*net.TCPConn).CloseWrite, io.ErrUnexpectedEOF},
		{"RST", func(c *net.TCPConn) error { _ = c.SetLinger(0); return c.Close() }, syscall.ECONNRESET},
	} {
		for _, part := range []string{"", "5\r\nhel", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\nX: 1\r\n"} {
			t.Run(c.name, func(t *testing.T) {
				st := newStand(t, Limits{})
				l := st.open("")
				l.send(part)
				if err := c.die(l.engine); err != nil {
					t.Fatal(err)
				}
				if e := l.end(); e.Whole || e.Gone || !errors.Is(e.Err, c.want) {
					t.Errorf("after %q: got %+v, want %v", part, e, c.want)
				}
				want, _, _ := strings.Cut(part, "X: 1")
				ending := strings.Contains(part, "0\r\n") // some clients would take a FIN for a clean end
				if got, err := l.rest(); got != head+want || errors.Is(err, syscall.ECONNRESET) != ending {
					t.Errorf("client: got %q, %v, want %q, a reset %v", got, err, head+want, ending)
				}
				if s := l.pool.Stats(); s.Open != 0 {
					t.Errorf("upstream: got %d open, want none", s.Open)
				}
			})
		}
	}
}

// TestForwardedBeforeTheReset: what lies in the socket when its reset comes is
// the client's still.
func TestForwardedBeforeTheReset(t *testing.T) {
	st := newStand(t, Limits{})
	l := st.prepare("")
	l.say("5\r\nhello\r\n")
	_ = l.engine.SetLinger(0)
	_ = l.engine.Close()
	st.loop.Carry(l.s, []byte(head))
	if e := l.end(); !errors.Is(e.Err, syscall.ECONNRESET) {
		t.Errorf("end: got %+v, want a reset", e)
	}
	if got, _ := l.rest(); got != head+"5\r\nhello\r\n" {
		t.Errorf("client: got %q, want what came before the reset", got)
	}
}
