package engine

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"
)

const oneToken = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n"

// picky refuses requests that have one of these keys (paths by dots), in the
// given words, and streams a token otherwise. It notes each request's keys.
type picky struct {
	refuse []string
	say    func(w http.ResponseWriter, key string)
	seen   []string
}

func (p *picky) handle(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	v := fastjson.MustParseBytes(body)
	p.seen = append(p.seen, string(body))
	for _, key := range p.refuse {
		if v.Exists(strings.Split(key, ".")...) {
			p.say(w, key)
			return
		}
	}
	fmt.Fprint(w, oneToken)
}

func openaiSays(w http.ResponseWriter, key string) {
	w.WriteHeader(400)
	fmt.Fprintf(w, `{"error":{"message":"Unrecognized request argument supplied: %s"}}`, strings.Split(key, ".")[0])
}

func pydanticSays(w http.ResponseWriter, key string) {
	w.WriteHeader(422)
	fmt.Fprintf(w, `{"detail":[{"type":"extra_forbidden","loc":["body",%q],"msg":"Extra inputs are not permitted","input":true}]}`, key)
}

// R13: what a strict server refuses is given up in order, and only that.
func TestR13Degradation(t *testing.T) {
	all := Defaults(Unknown, true)
	without := func(change func(*Switches), dropped ...string) Switches {
		s := all
		change(&s)
		s.Dropped = dropped
		return s
	}
	for _, tc := range []struct {
		name     string
		refuse   []string
		say      func(http.ResponseWriter, string)
		want     Switches
		requests int
	}{
		{"takes everything", nil, openaiSays, all, 1},
		{"R13's words: stream_options, and with it continuous usage", []string{"stream_options"}, openaiSays,
			without(func(s *Switches) { s.ContinuousUsage, s.IncludeUsage = false, false }, "continuous_usage_stats", "stream_options"), 3},
		{"only continuous usage", []string{"stream_options.continuous_usage_stats"}, openaiSays,
			without(func(s *Switches) { s.ContinuousUsage = false }, "continuous_usage_stats"), 2},
		{"ignore_eos: usage is taken back", []string{"ignore_eos"}, openaiSays,
			without(func(s *Switches) { s.IgnoreEOS = false }, "ignore_eos"), 8},
		{"max_tokens goes by another name", []string{"max_tokens"}, openaiSays,
			without(func(s *Switches) { s.MaxTokensKey = maxCompletionTokensKey }, "max_tokens"), 10},
		{"422, pydantic: stream_options", []string{"stream_options"}, pydanticSays,
			without(func(s *Switches) { s.ContinuousUsage, s.IncludeUsage = false, false }, "continuous_usage_stats", "stream_options"), 3},
		{"422, pydantic: two at once", []string{"ignore_eos", "min_tokens"}, pydanticSays,
			without(func(s *Switches) { s.IgnoreEOS, s.MinTokens = false, false }, "min_tokens", "ignore_eos"), 8},
		{"nothing but the bare request", []string{"stream_options", "ignore_eos", "min_tokens", "max_tokens"}, pydanticSays,
			without(func(s *Switches) {
				s.ContinuousUsage, s.IncludeUsage, s.IgnoreEOS, s.MinTokens = false, false, false, false
				s.MaxTokensKey = maxCompletionTokensKey
			}, "continuous_usage_stats", "stream_options", "min_tokens", "ignore_eos", "max_tokens"), 0},
	} {
		p := &picky{refuse: tc.refuse, say: tc.say}
		got, err := Negotiate(t.Context(), serve(t, routes{"POST /v1/chat/completions": p.handle}), Info{Model: "m"}, all, BodyInput{})
		if d := cmp.Diff(tc.want, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tc.name, err, d)
		}
		if tc.requests > 0 && len(p.seen) > tc.requests {
			t.Errorf("%s: %d requests, want at most %d", tc.name, len(p.seen), tc.requests)
		}
		for _, body := range p.seen {
			v := fastjson.MustParse(body)
			if max(v.GetInt("max_tokens"), v.GetInt("max_completion_tokens")) != 1 || !v.GetBool("stream") || string(v.GetStringBytes("model")) != "m" {
				t.Errorf("%s: not a one-token stream of the model: %s", tc.name, body)
			}
		}
	}
}

