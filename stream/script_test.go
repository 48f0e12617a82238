package stream

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// The notation of the case list: bodies are put together from these, and the
// writes of a script are stamped with the milliseconds since the request.

func ev(j string) string { return "data: " + j + "\n\n" }

func chunk(choice int, delta, finish string) string {
	return ev(fmt.Sprintf(`{"id":"r1","object":"chat.completion.chunk","choices":[{"index":%d,"delta":%s,"finish_reason":%s}]}`, choice, delta, finish))
}

func k(delta string) string    { return chunk(0, delta, "null") }
func c(text string) string     { return k(`{"content":"` + text + `"}`) }
func g(text string) string     { return k(`{"reasoning_content":"` + text + `"}`) }
func g2(text string) string    { return k(`{"reasoning":"` + text + `"}`) }
func fin(reason string) string { return chunk(0, "{}", `"`+reason+`"`) }

const (
	role = "data: {\"id\":\"r1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n"
	done = "data: [DONE]\n\n"
)

func u(prompt, completion int) string {
	return ev(fmt.Sprintf(`{"id":"r1","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, prompt, completion, prompt+completion))
}

// with adds a member to the chunk of an event.
func with(event, member string) string {
	return strings.Replace(event, "}\n\n", ","+member+"}\n\n", 1)
}

// plus adds a usage object with completion tokens n.
func plus(event string, n int) string {
	return with(event, fmt.Sprintf(`"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d}`, n, 10+n))
}

// inChoice adds a member to the first choice of an event.
func inChoice(event, member string) string {
	return strings.Replace(event, `"finish_reason"`, member+`,"finish_reason"`, 1)
}

// write is what one read brings, at a time in milliseconds.
type write struct {
	at    float64
	bytes string
}

// origin is the instant of sent; any but 0 would do.
const origin = stamp.Instant(7e9)

func ms(t float64) stamp.Instant { return origin + stamp.Instant(math.Round(t*1e6)) }

// play gives a script to a meter, as the reads of a 200 response.
func play(m *Meter, script []write) (sig Signal) {
	m.Sent(origin)
	m.Headers(200, ms(1))
	for _, w := range script {
		sig |= m.Observe([]byte(w.bytes), ms(w.at))
	}
	return sig
}

// measure returns the record of a script that ends with cause at its last
// write.
func measure(script []write, cause Cause) *Record {
	m := NewMeter(Options{Dialect: wire.Chat, StoreText: true})
	play(m, script)
	end := 0.0
	if len(script) > 0 {
		end = script[len(script)-1].at
	}
	return m.Finish(cause, ms(end))
}

// figures are the numbers of a record that the cases name, in milliseconds;
// NaN is null.
type figures struct {
	ttfe, ttft, ttfv, last, tbt float64
	n                           int
	from                        TokensFrom
	generated, coalesced        int
	gaps                        int64
	minGap, maxGap              float64
	end                         End
	reason                      string
	flags                       string // joined by blanks
}

var null = math.NaN()

func figuresOf(r *Record) figures {
	f := figures{
		ttfe: msOf(r.TTFENS), ttft: msOf(r.TTFTNS), ttfv: msOf(r.TTFVNS), last: msOf(r.LastTokenNS), tbt: null,
		n: r.Tokens, from: r.TokensFrom, generated: r.GeneratedEvents, coalesced: r.CoalescedEvents,
		gaps: r.Gaps.N, minGap: msOf(r.Gaps.MinNS), maxGap: msOf(r.Gaps.MaxNS),
		end: r.End, reason: string(r.Reason), flags: strings.Join(r.Flags, " "),
	}
	if r.TBTNS.OK {
		f.tbt = r.TBTNS.V / 1e6
	}
	return f
}

func msOf(n Null[int64]) float64 {
	if !n.OK {
		return null
	}
	return float64(n.V) / 1e6
}

// String prints figures so that a difference is readable; NaN equals NaN.
func (f figures) String() string {
	return fmt.Sprintf("ttfe %.3f ttft %.3f ttfv %.3f last %.3f tbt %.3f N %d from %s events %d coalesced %d gaps %d min %.3f max %.3f end %s reason %q flags %q",
		f.ttfe, f.ttft, f.ttfv, f.last, f.tbt, f.n, f.from, f.generated, f.coalesced, f.gaps, f.minGap, f.maxGap, f.end, f.reason, f.flags)
}

func check(t *testing.T, r *Record, want figures) {
	t.Helper()
	if got := figuresOf(r).String(); got != want.String() {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
