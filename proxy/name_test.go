package proxy

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/streamgauge/streamgauge/sim"
)

// names answers for every name with one address, which can be changed.
type names struct {
	conn net.PacketConn
	ip   atomic.Pointer[net.IP]
}

// resolveTo makes names known by ip, for the time of the test.
func resolveTo(t *testing.T, ip net.IP) *names {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{conn: conn}
	n.ip.Store(&ip)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.run()
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = conn.Close()
		<-done
	})
	return n
}

func (n *names) run() {
	buf := make([]byte, 1500)
	for {
		m, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		const header = 12
		end := header
		for end < m && buf[end] != 0 {
			end += 1 + int(buf[end])
		}
		if end += 5; end > m {
			continue
		}
		answer := append([]byte{}, buf[:2]...)
		count := byte(0)
		if binary.BigEndian.Uint16(buf[end-4:]) == 1 { // A
			count = 1
		}
		answer = append(answer, 0x85, 0x80, 0, 1, 0, count, 0, 0, 0, 0)
		answer = append(answer, buf[header:end]...)
		if count > 0 {
			answer = append(answer, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			answer = append(answer, (*n.ip.Load()).To4()...)
		}
		_, _ = n.conn.WriteTo(answer, from)
	}
}

// TestEngineMoves: the name of an engine that is gone from its address stands for
// another by now; no request is lost.
func TestEngineMoves(t *testing.T) { onBothPaths(t, testEngineMoves) }

func testEngineMoves(t *testing.T, on path) {
	n := resolveTo(t, net.IPv4(127, 0, 0, 2))
	old, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip(err)
	}
	_, port, _ := net.SplitHostPort(old.Addr().String())
	first := sim.ServeScript(old, byTarget(nil))
	w := sockets(t, on(Config{Upstreams: []string{"http://engine.test:" + port}}), sim.Always(quick))
	defer w.close()
	for range 3 {
		if a := w.say(get("/x")); a.status != 200 {
			t.Fatalf("at its first address: got %d %s, %v", a.status, a.body, a.err)
		}
	}
	first.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Skip(err)
	}
	second := sim.ServeScript(ln, byTarget(nil))
	defer second.Close()
	ip := net.IPv4(127, 0, 0, 1)
	n.ip.Store(&ip)
	for i := range 5 {
		if a := w.say(get("/x")); a.status != 200 {
			t.Errorf("request %d after it moved: got %d %s, %v", i, a.status, a.body, a.err)
		}
	}
	if strings.Contains(w.logs.String(), "no response") {
		t.Errorf("logs: %s", w.logs)
	}
	b := w.p.backends[0]
	if n := b.failures.Load(); n != 0 {
		t.Errorf("got %d failures", n)
	}
	eventually(t, "none is open", func() bool { return b.open.Load() == 0 })
}
