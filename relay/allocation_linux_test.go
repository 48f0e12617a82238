//go:build linux && (amd64 || arm64 || riscv64 || loong64) && !race

package relay

import (
	"io"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// quietSink keeps nothing.
type quietSink struct{ over chan struct{} }

func (quietSink) Left(stamp.Instant, stamp.Instant)           {}
func (quietSink) Observe([]byte, stamp.Instant, stamp.Source) {}
func (quietSink) Trailer([]upstream.Field) []byte             { return nil }
func (k quietSink) Ended(End)                                 { close(k.over) }

// TestTokenAllocations: a token on its way through costs none.
func TestTokenAllocations(t *testing.T) {
	st := newStand(t, Limits{})
	l := st.prepare("")
	k := quietSink{make(chan struct{})}
	l.s.Sink = k
	st.loop.Carry(l.s, []byte(head))
	l.read(len(head))
	token, buf := []byte("5;x=1\r\nhello\r\n"), make([]byte, 14)
	got := testing.AllocsPerRun(2000, func() {
		if _, err := l.engine.Write(token); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(l.client, buf); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations a token, want 0", got)
	}
	_ = l.engine.Close()
	<-k.over
	l.s.Up.Drop()
	_ = l.s.Down.Close()
}
