package stream

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/wire"
)

// r1 is the script of R1 with the event or events before the first token.
func r1(first string) []write {
	return []write{
		{50, first}, {500, c("a")}, {520, c("b")}, {540, c("c")},
		{541, fin("length") + u(10, 3) + done},
	}
}

var r1Figures = figures{
	ttfe: 50, ttft: 500, ttfv: 500, last: 540, tbt: 20, n: 3, from: FromUsageFinal,
	generated: 3, gaps: 2, minGap: 20, maxGap: 20, end: Completed,
}

func TestR1(t *testing.T) {
	for _, v := range []struct {
		name   string
		script []write
	}{
		{"role chunk with empty content", r1(role)},
		{"role chunk with null content: llama.cpp", r1(k(`{"role":"assistant","content":null}`))},
		{"role chunk without content: vLLM's Rust front end", r1(k(`{"role":"assistant"}`))},
		{"role chunk twice", r1(role + role)},
		{"empty content chunk at 300 is no token", append([]write{{50, role}, {300, c("")}}, r1(role)[1:]...)},
	} {
		t.Run(v.name, func(t *testing.T) { check(t, measure(v.script, Cause{Kind: EOF}), r1Figures) })
	}
}

func TestR2(t *testing.T) {
	want := figures{
		ttfe: 50, ttft: 300, ttfv: 1300, last: 1300, tbt: 500, n: 3, from: FromUsageFinal,
		generated: 3, gaps: 2, minGap: 20, maxGap: 980, end: Completed,
	}
	both := func(s string) string { return k(`{"reasoning":"` + s + `","reasoning_content":"` + s + `"}`) }
	for _, v := range []struct {
		name string
		g    func(string) string
	}{
		{"reasoning_content", g},
		{"reasoning", g2},
		{"both keys in one delta are one event", both},
	} {
		t.Run(v.name, func(t *testing.T) {
			check(t, measure([]write{
				{50, role}, {300, v.g("x")}, {320, v.g("y")}, {1300, c("z")}, {1301, fin("stop") + u(10, 3) + done},
			}, Cause{Kind: EOF}), want)
		})
	}
}

// Only reasoning until the limit: measured, completed, nothing visible.
func TestR2c(t *testing.T) {
	script := []write{{50, role}}
	for i := range 64 {
		script = append(script, write{300 + 10*float64(i), g("t")})
	}
	script = append(script, write{931, fin("length") + u(10, 64) + done})
	check(t, measure(script, Cause{Kind: EOF}), figures{
		ttfe: 50, ttft: 300, ttfv: null, last: 930, tbt: 10, n: 64, from: FromUsageFinal,
		generated: 64, gaps: 63, minGap: 10, maxGap: 10, end: Completed,
	})
}

func TestR3(t *testing.T) {
	script := func(counts ...int) []write {
		sum := 0
		s := []write{{50, plus(role, 0)}}
		for i, n := range counts {
			sum += n
			s = append(s, write{100 + 40*float64(i), plus(c("a b c d"), sum)})
		}
		return append(s, write{101 + 40*float64(len(counts)-1), u(10, sum) + done})
	}
	for _, v := range []struct {
		name   string
		counts []int
		tbt    float64 // (last - first) / (N - n1)
	}{
		{"4 tokens a chunk", []int{4, 4, 4}, 80.0 / 8},
		{"2 tokens a chunk", []int{2, 2, 2}, 80.0 / 4},
		{"8 tokens a chunk", []int{8, 8, 8}, 80.0 / 16},
		{"16 tokens a chunk", []int{16, 16, 16}, 80.0 / 32},
		{"irregular", []int{1, 5, 2, 4}, 120.0 / 11},
	} {
		t.Run(v.name, func(t *testing.T) {
			sum, last := 0, 100+40*float64(len(v.counts)-1)
			for _, n := range v.counts {
				sum += n
			}
			r := measure(script(v.counts...), Cause{Kind: EOF})
			check(t, r, figures{
				ttfe: 50, ttft: 100, ttfv: 100, last: last, tbt: v.tbt, n: sum, from: FromUsageContinuous,
				generated: len(v.counts), gaps: int64(len(v.counts) - 1), minGap: 40, maxGap: 40, end: Completed,
				flags: "no_finish",
			})
			if got := r.FirstTokens; got != Some(v.counts[0]) {
				t.Errorf("first_tokens = %+v, want %d", got, v.counts[0])
			}
		})
	}
}

