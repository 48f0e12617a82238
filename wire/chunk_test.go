package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// one returns the only event of a payload.
func one(t *testing.T, payload string) Event {
	t.Helper()
	events, _ := decode(t, 0, "data: "+payload+"\n\n")
	if len(events) != 1 {
		t.Fatalf("%d events from %s, want 1", len(events), payload)
	}
	return events[0]
}

func part(c Channel, s string) Part { return Part{Channel: c, Text: []byte(s)} }

func name(c Channel, s string) Part { return Part{Channel: c, Name: true, Text: []byte(s)} }

func TestParts(t *testing.T) {
	delta := func(d string) string { return `{"choices":[{"index":0,"delta":` + d + `}]}` }
	for _, c := range []struct {
		name, payload string
		want          []Part
	}{
		{"role chunk", delta(`{"role":"assistant","content":""}`), nil},
		{"role chunk of llama.cpp", delta(`{"role":"assistant","content":null}`), nil},
		{"delta null", delta(`null`), nil},
		{"no delta", `{"choices":[{"index":0,"finish_reason":null}]}`, nil},
		{"content", delta(`{"content":"a"}`), []Part{part(Content, "a")}},
		{"completions text", `{"choices":[{"index":0,"text":"a"}]}`, []Part{part(Content, "a")}},
		{"reasoning_content: SGLang, llama.cpp, DeepSeek", delta(`{"reasoning_content":"r","content":null}`), []Part{part(Reasoning, "r")}},
		{"reasoning: vLLM 0.16 and later", delta(`{"reasoning":"r"}`), []Part{part(Reasoning, "r")}},
		{"thinking", delta(`{"thinking":"r"}`), []Part{part(Reasoning, "r")}},
		{"one text in two keys is one text", delta(`{"reasoning":"r","reasoning_content":"r"}`), []Part{part(Reasoning, "r")}},
		{"two texts in two keys are two", delta(`{"reasoning":"r","reasoning_content":"s"}`), []Part{part(Reasoning, "r"), part(Reasoning, "s")}},
		{"reasoning and content in one delta", delta(`{"reasoning_content":"r","content":"c"}`), []Part{part(Reasoning, "r"), part(Content, "c")}},
		{"refusal", delta(`{"refusal":"no"}`), []Part{part(Refusal, "no")}},
		{"content as an array of parts: Mistral", delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"r"}]},{"type":"text","text":"c"}]}`), []Part{part(Reasoning, "r"), part(Content, "c")}},
		{"thinking part as text", delta(`{"content":[{"type":"thinking","thinking":"r"}]}`), []Part{part(Reasoning, "r")}},
		{"first tool delta: name, no arguments yet", delta(`{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":""}}]}`), []Part{name(Tool0, "f")}},
		{"later tool delta", delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"a\""}}]}`), []Part{part(Tool0+1, `{"a"`)}},
		{"two calls whole in one chunk without index: Ollama", delta(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"[]"}}]}`), []Part{name(Tool0, "f"), part(Tool0, "{}"), name(Tool0+1, "g"), part(Tool0+1, "[]")}},
		{"null index", delta(`{"tool_calls":[{"index":null,"function":{"name":"f","arguments":"1"}}]}`), []Part{name(Tool0, "f"), part(Tool0, "1")}},
		{"arguments as an object", delta(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":{"a":1}}}]}`), []Part{name(Tool0, "f"), part(Tool0, `{"a":1}`)}},
		{"an index beyond all reason shares the last channel", delta(`{"tool_calls":[{"index":100000,"function":{"arguments":"1"}}]}`), []Part{part(Tool0+maxTool, "1")}},
		{"function_call of old", delta(`{"function_call":{"name":"f","arguments":"1"}}`), []Part{name(Tool0, "f"), part(Tool0, "1")}},
		{"tool call without function", delta(`{"tool_calls":[{"index":0,"id":"x"}]}`), nil},
		{"lone surrogates stay as they stand", delta(`{"content":"\udcaf"}`), []Part{part(Content, `\udcaf`)}},
		{"surrogate pair", delta(`{"content":"\ud83d\ude42"}`), []Part{part(Content, "🙂")}},
		{"obfuscation is padding", `{"obfuscation":"xxxxxxxx","choices":[{"index":0,"delta":{}}]}`, nil},
		{"prompt progress is no token: llama.cpp", `{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":7,"processed":7}}`, nil},
		{"non-stream message", `{"choices":[{"index":0,"message":{"content":"a","reasoning":null}}]}`, []Part{part(Content, "a")}},
		{"choices of another shape", `{"choices":["a"]}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := one(t, c.payload)
			var got []Part
			for _, ch := range ev.Choices {
				got = append(got, ch.Parts...)
			}
			if d := cmp.Diff(got, c.want); d != "" {
				t.Errorf("got - want +:\n%s", d)
			}
		})
	}
}

func TestUnnumberedToolCalls(t *testing.T) {
	call := func(id, function string) string {
		return `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"id":"` + id + `","function":` + function + `}]}}]}` + "\n\n"
	}
	events, _ := decode(t, 0, call("a", `{"name":"f","arguments":"1"}`), call("", `{"arguments":"2"}`), call("a", `{"arguments":"3"}`), call("b", `{"name":"g","arguments":"4"}`), call("", `{"name":"h"}`))
	var got []Part
	for _, ev := range events {
		got = append(got, ev.Choices[0].Parts...)
	}
	want := []Part{name(Tool0, "f"), part(Tool0, "1"), part(Tool0, "2"), part(Tool0, "3"), name(Tool0+1, "g"), part(Tool0+1, "4"), name(Tool0+2, "h")}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("got - want +:\n%s", d)
	}
}

func TestUsage(t *testing.T) {
	usage := func(prompt, completion, cached, reasoning int) Usage {
		return Usage{Has: true, PromptTokens: prompt, CompletionTokens: completion, CachedTokens: cached, ReasoningTokens: reasoning}
	}
	for _, c := range []struct {
		name, payload string
		want          Usage
	}{
		{"absent", `{"choices":[]}`, noUsage},
		{"null on each chunk", `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}`, noUsage},
		{"final chunk", `{"choices":[],"usage":{"prompt_tokens":7,"total_tokens":13,"completion_tokens":6}}`, usage(7, 6, None, None)},
		{"beside the finish reason", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":6}}`, usage(7, 6, None, None)},
		{"details null: vLLM", `{"usage":{"prompt_tokens":7,"completion_tokens":6,"prompt_tokens_details":null,"completion_tokens_details":null}}`, usage(7, 6, None, None)},
		{"details", `{"usage":{"prompt_tokens":7,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`, usage(7, 6, 4, 2)},
		{"prompt_cache_hit_tokens: DeepSeek", `{"usage":{"prompt_tokens":7,"completion_tokens":6,"prompt_cache_hit_tokens":5}}`, usage(7, 6, 5, None)},
		{"reasoning_tokens at the top: SGLang", `{"usage":{"prompt_tokens":7,"completion_tokens":6,"reasoning_tokens":3,"completion_tokens_details":null}}`, usage(7, 6, None, 3)},
		{"in the choice: Kimi", `{"choices":[{"index":0,"delta":{},"usage":{"prompt_tokens":7,"completion_tokens":6}}]}`, usage(7, 6, None, None)},
		{"under x_groq", `{"choices":[],"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":6}}}`, usage(7, 6, None, None)},
		{"zeros: Ollama", `{"choices":[{"index":0,"text":"a"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`, usage(0, 0, None, None)},
		{"counts of the wrong type are none", `{"usage":{"prompt_tokens":"7","completion_tokens":null}}`, usage(None, None, None, None)},
		{"counts out of range are none", `{"usage":{"prompt_tokens":-1,"completion_tokens":1e300}}`, usage(None, None, None, None)},
		{"whole numbers written as fractions", `{"usage":{"prompt_tokens":7.0,"completion_tokens":6e0}}`, usage(7, 6, None, None)},
		{"empty choices without usage: SGLang's sglext", `{"choices":[],"sglext":{"a":1}}`, noUsage},
	} {
		if got := one(t, c.payload).Usage; got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestCounts(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		ids, logprobs int
		native        int
	}{
		{"none", `{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,"token_ids":null}]}`, None, None, None},
		{"token_ids: vLLM", `{"choices":[{"index":0,"delta":{"content":""},"token_ids":[5,6]}]}`, 2, None, None},
		{"output_ids: LMDeploy", `{"choices":[{"index":0,"delta":{"content":"a"},"output_ids":[5]}]}`, 1, None, None},
		{"no token ids yet", `{"choices":[{"index":0,"delta":{"content":"a"},"token_ids":[]}]}`, 0, None, None},
		{"logprobs of chat", `{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"},{"token":"b"}]}}]}`, None, 2, None},
		{"logprobs of a refusal", `{"choices":[{"index":0,"delta":{"refusal":"a"},"logprobs":{"content":null,"refusal":[{"token":"a"}]}}]}`, None, 1, None},
		{"logprobs of completions", `{"choices":[{"index":0,"text":"a","logprobs":{"tokens":["a","b","c"],"token_logprobs":[0,0,0]}}]}`, None, 3, None},
		{"logprobs of an empty chunk", `{"choices":[{"index":0,"delta":{},"logprobs":{"content":[]}}]}`, None, 0, None},
		{"timings: llama.cpp", `{"choices":[{"index":0,"delta":{"content":"a"}}],"timings":{"cache_n":1,"prompt_n":2,"predicted_n":3}}`, None, None, 3},
	} {
		ev := one(t, c.payload)
		ch := ev.Choices[0]
		if ch.TokenIDs != c.ids || ch.Logprobs != c.logprobs || ev.Native.PredictedN != c.native {
			t.Errorf("%s: token_ids %d, logprobs %d, predicted_n %d; want %d, %d, %d", c.name, ch.TokenIDs, ch.Logprobs, ev.Native.PredictedN, c.ids, c.logprobs, c.native)
		}
	}
}

