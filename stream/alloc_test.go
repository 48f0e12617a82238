//go:build !race

package stream

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// steady is a stream in full swing: text that is no loop of any kind, token ids
// and continuous usage, one event a read.
func steady(n int) [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var out [][]byte
	for i := range n {
		text := " "
		for range 1 + rng.IntN(4) {
			text += string("bdfgklmnprstvz"[rng.IntN(14)]) + string("aeiou"[rng.IntN(5)])
		}
		out = append(out, []byte(fmt.Sprintf(
			`data: {"id":"chatcmpl-90bd57df5a1768d9","object":"chat.completion.chunk","created":1796026385,"model":"tiny","choices":[{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":null,"token_ids":[%d]}],"usage":{"prompt_tokens":7,"total_tokens":%d,"completion_tokens":%d}}`+"\n\n",
			text, rng.IntN(1424), 8+i, 1+i)))
	}
	return out
}

// The token path of the house: wire, stream and detect together allocate
// nothing for an event once their buffers have grown, also for the second
// stream through one meter.
func TestNoAllocationsPerEvent(t *testing.T) {
	events := steady(16384)
	m := NewMeter(Options{Dialect: wire.Chat})
	run := func() {
		m.Reset(Options{Dialect: wire.Chat})
		m.Sent(origin)
		m.Headers(200, origin+1)
		for i, e := range events {
			if sig := m.Observe(e, origin+stamp.Instant(i+2)*1e6); sig|SigFirstToken != SigToken|SigFirstToken {
				t.Fatalf("event %d: signals %b, want a token and no verdict", i, sig)
			}
		}
	}
	run()
	if n := testing.AllocsPerRun(5, run); n != 0 {
		t.Errorf("%v allocations for %d events, want 0", n, len(events))
	}
}
