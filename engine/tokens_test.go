package engine

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

// counter is a server whose tokenizer knows one token a character and whose
// chat template adds 11; it notes the paths it was asked.
type counter struct{ paths []string }

func (c *counter) handle(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.paths = append(c.paths, r.URL.Path)
	v := fastjson.MustParseBytes(body)
	chat := utf8.RuneCount(v.GetStringBytes("messages", "0", "content")) + 11
	plain := utf8.RuneCount(v.GetStringBytes("prompt")) + utf8.RuneCount(v.GetStringBytes("content"))
	switch path := r.URL.Path; {
	case path == "/tokenize" && v.Exists("messages"):
		fmt.Fprintf(w, `{"count":%d}`, chat)
	case path == "/tokenize" && v.Exists("content"):
		fmt.Fprintf(w, `{"tokens":[%s]}`, strings.TrimSuffix(strings.Repeat("1,", plain), ","))
	case path == "/tokenize":
		fmt.Fprintf(w, `{"count":%d}`, plain)
	case path == "/apply-template":
		fmt.Fprintf(w, `{"prompt":"<|user>%s<|a>"}`, v.GetStringBytes("messages", "0", "content"))
	case path == "/v1/chat/completions" && v.GetInt("max_tokens") == 1 && !v.GetBool("stream"):
		fmt.Fprintf(w, `{"usage":{"prompt_tokens":%d}}`, chat)
	case path == "/v1/completions" && v.GetInt("max_tokens") == 1 && !v.GetBool("stream"):
		fmt.Fprintf(w, `{"usage":{"prompt_tokens":%d}}`, plain)
	default:
		says(404, `{}`)(w, r)
	}
}

func TestCountTokens(t *testing.T) {
	long := strings.Repeat("漢字 text ", 100) // cut inside a character by bytes
	for _, tc := range []struct {
		name  string
		info  Info
		in    Prompt
		want  int
		paths []string
	}{
		{"vLLM chat", Info{Kind: VLLM, HasTokenize: true}, Prompt{Text: "hello"}, 16, []string{"/tokenize"}},
		{"vLLM completions", Info{Kind: VLLM, HasTokenize: true}, Prompt{Endpoint: Completions, Text: "hello"}, 5, []string{"/tokenize"}},
		{"llama.cpp chat, older", Info{Kind: LlamaCPP, HasTokenize: true}, Prompt{Text: "hello"}, 16, []string{"/v1/chat/completions/input_tokens", "/apply-template", "/tokenize"}},
		{"llama.cpp completions", Info{Kind: LlamaCPP, HasTokenize: true}, Prompt{Endpoint: Completions, Text: "hello"}, 5, []string{"/tokenize"}},
		{"SGLang chat: the template from a sample", Info{Kind: SGLang, HasTokenize: true}, Prompt{Text: long}, 811, []string{"/tokenize", "/v1/chat/completions", "/tokenize"}},
		{"SGLang completions", Info{Kind: SGLang, HasTokenize: true}, Prompt{Endpoint: Completions, Text: "hello"}, 5, []string{"/tokenize"}},
		{"no tokenizer, chat", Info{Kind: Unknown}, Prompt{Text: "hello"}, 16, []string{"/v1/chat/completions"}},
		{"no tokenizer, completions", Info{Kind: VLLM}, Prompt{Endpoint: Completions, Text: "hello"}, 5, []string{"/v1/completions"}},
	} {
		c := &counter{}
		r := routes{}
		for _, path := range []string{"/tokenize", "/apply-template", "/v1/chat/completions", "/v1/completions", "/v1/chat/completions/input_tokens"} {
			r["POST "+path] = c.handle
		}
		got, err := CountTokens(t.Context(), serve(t, r), tc.info, tc.in)
		if err != nil || got != tc.want || !slices.Equal(c.paths, tc.paths) {
			t.Errorf("%s: %d by %v, %v, want %d by %v", tc.name, got, c.paths, err, tc.want, tc.paths)
		}
	}
}