func TestFinish(t *testing.T) {
	for _, c := range []struct{ name, payload, finish, stop string }{
		{"null", `{"choices":[{"index":0,"delta":{},"finish_reason":null}]}`, "", ""},
		{"absent until the end: TensorRT-LLM", `{"choices":[{"index":0,"delta":{}}]}`, "", ""},
		{"empty instead of null: old SGLang, Ollama", `{"choices":[{"index":0,"delta":{},"finish_reason":""}]}`, "", ""},
		{"length", `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`, "length", ""},
		{"other spelling: Gemini", `{"choices":[{"index":0,"delta":{},"finishReason":"stop"}]}`, "stop", ""},
		{"the engine's own verdict: vLLM", `{"choices":[{"index":0,"delta":{},"finish_reason":"repetition","stop_reason":"repetition_detected"}]}`, "repetition", "repetition_detected"},
		{"stop reason as a token id", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":151645}]}`, "stop", ""},
	} {
		ch := one(t, c.payload).Choices[0]
		if string(ch.Finish) != c.finish || string(ch.Stop) != c.stop {
			t.Errorf("%s: finish %q, stop %q; want %q, %q", c.name, ch.Finish, ch.Stop, c.finish, c.stop)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		kind          Kind
		want          Error
	}{
		{"vLLM: code is a number", `{"error":{"message":"boom","type":"InternalServerError","param":null,"code":500}}`, Failure, Error{"InternalServerError", "500", "boom"}},
		{"OpenAI: code is a string", `{"error":{"message":"boom","type":"x","code":"rate_limit"}}`, Failure, Error{"x", "rate_limit", "boom"}},
		{"TGI: error is a text", `{"error":"boom","error_type":"generation"}`, Failure, Error{"generation", "", "boom"}},
		{"TGI on OpenAI paths", `{"error":{"message":"boom","http_status_code":422}}`, Failure, Error{"", "422", "boom"}},
		{"SGLang: bare object", `{"object":"error","message":"boom","type":"BadRequestError","code":400}`, Failure, Error{"BadRequestError", "400", "boom"}},
		{"FastAPI", `{"detail":"Not Found"}`, Failure, Error{"", "", "Not Found"}},
		{"FastAPI's validation", `{"detail":[{"loc":["body"],"msg":"bad"}]}`, Failure, Error{"", "", `[{"loc":["body"],"msg":"bad"}]`}},
		{"null on normal chunks", `{"error":null,"choices":[{"index":0,"delta":{"content":"a"}}]}`, Data, Error{}},
		{"empty text", `{"error":"","choices":[]}`, Data, Error{}},
		{"false", `{"error":false,"choices":[]}`, Data, Error{}},
		{"the word in a text", `{"choices":[{"index":0,"delta":{"content":"error: {\"error\":1}"}}]}`, Data, Error{}},
		{"detail beside choices", `{"detail":"x","choices":[{"index":0,"delta":{"content":"a"}}]}`, Data, Error{}},
		{"a number is JSON, and says nothing", `42`, Data, Error{}},
	} {
		ev := one(t, c.payload)
		if ev.Kind != c.kind || ev.Error != c.want {
			t.Errorf("%s: kind %d, error %+v; want %d, %+v", c.name, ev.Kind, ev.Error, c.kind, c.want)
		}
	}
}

func TestChoiceIndex(t *testing.T) {
	ev := one(t, `{"choices":[{"index":3,"delta":{"content":"a"}},{"delta":{"content":"b"}},{"index":null,"delta":{"content":"c"}}]}`)
	var got []int
	for _, c := range ev.Choices {
		got = append(got, c.Index)
	}
	if d := cmp.Diff(got, []int{3, 1, 2}); d != "" {
		t.Errorf("a choice without an index has that of its place; got - want +:\n%s", d)
	}
}

func TestIDAndModel(t *testing.T) {
	ev := one(t, `{"id":"r1","model":"m/x","choices":[]}`)
	if string(ev.ID) != "r1" || string(ev.Model) != "m/x" {
		t.Errorf("id %q, model %q; want r1, m/x", ev.ID, ev.Model)
	}
}

func TestTimings(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		want          Native
	}{
		{"absent", `{"choices":[]}`, noNative},
		{"null", `{"choices":[],"timings":null}`, noNative},
		{"llama.cpp", `{"choices":[],"timings":{"cache_n":1,"prompt_n":2,"predicted_n":3,"predicted_ms":4.5}}`, Native{Has: true, CacheN: 1, PromptN: 2, PredictedN: 3}},
		{"before cache_n came", `{"choices":[],"timings":{"prompt_n":2,"predicted_n":3}}`, Native{Has: true, CacheN: None, PromptN: 2, PredictedN: 3}},
	} {
		if got := one(t, c.payload).Native; got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
