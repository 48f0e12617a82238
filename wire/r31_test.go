package wire

import (
	"strings"
	"testing"
)

// sse frames a payload as Messages and Responses do: the event is named as its
// type is.
func sse(payload string) string {
	kind := payload[strings.Index(payload, `"type":"`)+len(`"type":"`):]
	return "event: " + kind[:strings.IndexByte(kind, '"')] + "\ndata: " + payload + "\n\n"
}

// The stream of R31 in Anthropic's dialect, with a call besides.
var r31Messages = sse(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,"output_tokens":1}}}`) +
	sse(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`) +
	sse(`{"type":"ping"}`) +
	sse(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm\u00f6"}}`) +
	sse(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM"}}`) +
	sse(`{"type":"content_block_stop","index":0}`) +
	sse(`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`) +
	sse(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}`) +
	sse(`{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"char_location","cited_text":"z"}}}`) +
	sse(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" 漢"}}`) +
	sse(`{"type":"content_block_stop","index":1}`) +
	sse(`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`) +
	sse(`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}`) +
	sse(`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\":1}"}}`) +
	sse(`{"type":"content_block_stop","index":2}`) +
	sse(`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}`) +
	sse(`{"type":"message_stop"}`)

var r31Responses = sse(`{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"incomplete_details":null,"model":"m","output":[],"usage":null},"sequence_number":0}`) +
	sse(`{"type":"response.in_progress","response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"model":"m","output":[],"usage":null},"sequence_number":1}`) +
	sse(`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]},"sequence_number":2}`) +
	sse(`{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""},"sequence_number":3}`) +
	sse(`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"hmö","sequence_number":4,"obfuscation":"xxxx"}`) +
	sse(`{"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"hmö","sequence_number":5}`) +
	sse(`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hmö"}]},"sequence_number":6}`) +
	sse(`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]},"sequence_number":7}`) +
	sse(`{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":""},"sequence_number":8}`) +
	sse(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"a","logprobs":[],"sequence_number":9}`) +
	"event: response.output_text.delta\ndata: " + `{"content_index":0,"delta":" 漢","item_id":"msg_1","logprobs":[{"token":" 漢","logprob":-0.1}],"output_index":1,"sequence_number":10,"type":"response.output_text.delta"}` + "\n\n" +
	sse(`{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"a 漢","sequence_number":11}`) +
	sse(`{"type":"response.content_part.done","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"a 漢"},"sequence_number":12}`) +
	sse(`{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"a 漢"}]},"sequence_number":13}`) +
	sse(`{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"f","arguments":""},"sequence_number":14}`) +
	sse(`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"x\":1}","sequence_number":15}`) +
	sse(`{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"x\":1}","sequence_number":16}`) +
	sse(`{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","name":"f","arguments":"{\"x\":1}"},"sequence_number":17}`) +
	sse(`{"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"model":"m","output":[{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hmö"}]},{"type":"message","content":[{"type":"output_text","text":"a 漢"}]},{"type":"function_call","name":"f","arguments":"{\"x\":1}"}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":3},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":19}},"sequence_number":18}`)

var r31Ollama = strings.Join([]string{
	`{"model":"m","created_at":"2026-11-30T08:15:05.100000001Z","message":{"role":"assistant","content":"","thinking":"hmö"},"done":false}`,
	`{"model":"m","created_at":"2026-11-30T08:15:05.200000001Z","message":{"role":"assistant","content":"a"},"done":false}`,
	`{"model":"m","created_at":"2026-11-30T08:15:05.300000001Z","message":{"role":"assistant","content":" 漢"},"done":false}`,
	`{"model":"m","created_at":"2026-11-30T08:15:05.400000001Z","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},"done":false}`,
	`{"model":"m","created_at":"2026-11-30T08:15:05.500000001Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":1182000000,"load_duration":51000000,"prompt_eval_count":10,"prompt_eval_duration":130000000,"eval_count":9,"eval_duration":900000000}`,
}, "\n") + "\n"

// said is what a body says in all.
type said struct {
	content, reasoning, refusal string
	tools                       string // name(arguments) of each
	generated                   int    // events with a part
	finish, stop                string
	prompt, cached, completion  int
	thought                     int // reasoning tokens
	logprobs                    int
	done                        int
	id, model                   string
	failure                     string
}

func sayingOf(events []Event) said {
	s := said{prompt: None, cached: None, completion: None, thought: None}
	tools := map[Channel]string{}
	last := Tool0
	for _, ev := range events {
		switch ev.Kind {
		case Done:
			s.done++
		case Failure:
			s.failure = ev.Error.Type + "|" + ev.Error.Code + "|" + ev.Error.Message
			continue
		case Malformed:
			s.failure = "malformed"
			continue
		}
		if len(ev.ID) > 0 {
			s.id = string(ev.ID)
		}
		if len(ev.Model) > 0 {
			s.model = string(ev.Model)
		}
		u := &ev.Usage
		s.prompt, s.cached = max(s.prompt, u.PromptTokens), max(s.cached, u.CachedTokens)
		s.completion, s.thought = max(s.completion, u.CompletionTokens), max(s.thought, u.ReasoningTokens)
		for _, ch := range ev.Choices {
			if len(ch.Parts) > 0 {
				s.generated++
			}
			if ch.Finish != nil {
				s.finish, s.stop = string(ch.Finish), string(ch.Stop)
			}
			s.logprobs += max(ch.Logprobs, 0)
			for _, p := range ch.Parts {
				switch {
				case p.Channel == Content:
					s.content += string(p.Text)
				case p.Channel == Reasoning:
					s.reasoning += string(p.Text)
				case p.Channel == Refusal:
					s.refusal += string(p.Text)
				case p.Name:
					last = max(last, p.Channel)
					tools[p.Channel] += string(p.Text) + ":"
				default:
					last = max(last, p.Channel)
					tools[p.Channel] += string(p.Text)
				}
			}
		}
	}
	for c := Tool0; c <= last; c++ {
		s.tools += tools[c]
		if c < last {
			s.tools += " "
		}
	}
	return s
}

var r31 = []struct {
	dialect Dialect
	body    string
	want    said
}{
	{Messages, r31Messages, said{
		content: "a 漢", reasoning: "hmö", tools: `f:{"x":1}`, generated: 5, finish: "tool_calls", stop: "tool_use",
		prompt: 10, cached: 3, completion: 9, thought: None, done: 1, id: "msg_1", model: "m",
	}},
	{Responses, r31Responses, said{
		content: "a 漢", reasoning: "hmö", tools: `f:{"x":1}`, generated: 5, finish: "tool_calls",
		prompt: 10, cached: 3, completion: 9, thought: 4, logprobs: 1, done: 1, id: "resp_1", model: "m",
	}},
	{Ollama, r31Ollama, said{
		content: "a 漢", reasoning: "hmö", tools: `f:{"x":1}`, generated: 4, finish: "stop",
		prompt: 10, cached: None, completion: 9, thought: None, done: 1, model: "m",
	}},
}

// R31: each dialect says the same, however it is cut.
func TestR31(t *testing.T) {
	for _, v := range r31 {
		t.Run(v.dialect.String(), func(t *testing.T) {
			whole, _ := decodeAs(t, v.dialect, 0, v.body)
			if got := sayingOf(whole); got != v.want {
				t.Errorf("\n got %+v\nwant %+v", got, v.want)
			}
			single, _ := decodeAs(t, v.dialect, 0, strings.Split(v.body, "")...)
			if d := diff(single, whole); d != "" {
				t.Errorf("byte by byte - whole +:\n%s", d)
			}
			for i := range v.body {
				two, _ := decodeAs(t, v.dialect, 0, v.body[:i], v.body[i:])
				if d := diff(two, whole); d != "" {
					t.Fatalf("cut at %d - whole +:\n%s", i, d)
				}
			}
		})
	}
}

// What a body cut short says is the start of what it says whole: nothing is
// invented of half an event.
func TestR31Truncated(t *testing.T) {
	for _, v := range r31 {
		whole, _ := decodeAs(t, v.dialect, 0, v.body)
		for i := range v.body {
			events, _ := decodeAs(t, v.dialect, 0, v.body[:i])
			for j := range events {
				events[j].Unterminated = false
			}
			if d := diff(events, append([]Event(nil), whole[:len(events)]...)); d != "" {
				t.Fatalf("%v ended at %d - whole +:\n%s", v.dialect, i, d)
			}
		}
	}
}

func TestR31Events(t *testing.T) {
	nothing := said{prompt: None, cached: None, completion: None, thought: None}
	text := func(s said, content string) said { s.content, s.generated = content, 1; return s }
	failed := func(s string) said {
		return said{prompt: None, cached: None, completion: None, thought: None, failure: s}
	}
	for _, v := range []struct {
		name    string
		dialect Dialect
		body    string
		want    said
	}{
		{"overloaded after a 200", Messages, sse(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), failed("overloaded_error||Overloaded")},
		{"the same without the event line, which some gateways drop", Messages, ev(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), failed("overloaded_error||Overloaded")},
		{"an error in the words of OpenAI", Messages, ev(`{"error":{"message":"boom","type":"x","code":500}}`), failed("x|500|boom")},
		{"SGLang's bare error", Messages, `{"object":"error","message":"boom","type":"BadRequestError","code":400}`, failed("BadRequestError|400|boom")},
		{"FastAPI's", Messages, `{"detail":"Not Found"}`, failed("||Not Found")},
		{"the word in a text", Messages, sse(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\"type\":\"error\""}}`), text(nothing, `"type":"error"`)},
		{"type behind the rest", Messages, ev(`{"delta":{"text":"a","type":"text_delta"},"index":0,"type":"content_block_delta"}`), text(nothing, "a")},
		{"a text that a block opens with", Messages, sse(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`), text(nothing, "a")},
		{"an event of a kind unknown", Messages, sse(`{"type":"vendor_event","delta":{"text":"x"},"usage":{"output_tokens":3}}`), nothing},
		{"output_tokens of message_start are none", Messages, sse(`{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}`), said{prompt: 5, cached: None, completion: None, thought: None}},
		{"usage without an end of the choice", Messages, sse(`{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3}}`), said{prompt: None, cached: None, completion: 3, thought: None}},
		{"reasons that chat lacks stay", Messages, sse(`{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}`), said{finish: "pause_turn", stop: "pause_turn", prompt: None, cached: None, completion: None, thought: None}},
		{"two calls", Messages, sse(`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","name":"f","input":{}}}`) +
			sse(`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","name":"g","input":{}}}`) +
			sse(`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"1"}}`) +
			sse(`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"2"}}`),
			said{tools: "f:1 g:2", generated: 4, prompt: None, cached: None, completion: None, thought: None}},
		{"a whole reply", Messages, `{"id":"i","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"r"},{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"f","input":{"x":1}}],"stop_reason":"max_tokens","stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":4}}`,
			said{content: "a", reasoning: "r", tools: `f:{"x":1}`, generated: 1, finish: "length", stop: "max_tokens", prompt: 7, cached: None, completion: 4, thought: None, id: "i", model: "m"}},

		{"FastAPI's", Responses, `{"detail":"Not Found"}`, failed("||Not Found")},
		{"error event", Responses, sse(`{"type":"error","code":"server_error","message":"boom","param":null,"sequence_number":3}`), failed("error|server_error|boom")},
		{"a failed response", Responses, sse(`{"type":"response.failed","response":{"id":"r","error":{"code":"server_error","message":"boom"},"usage":null}}`), failed("|server_error|boom")},
		{"a failed response that does not say why", Responses, sse(`{"type":"response.failed","response":{"id":"r","error":null}}`), failed("response.failed||")},
		{"the token limit: OpenAI, SGLang", Responses, sse(`{"type":"response.incomplete","response":{"error":null,"incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":7,"output_tokens":2}}}`),
			said{finish: "length", prompt: 7, cached: None, completion: 2, thought: None, done: 1}},
		{"the token limit: vLLM", Responses, sse(`{"type":"response.completed","response":{"incomplete_details":{"reason":"max_output_tokens"},"status":"incomplete"}}`),
			said{finish: "length", prompt: None, cached: None, completion: None, thought: None, done: 1}},
		{"incomplete for no reason", Responses, sse(`{"type":"response.incomplete","response":{"incomplete_details":null}}`),
			said{finish: "incomplete", prompt: None, cached: None, completion: None, thought: None, done: 1}},
		{"a filter", Responses, sse(`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`),
			said{finish: "content_filter", prompt: None, cached: None, completion: None, thought: None, done: 1}},
		{"refusal", Responses, sse(`{"type":"response.refusal.delta","delta":"no"}`) + sse(`{"type":"response.refusal.done","refusal":"no"}`),
			said{refusal: "no", generated: 1, prompt: None, cached: None, completion: None, thought: None}},
		{"reasoning text", Responses, sse(`{"type":"response.reasoning_text.delta","delta":"r"}`) + sse(`{"type":"response.reasoning_text.done","text":"r"}`),
			said{reasoning: "r", generated: 1, prompt: None, cached: None, completion: None, thought: None}},
		{"calls by id, without a place: llama.cpp", Responses, sse(`{"type":"response.output_item.added","item":{"type":"function_call","call_id":"fc_1","name":"f","arguments":""}}`) +
			sse(`{"type":"response.output_item.added","item":{"type":"function_call","call_id":"fc_2","name":"g","arguments":""}}`) +
			sse(`{"type":"response.function_call_arguments.delta","item_id":"fc_2","delta":"2"}`) + sse(`{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"1"}`),
			said{tools: "f:1 g:2", generated: 4, prompt: None, cached: None, completion: None, thought: None}},
		{"what the server itself runs ends no turn", Responses, sse(`{"type":"response.output_item.added","output_index":0,"item":{"type":"mcp_call","name":"f"}}`) + sse(`{"type":"response.completed","response":{}}`),
			said{tools: "f:", generated: 1, finish: "stop", prompt: None, cached: None, completion: None, thought: None, done: 1}},
		{"a name that is no call", Responses, sse(`{"type":"response.output_item.added","output_index":0,"item":{"type":"file_search_call","name":"f"}}`), nothing},
		{"a whole reply", Responses, `{"id":"i","object":"response","model":"m","status":"completed","error":null,"incomplete_details":null,"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"r"}]},{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"no"}]},{"type":"function_call","name":"f","arguments":"{}"}],"usage":{"input_tokens":7,"output_tokens":4}}`,
			said{content: "a", reasoning: "r", refusal: "no", tools: "f:{}", generated: 1, finish: "tool_calls", prompt: 7, cached: None, completion: 4, thought: None, id: "i", model: "m"}},

		{"FastAPI's, which SGLang serves this dialect with", Ollama, `{"detail":"Not Found"}`, failed("||Not Found")},
		{"the same word beside a text", Ollama, `{"response":"a","done":false,"detail":"x"}`, text(nothing, "a")},
		{"error in a line", Ollama, `{"error":"an error was encountered while running the model"}` + "\n", failed("||an error was encountered while running the model")},
		{"/api/generate", Ollama, `{"model":"m","response":"a","done":false}` + "\n" + `{"model":"m","response":"","done":true,"done_reason":"length","context":[1,2,3],"prompt_eval_count":7,"eval_count":1}` + "\n",
			said{content: "a", generated: 1, finish: "length", prompt: 7, cached: None, completion: 1, thought: None, done: 1, model: "m"}},
		{"thinking of /api/generate", Ollama, `{"response":"","thinking":"r","done":false}`, said{reasoning: "r", generated: 1, prompt: None, cached: None, completion: None, thought: None}},
		{"counts that are 0 are left out, as is the reason of old", Ollama, `{"response":"","done":true}`, said{prompt: None, cached: None, completion: None, thought: None, done: 1}},
		{"a whole reply is a last line", Ollama, `{"message":{"role":"assistant","content":"a"},"done":true,"done_reason":"stop","prompt_eval_count":7,"eval_count":4}`,
			said{content: "a", generated: 1, finish: "stop", prompt: 7, cached: None, completion: 4, thought: None, done: 1}},
		{"logprobs are tokens", Ollama, `{"response":"ab","logprobs":[{"token":"a"},{"token":"b"}],"done":false}`,
			said{content: "ab", generated: 1, logprobs: 2, prompt: None, cached: None, completion: None, thought: None}},
		{"two calls in one line", Ollama, `{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{}}}]},"done":false}`,
			said{tools: "f:{} g:{}", generated: 1, prompt: None, cached: None, completion: None, thought: None}},
	} {
		t.Run(v.dialect.String()+", "+v.name, func(t *testing.T) {
			events, _ := decodeAs(t, v.dialect, 0, v.body)
			if got := sayingOf(events); got != v.want {
				t.Errorf("\n got %+v\nwant %+v", got, v.want)
			}
		})
	}
}

func ev(payload string) string { return "data: " + payload + "\n\n" }

// A line over the size limit is one line less, not the end of the stream.
func TestOllamaLineTooLarge(t *testing.T) {
	line := func(text string) string { return `{"response":"` + text + `","done":false}` + "\n" }
	body := line("a") + line(strings.Repeat("x", 1000)) + line("b")
	for _, size := range []int{1, 7, 300, len(body)} {
		events, d := decodeAs(t, Ollama, 500, chop(body, size)...)
		if got := strings.Join(texts(events), " "); got != "a MALFORMED b" || d.Blind() != "event_size" {
			t.Errorf("reads of %d: %q, blind %q; want a MALFORMED b, event_size", size, got, d.Blind())
		}
	}
}

func TestNewCutOnlyWhereItCanEnd(t *testing.T) {
	for d, want := range map[Dialect]bool{Unknown: false, Chat: true, Completions: true, Messages: false, Responses: false, Ollama: false} {
		if got := NewCut(d) != nil; got != want {
			t.Errorf("NewCut(%v) is there: %v, want %v", d, got, want)
		}
	}
}