func TestR3b(t *testing.T) {
	r := measure([]write{{50, role}, {100, c("a b c d")}, {140, c("e f g h")}, {180, c("i j k l")}, {181, fin("length") + u(10, 12) + done}}, Cause{Kind: EOF})
	check(t, r, figures{
		ttfe: 50, ttft: 100, ttfv: 100, last: 180, tbt: 80.0 / 11, n: 12, from: FromUsageFinal,
		generated: 3, gaps: 2, minGap: 40, maxGap: 40, end: Completed,
	})
	if r.FirstTokens.OK {
		t.Errorf("first_tokens = %d, want null: only the total is known", r.FirstTokens.V)
	}
}

func TestR3c(t *testing.T) {
	check(t, measure([]write{{50, role}, {100, c("a b c d")}, {140, c("e f g h")}, {180, c("i j k l")}, {181, fin("length") + done}}, Cause{Kind: EOF}), figures{
		ttfe: 50, ttft: 100, ttfv: 100, last: 180, tbt: 40, n: 3, from: FromEstimate,
		generated: 3, gaps: 2, minGap: 40, maxGap: 40, end: Completed,
	})
}

func TestR4(t *testing.T) {
	nulls := r1(role)
	for i := range nulls {
		nulls[i].bytes = strings.ReplaceAll(nulls[i].bytes, `"finish_reason":null}]}`, `"finish_reason":null}],"usage":null}`)
	}
	last := func(bytes string) []write {
		s := r1(role)
		s[len(s)-1].bytes = bytes
		return s
	}
	zeros := r1(role)
	for i := range zeros[:4] {
		zeros[i].bytes = plus(zeros[i].bytes, 0)
	}
	for _, v := range []struct {
		name   string
		script []write
	}{
		{"usage null on each chunk", nulls},
		{"usage in the finish chunk, no chunk of its own", last(plus(fin("length"), 3) + done)},
		{"usage event twice", last(fin("length") + u(10, 3) + u(10, 3) + done)},
		{"usage in the finish chunk and again behind it", last(plus(fin("length"), 3) + u(10, 3) + done)},
		{"usage behind the finish, in a chunk that names the choice", last(fin("length") + plus(k("{}"), 3) + done)},
		{"zeros on each chunk, then the truth: Ollama", zeros},
		{"usage inside the choice: Kimi", last(inChoice(fin("length"), `"usage":{"prompt_tokens":10,"completion_tokens":3}`) + done)},
		{"under x_groq", last(with(fin("length"), `"x_groq":{"usage":{"prompt_tokens":10,"completion_tokens":3}}`) + done)},
	} {
		t.Run(v.name, func(t *testing.T) {
			r := measure(v.script, Cause{Kind: EOF})
			check(t, r, r1Figures)
			if r.PromptTokens != Some(10) {
				t.Errorf("prompt_tokens = %+v, want 10", r.PromptTokens)
			}
		})
	}
}

