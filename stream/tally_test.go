package stream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streamgauge/streamgauge/wire"
)

func TestTokenSources(t *testing.T) {
	ids := func(event string, n int) string {
		return inChoice(event, `"token_ids":[`+strings.TrimSuffix(strings.Repeat("1,", n), ",")+`]`)
	}
	logprobs := func(event string, n int) string {
		return inChoice(event, `"logprobs":{"content":[`+strings.TrimSuffix(strings.Repeat(`{"token":"a"},`, n), ",")+`]}`)
	}
	timings := func(event string, n int) string {
		return with(event, fmt.Sprintf(`"timings":{"cache_n":6,"prompt_n":1,"predicted_n":%d}`, n))
	}
	end := fin("length") + done
	for _, v := range []struct {
		name   string
		events []string // 10 ms apart
		from   TokensFrom
		n      int
		per    string // tokens of each generated event
		flags  string
	}{
		{"token ids win over all", []string{plus(logprobs(ids(c("a"), 2), 2), 2), plus(logprobs(ids(c("b"), 3), 3), 5), fin("length") + u(10, 5) + done}, FromTokenIDs, 5, "[2 3]", ""},
		{"token ids null on every chunk are not offered: vLLM", []string{inChoice(c("a"), `"token_ids":null`), inChoice(c("b"), `"token_ids":null`), end}, FromEstimate, 2, "[1 1]", ""},
		{"usage wins over logprobs", []string{plus(logprobs(c("a"), 2), 2), plus(logprobs(c("b"), 1), 3), end}, FromUsageContinuous, 3, "[2 1]", ""},
		{"logprobs win over timings", []string{timings(logprobs(c("a"), 2), 2), timings(logprobs(c("b"), 1), 3), end}, FromLogprobs, 3, "[2 1]", ""},
		{"timings on every chunk: llama.cpp, tokens held back", []string{timings(c("a"), 2), timings(c("b"), 5), timings(c("c"), 9), fin("length") + timings(u(10, 9), 9) + done}, FromNative, 9, "[2 3 4]", ""},
		{"timings in the last chunk are a total", []string{c("a"), c("b"), timings(fin("length"), 6) + done}, FromUsageFinal, 6, "[3 3]", ""},
		{"held-back characters: empty content, a token id", []string{ids(c(""), 1), ids(c(""), 1), ids(c("漢"), 1), end}, FromTokenIDs, 3, "[1 1 1]", ""},
		{"held-back characters: empty content, usage rose", []string{plus(c(""), 1), plus(c(""), 2), plus(c("漢"), 3), end}, FromUsageContinuous, 3, "[1 1 1]", ""},
		{"held-back characters: empty content, a logprob entry", []string{logprobs(c(""), 1), logprobs(c("漢"), 1), end}, FromLogprobs, 2, "[1 1]", ""},
		{"empty content, nothing rose: no event", []string{plus(c("a"), 1), plus(c(""), 1), plus(c("b"), 2), end}, FromUsageContinuous, 2, "[1 1]", ""},
		{"a swallowed token: usage jumps with the next chunk", []string{plus(c("a"), 1), plus(c("b"), 3), end}, FromUsageContinuous, 3, "[1 2]", ""},
		{"usage never falls", []string{plus(c("a"), 3), plus(c("b"), 2), plus(c("c"), 4), end}, FromUsageContinuous, 4, "[3 0 1]", ""},
		{"usage null in the last chunk: the maximum seen counts", []string{plus(c("a"), 1), plus(c("b"), 2), with(fin("length"), `"usage":null`) + done}, FromUsageContinuous, 2, "[1 1]", ""},
		{"the end-of-text token, told by usage only, raises N", []string{plus(c("a"), 1), plus(c("b"), 2), fin("stop") + u(10, 3) + done}, FromUsageContinuous, 3, "[1 1]", ""},
		{"the finish chunk may carry a token: the count rose", []string{plus(c("a"), 1), plus(c("b"), 2), plus(fin("stop"), 3) + done}, FromUsageContinuous, 3, "[1 1 1]", ""},
		{"ids on some chunks only, no total: the next source", []string{plus(ids(c("a"), 1), 1), plus(c("b"), 2), plus(ids(c("c"), 1), 3), end}, FromUsageContinuous, 3, "[1 1 1]", "source_incomplete"},
		{"ids on the last delta of a step, the total agrees: LMDeploy", []string{c("a"), ids(c("b"), 4), fin("stop") + u(10, 4) + done}, FromTokenIDs, 4, "[0 4]", ""},
		{"ids on some chunks only, and nothing else: estimated, and said so", []string{ids(c("a"), 3), c("b"), end}, FromEstimate, 2, "[1 1]", "source_incomplete"},
		{"usage that stops being told is spread by the total", []string{plus(c("a"), 1), c("b"), c("c"), fin("stop") + u(10, 6) + done}, FromUsageFinal, 6, "[2 2 2]", "source_incomplete"},
		{"usage told now and then: the rise is spread over the chunks it covers", []string{plus(c("a"), 1), c("b"), plus(c("c"), 4), end}, FromUsageContinuous, 4, "[1 1 2]", ""},
		{"a server that says 1 with every chunk", append(append([]string{}, repeated(plus(c("a"), 1), 40)...), fin("stop")+u(10, 40)+done), FromUsageFinal, 40, "[" + strings.TrimSuffix(strings.Repeat("1 ", 40), " ") + "]", "source_incomplete"},
		{"token ids against the server's total: flagged", []string{ids(c("a"), 2), ids(c("b"), 2), fin("stop") + u(10, 5) + done}, FromTokenIDs, 5, "[2 2]", "usage_mismatch"},
		{"aborted with per-chunk counts: what came counts", []string{plus(c("a"), 4), plus(c("b"), 8)}, FromUsageContinuous, 8, "[4 4]", ""},
		{"total not divisible by the events", []string{c("a"), c("b"), c("c"), fin("stop") + u(10, 7) + done}, FromUsageFinal, 7, "[2 2 3]", ""},
		{"a total of zero beside text: gateways fill usage with zeros", []string{c("a"), c("b"), fin("stop") + u(10, 0) + done}, FromEstimate, 2, "[1 1]", ""},
		{"likewise in the chunk that ends the choice", []string{c("a"), c("b"), plus(fin("stop"), 0) + done}, FromEstimate, 2, "[1 1]", ""},
		{"a total told before most of the stream, then cut off", []string{c("a"), u(10, 1), c("b"), c("c")}, FromEstimate, 3, "[1 1 1]", ""},
		{"a total told early that still exceeds the events: at least as many", []string{c("a"), u(10, 8), c("b")}, FromUsageFinal, 8, "[4 4]", ""},
		{"ids that repeat all so far, against the total", []string{ids(c("a"), 20), ids(c("b"), 40), fin("length") + u(10, 40) + done}, FromUsageFinal, 40, "[20 20]", "source_incomplete"},
		{"a rise of thousands of millions over several chunks: once overflowed to negative tokens", []string{plus(c("a"), 1), c("b"), c("c"), c("d"), plus(c("e"), 2e9), end}, FromUsageContinuous, 2e9, "[1 499999999 500000000 500000000 500000000]", ""},
		{"two channels in one delta are one event", []string{plus(k(`{"reasoning_content":"r","content":"c"}`), 2), plus(c("b"), 3), end}, FromUsageContinuous, 3, "[2 1]", ""},
	} {
		t.Run(v.name, func(t *testing.T) {
			m := NewMeter(Options{Dialect: wire.Chat})
			var script []write
			for i, e := range v.events {
				script = append(script, write{100 + 10*float64(i), e})
			}
			play(m, script)
			live := m.Tokens()
			r := m.Finish(Cause{Kind: EOF}, ms(1000))
			var per []int32
			for _, e := range m.Log() {
				if e.Flags&SameEvent == 0 {
					per = append(per, e.Tokens)
				}
			}
			if r.TokensFrom != v.from || r.Tokens != v.n || fmt.Sprint(per) != v.per || strings.Join(r.Flags, " ") != v.flags {
				t.Errorf("%d tokens from %s, per event %v, flags %v; want %d from %s, %s, [%s]", r.Tokens, r.TokensFrom, per, r.Flags, v.n, v.from, v.per, v.flags)
			}
			if live != v.n {
				t.Errorf("Tokens before Finish = %d, want %d", live, v.n)
			}
			log := EventLog(m.Log(), origin)
			if len(log) != len(per) || len(per) != r.GeneratedEvents {
				t.Errorf("event_log of %d, log of %d, generated_events %d; want them equal", len(log), len(per), r.GeneratedEvents)
			}
			for i, e := range log {
				if e[1] != int64(per[i]) {
					t.Errorf("event_log[%d] has %d tokens, the log %d", i, e[1], per[i])
				}
			}
		})
	}
}

