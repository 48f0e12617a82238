//go:build linux && (amd64 || arm64 || riscv64 || loong64) && !race

package relay

import (
	"io"
	"net"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// quietSink keeps nothing, and passes the head of an exchange on.
type quietSink struct{ over chan struct{} }

func (quietSink) Observe([]byte, stamp.Instant, stamp.Source) When { return Later }
func (quietSink) Trailer([]upstream.Field) []byte                  { return nil }
func (k quietSink) Ended(End)                                      { close(k.over) }
func (quietSink) Head(*upstream.Head, bool) ([]byte, bool, bool) {
	return []byte(head), true, true
}

// TestTokenAllocations: a token on its way through costs none.
func TestTokenAllocations(t *testing.T) {
	measure := func(t *testing.T, engine, client *net.TCPConn) {
		token, buf := []byte("5;x=1\r\nhello\r\n"), make([]byte, 14)
		got := testing.AllocsPerRun(2000, func() {
			if _, err := engine.Write(token); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(client, buf); err != nil {
				t.Fatal(err)
			}
		})
		if got != 0 {
			t.Errorf("got %v allocations a token, want 0", got)
		}
		_ = engine.Close()
	}
	t.Run("carried", func(t *testing.T) {
		st := newStand(t, Limits{})
		l := st.prepare("")
		k := quietSink{make(chan struct{})}
		l.s.Sink = k
		st.loop.Carry(l.s, []byte(head))
		l.read(len(head))
		measure(t, l.engine, l.client)
		<-k.over
	})
	t.Run("exchanged", func(t *testing.T) {
		st := newStand(t, Limits{})
		k := quietSink{make(chan struct{})}
		st.take(func(x *Exchange) { x.Answer = k })
		client := st.client()
		client.say(request)
		engine := st.engine()
		engine.request()
		engine.say(head)
		client.read(len(head))
		measure(t, engine.TCPConn, client.TCPConn)
		<-k.over
	})
}
