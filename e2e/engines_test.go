package e2e

import (
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/enginetest"
	"github.com/streamgauge/streamgauge/stream"
)

// modelLimit holds a prompt of 2K and the longest reply asked for. The prefill row
// of the limit costs time that grows with its square.
const modelLimit = 12288

func TestLlamaCPP(t *testing.T) {
	s := enginetest.Run(t, enginetest.LlamaCPP, enginetest.Options{Slots: 8, ContextTotal: 8 * modelLimit})
	allOf(t, s, facts{from: stream.FromNative, maxTokens: 8192, counter: "llamacpp:tokens_predicted_total", gauge: "llamacpp:requests_processing"})
	t.Run("slots", func(t *testing.T) { testSlots(t) })
}

func TestVLLM(t *testing.T) {
	s := enginetest.Run(t, enginetest.VLLM, enginetest.Options{ContextPerSeq: modelLimit})
	allOf(t, s, facts{from: stream.FromTokenIDs, maxTokens: 2048, counter: "vllm:generation_tokens_total", gauge: "vllm:num_requests_running"})
}

// facts are what the tests know of an engine.
type facts struct {
	from      stream.TokensFrom
	maxTokens int    // of endless streams: over a second of decoding, however fast
	counter   string // of generated tokens, in its own metrics
	gauge     string // of running requests
}

func allOf(t *testing.T, s *enginetest.Server, f facts) {
	t.Logf("%s %s ready after %v", s.Engine.Kind, s.Engine.Version, s.StartTime.Round(time.Millisecond))
	t.Run("endless", func(t *testing.T) { testEndless(t, s, f) })
	t.Run("loops", func(t *testing.T) { testLoops(t, s) })
	t.Run("counter", func(t *testing.T) { testCounter(t, s, f) })
	t.Run("gone", func(t *testing.T) { testGone(t, s, f) })
}