func TestCountTokensRealServers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		routes routes
		kind   Kind
		in     Prompt
		want   int
	}{
		{"vLLM chat", routes{"POST /tokenize": "vllm/tokenize-chat"}, VLLM, Prompt{Text: "please loop"}, 7},
		{"vLLM completions", realVLLM, VLLM, Prompt{Endpoint: Completions, Text: " the quick loop"}, 3},
		{"SGLang completions", realSGLang, SGLang, Prompt{Endpoint: Completions, Text: " the quick loop"}, 3},
		{"llama.cpp chat", realLlamaCPP, LlamaCPP, Prompt{Text: "please loop"}, 7},
		{"llama.cpp completions", realLlamaCPP, LlamaCPP, Prompt{Endpoint: Completions, Text: " the quick loop"}, 3},
	} {
		got, err := CountTokens(t.Context(), serve(t, tc.routes), Info{Kind: tc.kind, HasTokenize: true}, tc.in)
		if err != nil || got != tc.want {
			t.Errorf("%s: %d, %v, want %d", tc.name, got, err, tc.want)
		}
	}
}

func TestCountTokensFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		routes routes
		info   Info
		kind   ErrorKind
	}{
		{"usage without prompt_tokens", routes{"POST /v1/chat/completions": says(200, `{"usage":{}}`)}, Info{}, NoCount},
		{"over the context", routes{"POST /v1/chat/completions": "llamacpp/err-context-overflow-stream"}, Info{}, Overflow},
		{"another answer", routes{"POST /tokenize": says(200, `{"n":5}`)}, Info{Kind: VLLM, HasTokenize: true}, BadAnswer},
		{"no number", routes{"POST /tokenize": says(200, `{"count":"5"}`)}, Info{Kind: VLLM, HasTokenize: true}, BadAnswer},
		{"no JSON", routes{"POST /tokenize": says(200, `5`+"\x00")}, Info{Kind: VLLM, HasTokenize: true}, BadAnswer},
		{"crash", routes{"POST /tokenize": says(500, `boom`)}, Info{Kind: VLLM, HasTokenize: true}, BadStatus},
	} {
		if n, err := CountTokens(t.Context(), serve(t, tc.routes), tc.info, Prompt{Text: "a"}); !Is(err, tc.kind) {
			t.Errorf("%s: %d, %v, want %s", tc.name, n, err, tc.kind)
		}
	}
}

// R19: an engine that goes on after its client left stops at the abort of that
// request, and its gauge says so.
func TestR19Abort(t *testing.T) {
	var running atomic.Int64
	running.Store(1)
	target := serve(t, routes{
		"GET /metrics": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "sglang:num_running_reqs{tp_rank=\"0\"} %d\nsglang:num_queue_reqs{tp_rank=\"0\"} 0\n", running.Load())
		},
		"POST /abort_request": func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if string(body) == `{"rid":"r1"}` {
				running.Store(0)
			}
		},
	})
	s := NewScraper(target, SGLang)
	defer s.Close()
	for _, step := range []struct {
		name, rid string // rid "": none is aborted
		want      float64
	}{
		{"the client left", "", 1},
		{"another request is aborted", "r2", 1},
		{"this one is", "r1", 0},
	} {
		if step.rid != "" {
			if err := Abort(t.Context(), target, step.rid); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
		}
		got, err := s.Scrape(t.Context())
		if err != nil || got.Running != step.want || got.Waiting != 0 {
			t.Errorf("%s: running %v, waiting %v, %v, want %v, 0", step.name, got.Running, got.Waiting, err, step.want)
		}
	}
	err := Abort(t.Context(), serve(t, realVLLM), "r1")
	if want := "/abort_request is not there (404: Not Found)"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("a server without abort: %v, want …%s", err, want)
	}
}
