package stream_test

import (
	"fmt"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

// One reply, as a reader of the upstream socket would meter it.
func ExampleMeter() {
	const ms = stamp.Instant(1e6)
	sent := 1000 * ms
	m := stream.NewMeter(stream.Options{Dialect: wire.Chat})
	m.Sent(sent)
	m.Headers(200, sent+5*ms)
	m.Observe([]byte(`data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}`+"\n\n"), sent+100*ms)
	m.Observe([]byte(`data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}`+"\n\n"), sent+120*ms)
	m.Observe([]byte(`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}`+"\n\ndata: [DONE]\n\n"), sent+121*ms)
	r := m.Finish(stream.Cause{Kind: stream.EOF}, sent+122*ms)

	fmt.Println(r.End, r.Tokens, r.TokensFrom)
	fmt.Println("ttft_ns", r.TTFTNS.V, "tbt_ns", r.TBTNS.V)
	// Output:
	// completed 3 usage_final
	// ttft_ns 100000000 tbt_ns 1e+07
}

// The part of a log inside a window: the event at its opening is in, that at
// its close is not.
func ExampleWindowOf() {
	const ms = stamp.Instant(1e6)
	log := []stream.Event{{At: 100 * ms, Tokens: 1}, {At: 110 * ms, Tokens: 2}, {At: 120 * ms, Tokens: 1}, {At: 130 * ms, Tokens: 1}}
	w := stream.WindowOf(log, stream.Edges{Open: 110 * ms, Close: 130 * ms})
	fmt.Println(w.Events, "events,", w.Tokens, "tokens")
	// Output: 2 events, 3 tokens
}
