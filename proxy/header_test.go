package proxy

import (
	"bufio"
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

func TestSplitAbsolute(t *testing.T) {
	for _, c := range []struct{ in, authority, path string }{
		{"/p?q", "", "/p?q"},
		{"*", "", "*"},
		{"http://h/p", "h", "/p"},
		{"HTTPS://h:1/p?q", "h:1", "/p?q"},
		{"http://h", "h", "/"},
		{"http://h?q", "h", "/?q"},
		{"/http://h/p", "", "/http://h/p"},
	} {
		authority, path := splitAbsolute([]byte(c.in))
		if string(authority) != c.authority || string(path) != c.path {
			t.Errorf("%q: got %q and %q, want %q and %q", c.in, authority, path, c.authority, c.path)
		}
	}
}

func TestRawFields(t *testing.T) {
	show := func(fields []upstream.Field) (out []string) {
		for _, f := range fields {
			out = append(out, string(f.Name)+"="+string(f.Value))
		}
		return out
	}
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"plain", "A: 1\r\nB:2\r\n\r\n", []string{"A=1", "B=2"}},
		{"padding and no value", "A:  1 \t\r\nB:\r\n\r\n", []string{"A=1", "B="}},
		{"colons in the value", "A: b: c\r\n\r\n", []string{"A=b: c"}},
		{"folds", "A: 1\r\n\t 2\r\n  3\r\nB: 4\r\n\r\n", []string{"A=1 2 3", "B=4"}},
		{"bare line feeds", "A: 1\nB: 2\n\n", []string{"A=1", "B=2"}},
		{"nothing", "", nil},
	} {
		if d := cmp.Diff(show(rawFields([]byte(c.in))), c.want); d != "" {
			t.Errorf("%s (-got +want):\n%s", c.name, d)
		}
	}
}

// FuzzRequestHead: whatever fasthttp takes for a request, what goes upstream is
// one well-formed head without a hop-by-hop field.
func FuzzRequestHead(f *testing.F) {
	for _, s := range []string{
		chat(), get("/"), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
		"GET http://b/ HTTP/1.1\r\nhost: a\r\nConnection: x, upgrade\r\nX: 1\r\nUpgrade: h2c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX-Fold: 1\r\n 2\r\n\t3\r\nTE: trailers\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h fasthttp.RequestHeader
		h.DisableNormalizing()
		if err := h.Read(bufio.NewReader(bytes.NewReader(raw))); err != nil {
			return
		}
		head := readHead(h.RequestURI(), h.RawHeaders())
		if head.bad {
			return
		}
		for _, field := range head.fields {
			if bytes.ContainsAny(field.Name, "\r\n:") || bytes.ContainsAny(field.Value, "\r\n\x00") {
				t.Errorf("field %q: %q would be read as more than one", field.Name, field.Value)
			}
			for _, name := range []string{"Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Trailer", "Expect"} {
				if field.Is(name) {
					t.Errorf("%s goes upstream", name)
				}
			}
		}
		if bytes.ContainsAny(head.target("/p"), " \r\n") {
			t.Errorf("target %q holds white space", head.target("/p"))
		}
	})
}

// TestLostHijack: the server may close a connection between the handler and its
// hijack; what the exchange holds must be freed all the same, and once.
func TestLostHijack(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	c := &clientConn{Conn: stamp.Wrap(a, true)}
	ran, lost := 0, 0
	c.hijack(&fasthttp.RequestCtx{}, func(net.Conn) { ran++ }, func() { lost++ })
	_ = c.Close()
	_ = c.Close()
	if ran != 0 || lost != 1 {
		t.Errorf("ran %d times, lost %d times, want 0 and 1", ran, lost)
	}
}

func TestRequestIDs(t *testing.T) {
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"usual", "req-1_a.B", true},
		{"longest", strings.Repeat("x", maxID), true},
		{"too long", strings.Repeat("x", maxID+1), false},
		{"space", "a b", false},
		{"not ASCII", "é", false},
		{"empty", "", false},
	} {
		if got := printable([]byte(c.value)); got != c.ok {
			t.Errorf("%s: got %v, want %v", c.name, got, c.ok)
		}
	}
}
