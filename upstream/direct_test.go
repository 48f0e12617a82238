package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

// TestDirect: an address that is written out can be dialled by anybody, unless the
// Client's dialer does more than dialling.
func TestDirect(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	for _, c := range []struct {
		name, addr string
		dialer     stamp.Dialer
		want       string // "": only the Client can
	}{
		{"IPv4", "127.0.0.1:80", stamp.Dialer{}, "127.0.0.1:80"},
		{"IPv6", "[::1]:80", stamp.Dialer{}, "[::1]:80"},
		{"a zone", "[fe80::1%lo]:80", stamp.Dialer{}, ""},
		{"a name", "localhost:80", stamp.Dialer{}, ""},
		{"no port", "127.0.0.1", stamp.Dialer{}, ""},
		{"TLS", "127.0.0.1:80", stamp.Dialer{TLS: &tls.Config{}}, ""},
		{"TLS that changes", "127.0.0.1:80", stamp.Dialer{TLSNow: func() *tls.Config { return nil }}, ""},
		{"a dialer", "127.0.0.1:80", stamp.Dialer{Dial: dial}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr, ok := (&Client{Addr: c.addr, Dialer: c.dialer}).Direct()
			if ok != (c.want != "") || ok && addr.String() != c.want {
				t.Errorf("got %v, %v, want %q", addr, ok, c.want)
			}
		})
	}
}

// TestDirectOfAName: the address of a connection that the Client has made is used for
// a while, and each time it finds one open it is known anew.
func TestDirectOfAName(t *testing.T) {
	s := serveRaw(t, reply(okay))
	want := s.ln.Addr().(*net.TCPAddr).AddrPort()
	c := s.client(t)
	c.Addr = net.JoinHostPort("localhost", strconv.Itoa(int(want.Port())))
	do := func() {
		t.Helper()
		r, err := c.Do(context.Background(), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		bodyOf(t, r)
	}
	if addr, ok := c.Direct(); ok {
		t.Errorf("got %v before a connection was made", addr)
	}
	do()
	for range 2 {
		if addr, ok := c.Direct(); !ok || addr != want {
			t.Errorf("got %v, %v, want %v", addr, ok, want)
		}
		// As if it were long ago.
		c.known.Store(&known{want, time.Now().Add(-knownFor - time.Second)})
		if addr, ok := c.Direct(); ok {
			t.Errorf("got %v after %v", addr, knownFor)
		}
		do() // over the same connection
	}
	if !c.Unreached() {
		t.Error("Unreached: want true for a name")
	}
	if addr, ok := c.Direct(); ok {
		t.Errorf("got %v where nothing answers", addr)
	}
	if dials := c.Stats().Dials; dials != 1 {
		t.Errorf("got %d dials, want 1", dials)
	}
}
