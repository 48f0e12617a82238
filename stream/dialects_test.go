package stream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// typed is an event of Messages or Responses: kind is its name and its type, and
// fields are its other members.
func typed(kind, fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + fields + "}\n\n"
}

func messageStart(input, cached int) string {
	return typed("message_start", fmt.Sprintf(`"message":{"id":"msg_1","model":"m","content":[],"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":1}}`, input, cached))
}

func block(index int, kind string) string {
	return typed("content_block_start", fmt.Sprintf(`"index":%d,"content_block":%s`, index, kind))
}

func delta(index int, kind, text string) string {
	member := map[string]string{"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json", "signature_delta": "signature"}[kind]
	quoted, _ := json.Marshal(text)
	return typed("content_block_delta", fmt.Sprintf(`"index":%d,"delta":{"type":"%s","%s":%s}`, index, kind, member, quoted))
}

func messageDelta(reason string, output int) string {
	return typed("message_delta", fmt.Sprintf(`"delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":%d}`, reason, output))
}

const (
	ping        = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	messageStop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

func outputText(text string) string {
	return typed("response.output_text.delta", `"item_id":"i","output_index":0,"content_index":0,"delta":"`+text+`","logprobs":[]`)
}

func completed(input, cached, output, reasoning int) string {
	return typed("response.completed", fmt.Sprintf(`"response":{"id":"resp_1","model":"m","error":null,"incomplete_details":null,"output":[{"type":"message","content":[{"type":"output_text","text":"all of it again"}]}],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d}}}`, input, cached, output, reasoning))
}

func ndjson(j string) string { return j + "\n" }

func lineDone(prompt, output int) string {
	return ndjson(fmt.Sprintf(`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":%d,"eval_count":%d,"eval_duration":900000000}`, prompt, output))
}

// speak is measure in another dialect.
func speak(d wire.Dialect, script []write, cause Cause) *Record {
	m := NewMeter(Options{Dialect: d, StoreText: true})
	play(m, script)
	end := 0.0
	if len(script) > 0 {
		end = script[len(script)-1].at
	}
	return m.Finish(cause, ms(end))
}

var (
	r31Messages = []write{
		{50, messageStart(7, 3) + block(0, `{"type":"thinking","thinking":"","signature":""}`)},
		{60, ping},
		{100, delta(0, "thinking_delta", "x")},
		{120, delta(0, "thinking_delta", "y") + delta(0, "signature_delta", "EqQB")},
		{121, typed("content_block_stop", `"index":0`) + block(1, `{"type":"text","text":""}`)},
		{140, delta(1, "text_delta", "a")},
		{150, ping},
		{160, delta(1, "text_delta", "b")},
		{180, messageDelta(`"end_turn"`, 9) + messageStop},
	}
	r31Responses = []write{
		{50, typed("response.created", `"response":{"id":"resp_1","model":"m","error":null,"output":[],"usage":null}`)},
		{60, typed("response.output_item.added", `"output_index":0,"item":{"id":"rs","type":"reasoning","summary":[]}`)},
		{100, typed("response.reasoning_summary_text.delta", `"item_id":"rs","delta":"x"`)},
		{120, typed("response.reasoning_summary_text.delta", `"item_id":"rs","delta":"y"`)},
		{130, typed("response.reasoning_summary_text.done", `"item_id":"rs","text":"xy"`)},
		{140, outputText("a")},
		{160, outputText("b")},
		{170, typed("response.output_text.done", `"text":"ab"`) + typed("response.output_item.done", `"item":{"type":"message","content":[{"type":"output_text","text":"ab"}]}`)},
		{180, completed(10, 3, 9, 5)},
	}
	r31Ollama = []write{
		{100, ndjson(`{"model":"m","message":{"role":"assistant","content":"","thinking":"x"},"done":false}`)},
		{120, ndjson(`{"model":"m","message":{"role":"assistant","content":"","thinking":"y"},"done":false}`)},
		{140, ndjson(`{"model":"m","message":{"role":"assistant","content":"a"},"done":false}`)},
		{160, ndjson(`{"model":"m","message":{"role":"assistant","content":"b"},"done":false}`)},
		{180, lineDone(10, 9)},
	}
)

// r31Figures are the same in all dialects but for the first event.
func r31Figures(ttfe float64) figures {
	return figures{
		ttfe: ttfe, ttft: 100, ttfv: 140, last: 160, tbt: 60.0 / 8, n: 9, from: FromUsageFinal,
		generated: 4, gaps: 3, minGap: 20, maxGap: 20, end: Completed,
	}
}

func TestR31(t *testing.T) {
	for _, v := range []struct {
		dialect   wire.Dialect
		script    []write
		ttfe      float64
		cached    Null[int]
		reasoning Null[int]
	}{
		{wire.Messages, r31Messages, 50, Some(3), Null[int]{}},
		{wire.Responses, r31Responses, 50, Some(3), Some(5)},
		{wire.Ollama, r31Ollama, 100, Null[int]{}, Null[int]{}},
	} {
		t.Run(v.dialect.String(), func(t *testing.T) {
			r := speak(v.dialect, v.script, Cause{Kind: EOF})
			check(t, r, r31Figures(v.ttfe))
			if r.PromptTokens != Some(10) || r.CachedTokens != v.cached || r.ReasoningTokens != v.reasoning || r.Finish != "stop" || r.Model != "m" || r.Dialect != v.dialect.String() {
				t.Errorf("prompt %+v, cached %+v, reasoning %+v, finish %q, model %q, dialect %q; want 10, %+v, %+v, stop, m, %v", r.PromptTokens, r.CachedTokens, r.ReasoningTokens, r.Finish, r.Model, r.Dialect, v.cached, v.reasoning, v.dialect)
			}
		})
	}
}

// Wherever a write is cut, and byte by byte: an event has the instant of the read
// that completed it, which here is that of the write, so the record is the same.
func TestR31Cut(t *testing.T) {
	for _, v := range []struct {
		dialect wire.Dialect
		script  []write
	}{{wire.Messages, r31Messages}, {wire.Responses, r31Responses}, {wire.Ollama, r31Ollama}} {
		record := func(script []write) string {
			r := speak(v.dialect, script, Cause{Kind: EOF})
			r.SentRealNS = Null[int64]{} // by a reading of the clocks, which is renewed now and then
			return string(r.Append(nil))
		}
		want := record(v.script)
		var single []write
		for i, w := range v.script {
			for j := range len(w.bytes) {
				single = append(single, write{w.at, w.bytes[j : j+1]})
				cut := slices.Concat(v.script[:i], []write{{w.at, w.bytes[:j]}, {w.at, w.bytes[j:]}}, v.script[i+1:])
				if got := record(cut); got != want {
					t.Fatalf("%v, write %d cut at %d:\n got %s\nwant %s", v.dialect, i, j, got, want)
				}
			}
		}
		if got := record(single); got != want {
			t.Errorf("%v, byte by byte:\n got %s\nwant %s", v.dialect, got, want)
		}
	}
}

// How streams of the other dialects end.
func TestR31Endings(t *testing.T) {
	text := delta(0, "text_delta", "a")
	said := ndjson(`{"message":{"content":"a"},"done":false}`)
	for _, v := range []struct {
		name    string
		dialect wire.Dialect
		body    string
		end     End
		reason  string
		tokens  int
		from    TokensFrom
		finish  string
		flags   string
	}{
		{"cut", wire.Messages, messageStart(7, 0) + text, Truncated, "", 1, FromEstimate, "", ""},
		{"cut behind the stop reason", wire.Messages, messageStart(7, 0) + text + messageDelta(`"max_tokens"`, 1), Completed, "", 1, FromUsageFinal, "length", "no_marker"},
		{"no usage at all", wire.Messages, text + typed("message_delta", `"delta":{"stop_reason":"end_turn"}`) + messageStop, Completed, "", 1, FromEstimate, "stop", ""},
		{"the last of several totals, which do not add up", wire.Messages, text + messageDelta("null", 3) + text + messageDelta(`"end_turn"`, 8) + messageStop, Completed, "", 8, FromUsageFinal, "stop", ""},
		{"a total behind the stop reason", wire.Messages, text + text + messageDelta(`"end_turn"`, 5) + messageDelta("null", 8) + messageStop, Completed, "", 8, FromUsageFinal, "stop", ""},
		{"overloaded", wire.Messages, messageStart(7, 0) + text + typed("error", `"error":{"type":"overloaded_error","message":"Overloaded"}`), Failed, "in_band", 1, FromEstimate, "", ""},
		{"nothing was said", wire.Messages, messageStart(7, 0) + messageDelta(`"end_turn"`, 0) + messageStop, Failed, "empty", 0, FromUsageFinal, "stop", ""},
		{"[DONE] behind the marker", wire.Messages, text + messageDelta(`"end_turn"`, 1) + messageStop + done, Completed, "", 1, FromUsageFinal, "stop", ""},
		{"text behind the marker", wire.Messages, text + messageDelta(`"end_turn"`, 1) + messageStop + text, Completed, "", 1, FromUsageFinal, "stop", "after_marker"},

		{"cut", wire.Responses, outputText("a"), Truncated, "", 1, FromEstimate, "", ""},
		{"failed", wire.Responses, outputText("a") + typed("response.failed", `"response":{"error":{"code":"server_error","message":"boom"},"usage":{"input_tokens":7,"output_tokens":1}}`), Failed, "in_band", 1, FromEstimate, "", ""},
		{"error", wire.Responses, outputText("a") + typed("error", `"code":"x","message":"boom"`), Failed, "in_band", 1, FromEstimate, "", ""},
		{"at the limit", wire.Responses, outputText("a") + typed("response.incomplete", `"response":{"incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":7,"output_tokens":4}}`), Completed, "", 4, FromUsageFinal, "length", ""},
		{"thinking that was not shown", wire.Responses, outputText("a") + outputText("b") + completed(7, 0, 900, 800), Completed, "", 900, FromUsageFinal, "stop", "hidden_reasoning"},
		{"the whole text only at the end is no token", wire.Responses, completed(7, 0, 4, 0), Failed, "empty", 4, FromUsageFinal, "stop", ""},
		{"[DONE] behind the marker", wire.Responses, outputText("a") + completed(7, 0, 1, 0) + done, Completed, "", 1, FromUsageFinal, "stop", ""},

		{"cut, as by Ollama's own guard against loops", wire.Ollama, said + said, Truncated, "", 2, FromEstimate, "", ""},
		{"error", wire.Ollama, said + ndjson(`{"error":"boom"}`), Failed, "in_band", 1, FromEstimate, "", ""},
		{"a model that was only loaded", wire.Ollama, ndjson(`{"response":"","done":true,"done_reason":"load"}`), Failed, "empty", 0, FromEstimate, "load", ""},
		{"a text in the last line counts", wire.Ollama, said + ndjson(`{"message":{"content":"b"},"done":true,"done_reason":"stop"}`), Completed, "", 2, FromEstimate, "stop", ""},
		{"no line feed at the end", wire.Ollama, said + strings.TrimSuffix(lineDone(7, 1), "\n"), Completed, "", 1, FromUsageFinal, "stop", ""},
		{"logprobs count the tokens of a line", wire.Ollama, ndjson(`{"response":"ab","logprobs":[{},{}],"done":false}`) + lineDone(7, 2), Completed, "", 2, FromLogprobs, "stop", ""},
	} {
		t.Run(v.dialect.String()+", "+v.name, func(t *testing.T) {
			r := speak(v.dialect, []write{{100, v.body}}, Cause{Kind: EOF})
			if r.End != v.end || string(r.Reason) != v.reason || r.Tokens != v.tokens || r.TokensFrom != v.from || string(r.Finish) != v.finish || strings.Join(r.Flags, " ") != v.flags {
				t.Errorf("got %s %q, %d tokens %s, finish %q, flags %q; want %s %q, %d %s, %q, %q", r.End, r.Reason, r.Tokens, r.TokensFrom, r.Finish, r.Flags, v.end, v.reason, v.tokens, v.from, v.finish, v.flags)
			}
		})
	}
}

// A call's arguments are output, judged and shown apart from the text.
func TestR31Calls(t *testing.T) {
	call := block(1, `{"type":"tool_use","id":"t","name":"f","input":{}}`)
	args := func(s string) string { return delta(1, "input_json_delta", s) }
	r := speak(wire.Messages, []write{{50, messageStart(7, 0)}, {100, call}, {120, args(`{"x"`)}, {140, args(`:1}`)}, {150, messageDelta(`"tool_use"`, 8) + messageStop}}, Cause{Kind: EOF})
	check(t, r, figures{
		ttfe: 50, ttft: 100, ttfv: 120, last: 140, tbt: 40.0 / 7, n: 8, from: FromUsageFinal,
		generated: 3, gaps: 2, minGap: 20, maxGap: 20, end: Completed,
	})
	if r.Finish != "tool_calls" {
		t.Errorf("finish %q, want tool_calls", r.Finish)
	}
	m := NewMeter(Options{Dialect: wire.Messages})
	play(m, []write{{100, delta(0, "thinking_delta", "r") + delta(1, "text_delta", "a") + block(2, `{"type":"tool_use","name":"f","input":{}}`) + delta(2, "input_json_delta", "{}")}})
	var channels []wire.Channel
	for _, e := range m.Log() {
		channels = append(channels, wire.Channel(e.Channel))
	}
	if want := []wire.Channel{wire.Reasoning, wire.Content, wire.Tool0, wire.Tool0}; !slices.Equal(channels, want) {
		t.Errorf("channels %v, want %v", channels, want)
	}
}

// A text that repeats in deltas is a loop in every dialect; the same text
// repeated by an event that ends in done is none.
func TestR31Loops(t *testing.T) {
	const cycles = 1200
	say := map[wire.Dialect]string{
		wire.Messages:  delta(0, "text_delta", "duct"),
		wire.Responses: outputText("duct"),
		wire.Ollama:    ndjson(`{"response":"duct","done":false}`),
	}
	for d, event := range say {
		m := NewMeter(Options{Dialect: d})
		m.Sent(origin)
		var sig Signal
		for i := range cycles {
			sig |= m.Observe([]byte(event), origin+stamp.Instant(i+1)*1e6)
		}
		if r := m.Finish(Cause{Kind: Retired}, m.lastRead); sig&SigLoop == 0 || r.End != Looped {
			t.Errorf("%v: signals %b, end %s; want a loop", d, sig, r.End)
		}
	}
}

// dialectOf returns the dialect of a capture by its name; completions are read as
// chat.
func dialectOf(file string) wire.Dialect {
	switch {
	case strings.Contains(file, "-messages."):
		return wire.Messages
	case strings.Contains(file, "-responses."):
		return wire.Responses
	case strings.Contains(file, "-ollama-"):
		return wire.Ollama
	}
	return wire.Chat
}

// The tokens of captured streams are those of their final usage.
func TestR31Captures(t *testing.T) {
	for _, v := range []struct {
		file   string
		want   figures
		finish string
		prompt int
		cached Null[int]
	}{
		{"vllm/15-anthropic-messages.sse", figures{
			ttfe: 199.4, ttft: 199.4, ttfv: 199.4, last: 223.1, tbt: 23.7 / 3, n: 4, from: FromUsageFinal,
			generated: 4, gaps: 3, minGap: 2.1, maxGap: 13.2, end: Completed,
		}, "length", 7, Null[int]{}},
		{"sglang/15-anthropic-messages.sse", figures{
			ttfe: 34.1, ttft: 42.3, ttfv: 42.3, last: 62.4, tbt: 20.1 / 3, n: 4, from: FromUsageFinal,
			generated: 4, gaps: 3, minGap: 2.3, maxGap: 10.8, end: Completed,
		}, "length", 7, Null[int]{}},
		{"llamacpp/15-anthropic-messages.sse", figures{
			ttfe: 3.4, ttft: 3.4, ttfv: 3.4, last: 9.2, tbt: 5.8 / 3, n: 4, from: FromUsageFinal,
			generated: 4, coalesced: 2, gaps: 1, minGap: 5.8, maxGap: 5.8, end: Completed,
		}, "length", 7, Some(6)},
		{"vllm/16-responses.sse", figures{
			ttfe: 8, ttft: 96.1, ttfv: 96.1, last: 140.4, tbt: 44.3 / 3, n: 4, from: FromUsageFinal,
			generated: 4, gaps: 3, minGap: 5.1, maxGap: 30.6, end: Completed,
		}, "length", 7, Some(0)},
		{"sglang/16-responses.sse", figures{
			ttfe: 11, ttft: 146.8, ttfv: 146.8, last: 149.3, tbt: 2.5, n: 2, from: FromUsageFinal,
			generated: 2, gaps: 1, minGap: 2.5, maxGap: 2.5, end: Completed,
		}, "length", 7, Some(6)},
		{"llamacpp/16-responses.sse", figures{
			ttfe: 11.3, ttft: 11.3, ttfv: 11.3, last: 29.5, tbt: 18.2 / 3, n: 4, from: FromUsageFinal,
			generated: 4, gaps: 3, minGap: 2.3, maxGap: 8.3, end: Completed,
		}, "stop", 7, Some(6)},
		{"sglang/17-ollama-chat.ndjson", figures{
			ttfe: 41.3, ttft: 41.3, ttfv: 41.3, last: 54.3, tbt: 13.0 / 4, n: 5, from: FromEstimate,
			generated: 5, gaps: 4, minGap: 2.6, maxGap: 4.3, end: Completed,
		}, "stop", wire.None, Null[int]{}},
	} {
		t.Run(v.file, func(t *testing.T) {
			m := NewMeter(Options{Dialect: dialectOf(v.file)})
			replay(t, m, v.file, 200)
			r := m.Finish(Cause{Kind: EOF}, m.lastRead)
			check(t, r, v.want)
			if string(r.Finish) != v.finish || r.PromptTokens != count(v.prompt) || r.CachedTokens != v.cached {
				t.Errorf("finish %q, prompt %+v, cached %+v; want %q, %d, %+v", r.Finish, r.PromptTokens, r.CachedTokens, v.finish, v.prompt, v.cached)
			}
		})
	}
}