func TestR5(t *testing.T) {
	boom := `{"error":{"message":"boom","type":"InternalServerError","code":500}}`
	failed := figures{
		ttfe: 100, ttft: 100, ttfv: 100, last: 120, tbt: 20, n: 2, from: FromEstimate,
		generated: 2, gaps: 1, minGap: 20, maxGap: 20, end: Failed, reason: "in_band",
	}
	tokens := []write{{100, c("a")}, {120, c("b")}}
	for _, v := range []struct {
		name  string
		bytes string
		text  string
	}{
		{"error event, then the marker: vLLM", ev(boom) + done, "InternalServerError: 500: boom"},
		{"error as a text: TGI", ev(`{"error":"boom","error_type":"generation"}`) + done, "generation: boom"},
		{"event: error", "event: error\n" + ev(`{"message":"boom"}`) + done, "boom"},
		{"finish_reason error", fin("error") + done, "finish_reason: error"},
		{"finish_reason abort", fin("abort") + done, "finish_reason abort"},
		{"error line of old llama.cpp", "error: " + boom + "\n\n", "InternalServerError: 500: boom"},
	} {
		t.Run(v.name, func(t *testing.T) {
			r := measure(append(tokens[:2:2], write{130, v.bytes}), Cause{Kind: EOF})
			check(t, r, failed)
			if string(r.Error) != v.text {
				t.Errorf("error = %q, want %q", r.Error, v.text)
			}
			if msOf(r.EndNS) != 130 {
				t.Errorf("end = %v, want 130: the error ended the stream", msOf(r.EndNS))
			}
		})
	}
	t.Run("error first", func(t *testing.T) {
		check(t, measure([]write{{130, ev(boom) + done}}, Cause{Kind: EOF}), figures{
			ttfe: 130, ttft: null, ttfv: null, last: null, tbt: null, from: FromEstimate, minGap: null, maxGap: null, end: Failed, reason: "in_band",
		})
	})
	t.Run("error null on normal chunks is none", func(t *testing.T) {
		s := r1(role)
		for i := range s {
			s[i].bytes = strings.ReplaceAll(s[i].bytes, `{"id":"r1"`, `{"error":null,"id":"r1"`)
		}
		check(t, measure(s, Cause{Kind: EOF}), r1Figures)
	})
	t.Run("the word error in the text is none", func(t *testing.T) {
		s := r1(role)
		s[1].bytes = c(`error: {\"error\":{\"message\":\"boom\"}}`)
		check(t, measure(s, Cause{Kind: EOF}), r1Figures)
	})
}

func TestR6(t *testing.T) {
	nothing := figures{ttfe: null, ttft: null, ttfv: null, last: null, tbt: null, from: FromEstimate, minGap: null, maxGap: null, end: Failed, reason: "empty"}
	at := func(f figures, ttfe float64) figures { f.ttfe = ttfe; return f }
	one := func(end End, reason, flags string) figures {
		return figures{ttfe: 10, ttft: 10, ttfv: 10, last: 10, tbt: null, n: 1, from: FromEstimate, generated: 1, minGap: null, maxGap: null, end: end, reason: reason, flags: flags}
	}
	usage0 := at(nothing, 10)
	usage0.from = FromUsageFinal
	for _, v := range []struct {
		name   string
		script []write
		cause  CauseKind
		want   figures
	}{
		{"200, then the end", nil, EOF, nothing},
		{"the marker only", []write{{10, done}}, EOF, at(nothing, 10)},
		{"a finish without a token", []write{{10, role + fin("stop") + u(10, 0) + done}}, EOF, usage0},
		{"a token, then the end", []write{{10, c("a")}}, EOF, one(Truncated, "", "")},
		{"a token, a finish, no marker", []write{{10, c("a") + fin("stop")}}, EOF, one(Completed, "", "no_marker")},
		{"a marker, no finish", []write{{10, c("a") + done}}, EOF, one(Completed, "", "no_finish")},
		{"Content-Length longer than the body", []write{{10, c("a")}}, Cut, one(Truncated, "", "")},
		{"chunked body without its last chunk", []write{{10, c("a")}}, Cut, one(Truncated, "", "")},
		{"cut behind the finish", []write{{10, c("a") + fin("stop")}}, Cut, one(Completed, "", "no_marker")},
		{"cut before a token", []write{{10, role}}, Cut, at(nothing, 10)},
		{"the event that the cut left half", []write{{10, c("a") + c("b")[:40]}}, Cut, one(Truncated, "", "")},
	} {
		t.Run(v.name, func(t *testing.T) { check(t, measure(v.script, Cause{Kind: v.cause}), v.want) })
	}
}

// torture rewrites the bytes of R1's writes.
func torture(f func(string) string) []write {
	s := r1(role)
	for i := range s {
		s[i].bytes = f(s[i].bytes)
	}
	return s
}