// Of a total that is spread, a full log gets the part of its events: it once got
// all, and windows in it counted tokens of events behind them.
func TestFullLogGetsItsPart(t *testing.T) {
	m := NewMeter(Options{Dialect: wire.Chat, MaxLog: 2})
	play(m, []write{{100, c("a")}, {110, c("b")}, {120, c("c")}, {130, c("d")}, {131, fin("length") + u(10, 12) + done}})
	r := m.Finish(Cause{Kind: EOF}, ms(200))
	if log := m.Log(); len(log) != 2 || log[0].Tokens != 3 || log[1].Tokens != 3 || r.Tokens != 12 {
		t.Errorf("log %+v of %d tokens, want two events of 3 and 12", log, r.Tokens)
	}
}

func repeated(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func TestPromptFacts(t *testing.T) {
	details := `"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":1}}`
	r := measure([]write{{10, g("a")}, {20, c("b")}, {21, with(fin("stop"), details) + done}}, Cause{Kind: EOF})
	if r.PromptTokens != Some(10) || r.CachedTokens != Some(4) || r.ReasoningTokens != Some(1) {
		t.Errorf("prompt %+v, cached %+v, reasoning %+v; want 10, 4, 1", r.PromptTokens, r.CachedTokens, r.ReasoningTokens)
	}
	r = measure([]write{{10, with(c("b"), `"timings":{"cache_n":6,"prompt_n":3,"predicted_n":1}`)}}, Cause{Kind: Cancel})
	if r.PromptTokens != Some(9) || r.CachedTokens != Some(6) {
		t.Errorf("by timings: prompt %+v, cached %+v; want 9, 6", r.PromptTokens, r.CachedTokens)
	}
	r = measure([]write{{10, with(c("b"), `"usage":{"prompt_tokens":0,"completion_tokens":0}`)}}, Cause{Kind: Cancel})
	if r.PromptTokens.OK {
		t.Errorf("zeros on each chunk: prompt %+v, want null", r.PromptTokens)
	}
	r = measure([]write{{10, c("b")}}, Cause{Kind: Cancel})
	if r.PromptTokens.OK || r.CachedTokens.OK || r.ReasoningTokens.OK {
		t.Errorf("nothing told: prompt %+v, cached %+v, reasoning %+v; want null", r.PromptTokens, r.CachedTokens, r.ReasoningTokens)
	}
}

// Asking for the log all the time changes nothing about it.
func TestLogIsIncremental(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []string
		told := [2]int{}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			i := rapid.IntRange(0, 1).Draw(t, "choice")
			e := chunk(i, `{"content":"a"}`, "null")
			n := rapid.IntRange(1, 3).Draw(t, "tokens")
			told[i] += n
			if rapid.IntRange(0, 9).Draw(t, "usage") > 0 {
				e = plus(e, told[i])
			}
			if rapid.IntRange(0, 9).Draw(t, "ids") > 0 {
				e = inChoice(e, `"token_ids":[`+strings.TrimSuffix(strings.Repeat("1,", n), ",")+`]`)
			}
			events = append(events, e)
		}
		if rapid.Bool().Draw(t, "total") {
			events = append(events, u(10, told[0]+told[1]))
		}
		often, once := NewMeter(Options{Dialect: wire.Chat}), NewMeter(Options{Dialect: wire.Chat})
		for i, e := range events {
			often.Observe([]byte(e), ms(float64(i)))
			often.Log()
			once.Observe([]byte(e), ms(float64(i)))
		}
		if d := cmp.Diff(often.Log(), once.Log()); d != "" {
			t.Fatalf("before Finish: often - once +:\n%s", d)
		}
		a, b := often.Finish(Cause{}, ms(99)), once.Finish(Cause{}, ms(99))
		if d := cmp.Diff(often.Log(), once.Log()); d != "" {
			t.Fatalf("after Finish: often - once +:\n%s", d)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatalf("records: often - once +:\n%s", d)
		}
	})
}

// Tokens that only a total can tell are not guessed while the stream runs.
func TestLogBeforeTheTotal(t *testing.T) {
	m := NewMeter(Options{Dialect: wire.Chat})
	play(m, []write{{100, c("a")}, {120, c("b")}})
	for i, e := range m.Log() {
		if e.Tokens != 0 {
			t.Errorf("event %d has %d tokens before the total is told, want 0", i, e.Tokens)
		}
	}
	m.Finish(Cause{Kind: Cancel}, ms(130))
	for i, e := range m.Log() {
		if e.Tokens != 1 {
			t.Errorf("event %d has %d tokens at the end, want 1, estimated", i, e.Tokens)
		}
	}
}