// Extensions of engines go first, one by one.
func TestNegotiateExtensions(t *testing.T) {
	for _, tc := range []struct {
		kind   Kind
		refuse []string
		want   []string
	}{
		{VLLM, []string{"return_token_ids"}, []string{"return_token_ids"}},
		{LlamaCPP, []string{"timings_per_token"}, []string{"timings_per_token"}},
		{LlamaCPP, []string{"return_progress", "cache_prompt"}, []string{"return_progress", "cache_prompt"}},
		{SGLang, []string{"rid", "min_tokens"}, []string{"rid", "min_tokens"}},
	} {
		p := &picky{refuse: tc.refuse, say: openaiSays}
		got, err := Negotiate(t.Context(), serve(t, routes{"POST /v1/completions": p.handle}), Info{}, Defaults(tc.kind, true),
			BodyInput{Endpoint: Completions, Cold: true, RID: "r1"})
		if err != nil || !slices.Equal(got.Dropped, tc.want) {
			t.Errorf("%s refuses %v: dropped %v, %v, want %v", tc.kind, tc.refuse, got.Dropped, err, tc.want)
		}
	}
}

// What real servers take as it is, and what SGLang really refuses.
func TestNegotiateRealServers(t *testing.T) {
	for _, kind := range []Kind{VLLM, SGLang, LlamaCPP} {
		target := serve(t, routes{"POST /v1/chat/completions": string(kind) + "/unknown-field"})
		got, err := Negotiate(t.Context(), target, Info{Model: "tiny"}, Defaults(kind, true), BodyInput{})
		if d := cmp.Diff(Defaults(kind, true), got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", kind, err, d)
		}
	}
	sglang := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if fastjson.GetBool(body, "return_token_ids") {
			replay(w, "sglang/chat-continuous-usage-token-ids")
			return
		}
		replay(w, "sglang/unknown-field")
	}
	s := Defaults(SGLang, false)
	s.TokenIDs = true
	got, err := Negotiate(t.Context(), serve(t, routes{"POST /v1/chat/completions": sglang}), Info{Model: "tiny"}, s, BodyInput{})
	if want := []string{"return_token_ids"}; err != nil || !slices.Equal(got.Dropped, want) || !got.ContinuousUsage {
		t.Errorf("SGLang, return_token_ids on a streamed chat: dropped %v, %v, want %v", got.Dropped, err, want)
	}
}

// What no switch can mend is told at once, in one sentence.
func TestNegotiateGivesUp(t *testing.T) {
	for _, tc := range []struct {
		name     string
		answer   any
		kind     ErrorKind
		want     string
		requests int
	}{
		{"every request", says(400, `{"error":{"message":"temperature must be 1"}}`), Refused, " refused the request (400: temperature must be 1)", 6},
		{"wrong model", "vllm/err-wrong-model", NoModel, " answered 404: The model `no-such-model` does not exist. Valid aliases: tiny.", 1},
		{"wrong key", says(401, ``), Unauthorized, " needs a key: give one with --api-key-file or STREAMGAUGE_API_KEY (401)", 1},
		{"overloaded", says(429, `{"error":{"message":"slow down"}}`), BadStatus, " answered 429: slow down", 1},
		{"over the context", "vllm/err-context-overflow-stream", Overflow, " answered 400: This model's maximum context length", 1},
		{"no stream", says(200, `{"choices":[{"message":{"content":"a"}}]}`), NoStream, ` answered with one body although "stream":true was asked for: there is nothing to time`, 1},
		{"nothing", says(200, ``), NoStream, " answered 200 without a single event", 1},
		{"a page", says(200, `<html>`), NotOpenAI, " answered with an HTML page", 1},
		{"an error inside a 200", says(200, "data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\ndata: [DONE]\n\n"), BadStatus, " answered 500: boom", 1},
		{"an error inside a 200, without its blank line", says(200, `data: {"error":{"message":"boom"}}`), BadStatus, " answered 500: boom", 1},
		{"a refusal inside a 200", says(200, "data: {\"error\":{\"message\":\"no such field\",\"code\":422}}\n\n"), Refused, " refused the request (422: no such field)", 6},
	} {
		requests := 0
		answer := routes{"POST /v1/chat/completions": tc.answer}
		target := serve(t, routes{"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
			requests++
			answer.ServeHTTP(w, r)
		}})
		_, err := Negotiate(t.Context(), target, Info{Model: "m"}, Defaults(Unknown, true), BodyInput{})
		if want := target.URL + "/v1/chat/completions" + tc.want; err == nil || !strings.HasPrefix(err.Error(), want) || !Is(err, tc.kind) {
			t.Errorf("%s:\n got %v\nwant %s (%s)", tc.name, err, want, tc.kind)
		}
		if requests != tc.requests {
			t.Errorf("%s: %d requests, want %d", tc.name, requests, tc.requests)
		}
	}
}