// split cuts every write in two before its last n bytes; the first part comes
// half a millisecond early. An event's instant is that of the bytes that completed it.
func split(script []write, n int) (out []write) {
	for _, w := range script {
		at := len(w.bytes) - n
		out = append(out, write{w.at - 0.5, w.bytes[:at]}, write{w.at, w.bytes[at:]})
	}
	return out
}

func TestR7(t *testing.T) {
	bytewise := []write{}
	for _, w := range r1(role) {
		for i := range len(w.bytes) {
			bytewise = append(bytewise, write{w.at - 0.001*float64(len(w.bytes)-1-i), w.bytes[i : i+1]})
		}
	}
	within := func(text string, n int) []write { // text in the token at 520, its event split after n bytes of it
		s := r1(role)
		event := c(text)
		at := strings.Index(event, text) + n
		return append(append(s[:2:2], write{519, event[:at]}, write{520, event[at:]}), s[3:]...)
	}
	pings := func() (out []write) {
		next := 15.0
		for _, w := range r1(role) {
			for ; next < w.at; next += 15 {
				out = append(out, write{next, ": ping\n\n"})
			}
			out = append(out, w)
		}
		return out
	}
	last := func(f func(string) string) []write {
		s := r1(role)
		s[len(s)-1].bytes = f(s[len(s)-1].bytes)
		return s
	}
	second := func(bytes string) []write {
		s := r1(role)
		s[2].bytes = bytes
		return s
	}
	unterminated := r1Figures
	unterminated.flags = "unterminated"
	malformed := r1Figures
	for _, v := range []struct {
		name      string
		script    []write
		want      figures
		malformed int
	}{
		{"one byte a write", bytewise, r1Figures, 0},
		{"split inside a character of three bytes", within("漢", 1), r1Figures, 0},
		{"split inside an emoji", within("🙂", 2), r1Figures, 0},
		{"split between the two line feeds", split(r1(role), 1), r1Figures, 0},
		{"CRLF", torture(func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }), r1Figures, 0},
		{"lone CR", torture(func(s string) string { return strings.ReplaceAll(s, "\n", "\r") }), r1Figures, 0},
		{"data: without a blank", torture(func(s string) string { return strings.ReplaceAll(s, "data: ", "data:") }), r1Figures, 0},
		{"pings every 15 ms are no events and no gaps", pings(), r1Figures, 0},
		{"event, id and retry lines", torture(func(s string) string {
			return strings.ReplaceAll(s, "data: ", "event: message\nid: 7\nretry: 10\ndata: ")
		}), r1Figures, 0},
		{"two data lines in one event", torture(func(s string) string {
			return strings.ReplaceAll(s, `"choices":`, "\ndata: \"choices\":")
		}), r1Figures, 0},
		{"byte order mark", append([]write{{50, "\ufeff" + role}}, r1(role)[1:]...), r1Figures, 0},
		{"raw U+2028 and U+0085 in the text", second(c("x\u2028y\u0085z")), r1Figures, 0},
		{"escaped line feeds in the text", second(c(`x\n\ny`)), r1Figures, 0},
		{"an event of 1 MiB", second(c(strings.Repeat("abcdefg ", 1<<17))), r1Figures, 0},
		{"last event with one line feed", last(func(string) string {
			return fin("length") + done + strings.TrimSuffix(u(10, 3), "\n")
		}), figures{
			ttfe: 50, ttft: 500, ttfv: 500, last: 540, tbt: 20, n: 3, from: FromEstimate,
			generated: 3, gaps: 2, minGap: 20, maxGap: 20, end: Completed, flags: "unterminated after_marker",
		}, 0},
		{"the marker with one line feed", last(func(s string) string { return strings.TrimSuffix(s, "\n") }), unterminated, 0},
		{"two objects glued are counted, not read", last(func(s string) string {
			return ev(`{"choices":[]}{"choices":[]}`) + s
		}), malformed, 1},
	} {
		t.Run(v.name, func(t *testing.T) {
			r := measure(v.script, Cause{Kind: EOF})
			check(t, r, v.want)
			if r.Malformed != v.malformed {
				t.Errorf("malformed = %d, want %d", r.Malformed, v.malformed)
			}
		})
	}
}

