package engine

import (
	"encoding/json"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

// The exact bytes: the order of keys is part of what a run can repeat.
func TestBodies(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Switches
		in   BodyInput
		want string
	}{
		{"vLLM", Defaults(VLLM, false), BodyInput{Model: "m", Prompt: "a <b> \"c\" 漢\n", MaxTokens: 4096},
			`{"model":"m","messages":[{"content":"a <b> \"c\" 漢\n","role":"user"}],"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"max_tokens":4096,"return_token_ids":true}`},
		{"vLLM, length forced", Defaults(VLLM, true), BodyInput{Model: "m", Prompt: "a", MaxTokens: 10},
			`{"model":"m","messages":[{"content":"a","role":"user"}],"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"max_tokens":10,"min_tokens":10,"ignore_eos":true,"return_token_ids":true}`},
		{"SGLang, by request id", Defaults(SGLang, true), BodyInput{Model: "m", Prompt: "a", MaxTokens: 10, RID: "r1"},
			`{"model":"m","messages":[{"content":"a","role":"user"}],"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"max_tokens":10,"min_tokens":10,"ignore_eos":true,"rid":"r1"}`},
		{"llama.cpp, cold", Defaults(LlamaCPP, true), BodyInput{Model: "m", Prompt: "a", MaxTokens: 10, Cold: true, RID: "r1"},
			`{"model":"m","messages":[{"content":"a","role":"user"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":10,"ignore_eos":true,"timings_per_token":true,"return_progress":true,"cache_prompt":false}`},
		{"unknown", Defaults(Unknown, false), BodyInput{Model: "m", Prompt: "a", MaxTokens: 10},
			`{"model":"m","messages":[{"content":"a","role":"user"}],"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"max_tokens":10}`},
		{"completions keep max_tokens", Switches{MaxTokensKey: maxCompletionTokensKey}, BodyInput{Endpoint: Completions, Model: "m", Prompt: " loop", MaxTokens: 3},
			`{"model":"m","prompt":" loop","stream":true,"max_tokens":3}`},
		{"everything given", Switches{MaxTokensKey: maxCompletionTokensKey}, BodyInput{Model: "m", Prompt: "a", MaxTokens: 3,
			Temperature: ptr(0.0), TopP: ptr(0.9), Seed: ptr(int64(7)), Thinking: ptr(false), ReasoningEffort: "none",
			Extra: map[string]any{"z": 1, "top_k": json.Number("20"), "chat_template_kwargs": map[string]any{"thinking": true, "more": []any{1}}, "max_completion_tokens": 4}},
			`{"model":"m","messages":[{"content":"a","role":"user"}],"stream":true,"max_completion_tokens":4,"temperature":0,"top_p":0.9,"seed":7,"chat_template_kwargs":{"enable_thinking":false,"more":[1],"thinking":true},"reasoning_effort":"none","top_k":20,"z":1}`},
		{"to count", Defaults(VLLM, true), BodyInput{Model: "m", Prompt: "a", MaxTokens: 1, NoStream: true},
			`{"model":"m","messages":[{"content":"a","role":"user"}],"stream":false,"max_tokens":1,"min_tokens":1,"ignore_eos":true}`},
	} {
		got, err := tc.s.Body(tc.in)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %v\n got %s\nwant %s", tc.name, err, got, tc.want)
		}
		if !json.Valid(got) {
			t.Errorf("%s: not JSON", tc.name)
		}
		again, _ := tc.s.Body(tc.in)
		if string(again) != string(got) {
			t.Errorf("%s: other bytes the second time", tc.name)
		}
	}
}

func TestBodyRefusesWhatItSetsItself(t *testing.T) {
	for _, key := range fixed {
		_, err := Switches{}.Body(BodyInput{Extra: map[string]any{key: 1}})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("extra %q: %v, want an error that names it", key, err)
		}
	}
	if _, err := (Switches{}).Body(BodyInput{Extra: map[string]any{"x": func() {}}}); err == nil || !strings.Contains(err.Error(), "request field x") {
		t.Errorf("a value that is no JSON: %v", err)
	}
}
