package stream

import (
	"fmt"
	"testing"

	"github.com/streamgauge/streamgauge/wire"
)

func TestR27(t *testing.T) {
	say := func(choice int, text string) string {
		return chunk(choice, `{"content":"`+text+`"}`, "null")
	}
	end := func(choice int) string { return chunk(choice, "{}", `"length"`) }
	timings := func(n int) string {
		return with(u(7, n), fmt.Sprintf(`"timings":{"cache_n":6,"prompt_n":1,"predicted_n":%d}`, n))
	}
	interleaved := []write{{100, say(1, "x")}, {105, say(0, "a")}, {120, say(1, "y")}, {125, say(0, "b")}, {140, say(1, "z")}}
	for _, v := range []struct {
		name  string
		tail  string
		n     int
		from  TokensFrom
		flags string
	}{
		{"one usage chunk, the sum", end(1) + end(0) + u(7, 5) + done, 5, FromUsageFinal, ""},
		{"one usage chunk per choice, not summed: llama.cpp", end(1) + timings(3) + end(0) + timings(2) + done, 5, FromUsageFinal, ""},
		{"the same without timings, the last one twice", end(1) + u(7, 3) + end(0) + u(7, 2) + u(7, 2) + done, 5, FromUsageFinal, ""},
		{"no usage", end(1) + end(0) + done, 5, FromEstimate, ""},
	} {
		t.Run(v.name, func(t *testing.T) {
			texts := map[int]string{}
			m := NewMeter(Options{Dialect: wire.Chat, Text: func(_ wire.Channel, choice int, p []byte) { texts[choice] += string(p) }})
			play(m, append(interleaved[:5:5], write{141, v.tail}))
			r := m.Finish(Cause{Kind: EOF}, ms(142))
			check(t, r, figures{
				ttfe: 100, ttft: 100, ttfv: 100, last: 140, tbt: 10, n: v.n, from: v.from,
				// 1: 100, 120, 140; 0: 105, 125
				generated: 5, gaps: 3, minGap: 20, maxGap: 20, end: Completed, flags: v.flags,
			})
			if texts[0] != "ab" || texts[1] != "xyz" {
				t.Errorf("texts %q and %q, want ab and xyz", texts[0], texts[1])
			}
		})
	}
	t.Run("continuous usage is per choice", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		play(m, []write{
			{100, plus(say(1, "x"), 1)}, {105, plus(say(0, "a"), 2)}, {120, plus(say(1, "y"), 4)}, {125, plus(say(0, "b"), 3)},
			{141, end(1) + end(0) + u(7, 7) + done},
		})
		r := m.Finish(Cause{Kind: EOF}, ms(142))
		if r.Tokens != 7 || r.TokensFrom != FromUsageContinuous {
			t.Errorf("tokens %d from %s, want 7 from usage_continuous", r.Tokens, r.TokensFrom)
		}
		var got []int32
		for _, e := range m.Log() {
			got = append(got, e.Tokens)
		}
		if fmt.Sprint(got) != "[1 2 3 1]" {
			t.Errorf("tokens per event %v, want [1 2 3 1]", got)
		}
	})
	t.Run("one choice after the other, a usage chunk behind each: llama.cpp with one slot", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		play(m, []write{
			{100, say(1, "x")}, {120, say(1, "y") + end(1) + timings(3)},
			{140, say(0, "a")}, {160, say(0, "b") + end(0) + timings(2) + done},
		})
		if r := m.Finish(Cause{Kind: EOF}, ms(161)); r.Tokens != 5 || r.TokensFrom != FromUsageFinal {
			t.Errorf("tokens %d from %s, want 5 from usage_final", r.Tokens, r.TokensFrom)
		}
	})
	t.Run("two choices in a bare JSON reply", func(t *testing.T) {
		r := measure([]write{{100, `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"},{"index":1,"message":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":9}}`}}, Cause{Kind: EOF})
		if r.Tokens != 9 || r.GeneratedEvents != 2 || r.End != Completed {
			t.Errorf("tokens %d, events %d, end %s; want 9, 2, completed", r.Tokens, r.GeneratedEvents, r.End)
		}
	})
	t.Run("more choices than are told apart", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		for i := range 2 * maxChoices {
			m.Observe([]byte(say(i, "x")), ms(float64(i)))
		}
		if r := m.Finish(Cause{Kind: Cancel}, ms(999)); r.Tokens != 2*maxChoices || len(m.choices) != maxChoices {
			t.Errorf("%d tokens, %d states; want %d and %d", r.Tokens, len(m.choices), 2*maxChoices, maxChoices)
		}
	})
	t.Run("half of the choices finished is not the end", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		if sig := play(m, append(interleaved[:5:5], write{141, end(1)})); sig&SigFinish != 0 {
			t.Error("SigFinish with one of two choices finished")
		}
		if r := m.Finish(Cause{Kind: EOF}, ms(142)); r.End != Truncated {
			t.Errorf("end = %s, want truncated", r.End)
		}
	})
}

func TestR28(t *testing.T) {
	tool := func(s string) string { return k(`{"tool_calls":[` + s + `]}`) }
	check(t, measure([]write{
		{50, role},
		{300, tool(`{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":""}}`)},
		{320, tool(`{"index":0,"function":{"arguments":"{\"city\":"}}`)},
		{340, tool(`{"index":0,"function":{"arguments":"\"Berlin\"}"}}`)},
		{341, fin("tool_calls") + u(10, 9) + done},
	}, Cause{Kind: EOF}), figures{
		ttfe: 50, ttft: 300, ttfv: 320, last: 340, tbt: 40.0 / 8, n: 9, from: FromUsageFinal,
		generated: 3, gaps: 2, minGap: 20, maxGap: 20, end: Completed,
	})
}