func TestR8(t *testing.T) {
	t.Run("200 tokens in one write", func(t *testing.T) {
		var b strings.Builder
		b.WriteString(role)
		for range 200 {
			b.WriteString(c("a"))
		}
		b.WriteString(fin("length") + u(10, 200) + done)
		check(t, measure([]write{{500, b.String()}}, Cause{Kind: EOF}), figures{
			ttfe: 500, ttft: 500, ttfv: 500, last: 500, tbt: null, n: 200, from: FromUsageFinal,
			generated: 200, coalesced: 199, gaps: 0, minGap: null, maxGap: null, end: Completed,
		})
	})
	t.Run("5 events a write every 50 ms", func(t *testing.T) {
		var script []write
		for i := range 40 {
			script = append(script, write{500 + 50*float64(i), strings.Repeat(c("a"), 5)})
		}
		script = append(script, write{2451, fin("length") + u(10, 200) + done})
		r := measure(script, Cause{Kind: EOF})
		check(t, r, figures{
			ttfe: 500, ttft: 500, ttfv: 500, last: 2450, tbt: 1950.0 / 199, n: 200, from: FromUsageFinal,
			generated: 200, coalesced: 160, gaps: 39, minGap: 50, maxGap: 50, end: Completed,
		})
		if got := float64(r.CoalescedEvents) / float64(r.GeneratedEvents); got != 0.8 {
			t.Errorf("coalesced share = %v, want 0.8", got)
		}
	})
	t.Run("two reads with one kernel stamp", func(t *testing.T) {
		r := measure([]write{{500, c("a")}, {500, c("b")}, {520, c("c")}, {521, fin("stop") + done}}, Cause{Kind: EOF})
		if r.CoalescedEvents != 1 || r.Gaps.N != 1 || msOf(r.Gaps.MaxNS) != 20 {
			t.Errorf("coalesced %d, gaps %d of at most %v; want 1, 1 of 20", r.CoalescedEvents, r.Gaps.N, msOf(r.Gaps.MaxNS))
		}
	})
}

func TestR10(t *testing.T) {
	r := measure([]write{{100, c("a")}, {120, c("b")}, {140, c("c")}}, Cause{Kind: Stall, Err: fmt.Errorf("no byte for 60s")})
	check(t, r, figures{
		ttfe: 100, ttft: 100, ttfv: 100, last: 140, tbt: 20, n: 3, from: FromEstimate,
		generated: 3, gaps: 2, minGap: 20, maxGap: 20, end: Failed, reason: "stall",
	})
	if r.Error != "no byte for 60s" {
		t.Errorf("error = %q", r.Error)
	}
}

func TestR10b(t *testing.T) {
	var script []write
	at := 100.0
	for i := range 100 {
		if i == 50 {
			at += 390 // the pause is 400 in all
		}
		script = append(script, write{at, c("a")})
		at += 10
	}
	script = append(script, write{at - 9, fin("length") + u(10, 100) + done})
	m := NewMeter(Options{Dialect: wire.Chat})
	play(m, script)
	r := m.Finish(Cause{Kind: EOF}, ms(at))
	var gaps hist.H
	m.gapsInto(&gaps)
	if got := gaps.Sum() / float64(gaps.Count()) / 1e6; math.Abs(got-13.94) > 0.01 {
		t.Errorf("mean gap = %.3f ms, want 13.94", got)
	}
	if got := msOf(r.Gaps.MaxNS); got != 400 {
		t.Errorf("max gap = %v ms, want 400", got)
	}
	// Of 99 gaps the 99th in rank is the greatest.
	if got := msOf(r.Gaps.P99NS); math.Abs(got-400) > 400.0/256 {
		t.Errorf("p99 gap = %v ms, want 400", got)
	}
	if got := msOf(r.Gaps.P50NS); math.Abs(got-10) > 10.0/256 {
		t.Errorf("p50 gap = %v ms, want 10", got)
	}
}
