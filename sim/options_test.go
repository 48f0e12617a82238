package sim

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"
)

func TestStrictServersRefuseKeys(t *testing.T) {
	p := plain()
	body := chatBody(p, 50, 1, "a", `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`)
	for _, c := range []struct {
		name, key string
		status    int
		want      string
	}{
		{"top level", "stream_options", 400, `{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error","param":null,"code":400}}`},
		{"inside stream_options", "continuous_usage_stats", 400, "Unrecognized request argument supplied: continuous_usage_stats"},
		{"pydantic", "max_tokens", 422, `{"detail":[{"type":"extra_forbidden","loc":["body","max_tokens"],"msg":"Extra inputs are not permitted"}]}`},
		{"a key that is not sent", "ignore_eos", 200, ""},
	} {
		o := Options{Refuse: []string{c.key}}
		if c.status == 422 {
			o.RefuseStatus = 422
		}
		inBubble(t, p, o, func(b *bench) {
			a := b.do("POST", "/v1/chat/completions", body, nil)
			if a.status != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%s: %d %s, want %d %s", c.name, a.status, a.body, c.status, c.want)
			}
		})
	}
}

func TestKeyIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		dialect Dialect
		path    string
		open    bool
	}{
		{VLLM, "/v1/models", false},
		{VLLM, "/metrics", true},
		{VLLM, "/tokenize", true}, // unauthenticated in vLLM even with a key
		{SGLang, "/server_info", false},
		{SGLang, "/metrics", true},
		{LlamaCPP, "/props", false},
		{LlamaCPP, "/health", true},
	} {
		p := plain()
		p.Dialect = c.dialect
		inBubble(t, p, Options{APIKey: "sk-test"}, func(b *bench) {
			method, body := "GET", ""
			if c.path == "/tokenize" {
				method, body = "POST", `{"prompt":"a"}`
			}
			if a := b.do(method, c.path, body, nil); (a.status == 401) == c.open {
				t.Errorf("%s %s without a key: %d, open %t", c.dialect, c.path, a.status, c.open)
			}
			conn, err := b.ln.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if a := exchange(conn, method, c.path, body, nil, "Authorization: Bearer sk-test"); a.status != 200 {
				t.Errorf("%s %s with the key: %d", c.dialect, c.path, a.status)
			}
		})
	}
}

func TestContextLimit(t *testing.T) {
	for _, c := range []struct {
		name         string
		dialect      Dialect
		prompt, most int
		status       int
		want         string
	}{
		{"fits exactly", VLLM, 4000, 96, 200, ""},
		{"one too many", VLLM, 4022, 100, 400, "This model's maximum context length is 4096 tokens. However, you requested 4122 tokens"},
		{"prompt alone", VLLM, 4096, 1, 400, "your prompt contains at least 4097 input tokens"},
		{"output alone", VLLM, 100, 5000, 400, "max_tokens=5000 cannot be greater than max_model_len=4096"},
		{"SGLang's sum", SGLang, 4022, 100, 400, "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 4122 tokens"},
		{"SGLang's prompt", SGLang, 4200, 1, 400, "The input (4200 tokens) is longer than the model's context length (4096 tokens)."},
		{"llama.cpp's prompt", LlamaCPP, 4200, 1, 400, `"type":"exceed_context_size_error","n_prompt_tokens":4200,"n_ctx":4096`},
	} {
		p := plain()
		p.Dialect, p.MaxModelLen = c.dialect, 4096
		inBubble(t, p, Options{}, func(b *bench) {
			a := b.do("POST", "/v1/chat/completions", chatBody(p, c.prompt, c.most, "a", ""), nil)
			if a.status != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%s: %d %s, want %d %s", c.name, a.status, a.body, c.status, c.want)
			}
		})
	}
	// llama.cpp stops when the slot is full instead.
	p := plain()
	p.Dialect, p.MaxModelLen = LlamaCPP, 512
	inBubble(t, p, Options{}, func(b *bench) {
		b.do("POST", "/v1/chat/completions", chatBody(p, 500, 100, "a", ""), nil)
		if r := b.srv.Truth().Requests()[0]; r.Tokens != 12 || r.End != Length {
			t.Errorf("%d tokens, end %q; want 12, %q", r.Tokens, r.End, Length)
		}
	})
}

func TestTokenizers(t *testing.T) {
	prose := strings.Repeat("The harbor, at dawn, was calm. ", 40) + "漢字仮名" + strings.Repeat("x", 33)
	runes := float64(len([]rune(prose)))
	for _, c := range []struct {
		name string
		tok  Tokenizer
		want int
	}{
		{"ceil(chars/3.1)+37", Tokenizer{CharsPerToken: 3.1, Extra: 37}, int(math.Ceil(runes/3.1)) + 37},
		{"chars/5.5", Tokenizer{CharsPerToken: 5.5}, int(math.Ceil(runes / 5.5))},
		// 1240 Latin characters, 4 Han, 33 Latin.
		{"a token per Han character", Tokenizer{CharsPerToken: 4, PerHan: true}, 310 + 4 + 9},
	} {
		got, prefixes := c.tok.blocks(prose, 16)
		if got != c.want {
			t.Errorf("%s: %d tokens, want %d", c.name, got, c.want)
		}
		if want := (got - c.tok.Extra) / 16; len(prefixes) != want {
			t.Errorf("%s: %d blocks, want %d", c.name, len(prefixes), want)
		}
	}
	for _, w := range vocabulary {
		if n := (Tokenizer{}).count(w); n != 1 {
			t.Errorf("generated token %q counts as %d", w, n)
		}
	}
}

// TestCountsAgree: the tokenize endpoints, usage and the truth count alike.
func TestCountsAgree(t *testing.T) {
	messages := `[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Where is 12345 Main St?"}]}]`
	for _, d := range []Dialect{VLLM, SGLang, LlamaCPP} {
		p := plain()
		p.Dialect = d
		inBubble(t, p, Options{}, func(b *bench) {
			a := b.do("POST", "/v1/chat/completions", fmt.Sprintf(`{"messages":%s,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`, messages), nil)
			truth := b.srv.Truth().Requests()[0].Prompt
			var usage int
			for _, e := range a.events {
				if u := parseEvent(t, e).Usage; u != nil {
					usage = u.Prompt
				}
			}
			if usage != truth || truth < 10 {
				t.Errorf("%s: usage %d, truth %d", d, usage, truth)
			}
			var counted answer
			var want string
			switch d {
			case VLLM:
				counted = b.do("POST", "/tokenize", fmt.Sprintf(`{"messages":%s}`, messages), nil)
				want = fmt.Sprintf(`"count":%d,`, truth)
			case LlamaCPP:
				counted = b.do("POST", "/v1/chat/completions/input_tokens", fmt.Sprintf(`{"messages":%s}`, messages), nil)
				want = fmt.Sprintf(`"input_tokens":%d,`, truth)
			default:
				return // SGLang's /tokenize takes no messages
			}
			if !strings.Contains(counted.body, want) {
				t.Errorf("%s: %s, want %s", d, counted.body, want)
			}
		})
	}
}

func TestReplyEndsAsAsked(t *testing.T) {
	for _, c := range []struct {
		name  string
		deaf  bool
		more  string
		want  int
		ended End
	}{
		{"natural end", false, "", 7, Stop},
		{"ignore_eos", false, `,"ignore_eos":true`, 20, Length},
		{"min_tokens", false, `,"min_tokens":12`, 12, Stop},
		{"a server deaf to ignore_eos", true, `,"ignore_eos":true,"min_tokens":20`, 7, Stop},
		{"natural end in the middle of a chunk", false, `,"min_tokens":5`, 7, Stop},
		{"max_completion_tokens wins", false, `,"max_completion_tokens":3`, 3, Length},
	} {
		p := plain()
		p.EOS, p.DeafToEOS = Lengths{Median: 7}, c.deaf
		p.Chunks = []int{4}
		inBubble(t, p, Options{}, func(b *bench) {
			b.do("POST", "/v1/chat/completions", chatBody(p, 50, 20, "a", c.more), nil)
			if r := b.srv.Truth().Requests()[0]; r.Tokens != c.want || r.End != c.ended {
				t.Errorf("%s: %d tokens, end %q; want %d, %q", c.name, r.Tokens, r.End, c.want, c.ended)
			}
		})
	}
}

func TestHeadersComeWhenTheDialectSendsThem(t *testing.T) {
	for _, c := range []struct {
		dialect Dialect
		want    time.Duration // of the second request, which waits for the first
	}{
		{VLLM, 0}, {LlamaCPP, 60 * time.Millisecond}, {SGLang, 110 * time.Millisecond},
	} {
		p := plain()
		p.Dialect, p.MaxRunning = c.dialect, 1
		inBubble(t, p, Options{}, func(b *bench) {
			go b.do("POST", "/v1/chat/completions", chatBody(p, 50, 2, "a", ""), nil)
			<-time.After(time.Nanosecond) // a is in before b
			start := time.Now()
			conn, err := b.ln.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			body := chatBody(p, 50, 2, "b", "")
			fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start).Round(time.Microsecond); got != c.want {
				t.Errorf("%s: header after %v, want %v", c.dialect, got, c.want)
			}
		})
	}
}

func TestPingsWhileSilent(t *testing.T) {
	p := plain()
	p.Ping = time.Second
	p.Speed.TTFT = NewSurface([]Sample{{Time: 3500 * time.Millisecond}})
	p.Speed.TBT = NewSurface([]Sample{{Time: 2500 * time.Millisecond}})
	inBubble(t, p, Options{}, func(b *bench) {
		pings := 0
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 2, "a", ""), func(e event) bool {
			if e.data == ": keep-alive" {
				pings++
			}
			return e.data == "[DONE]"
		})
		if pings != 5 {
			t.Errorf("%d pings, want 3 before the first token and 2 before the second", pings)
		}
	})
}

func TestChoicesAndReasoning(t *testing.T) {
	for _, d := range []Dialect{VLLM, SGLang, LlamaCPP} {
		p := plain()
		p.Dialect, p.Reasoning = d, 5
		inBubble(t, p, Options{}, func(b *bench) {
			a := b.do("POST", "/v1/chat/completions", chatBody(p, 50, 12, "a", `,"n":2,"stream_options":{"include_usage":true}`), nil)
			usage := 0
			thought, said := map[int]string{}, map[int]string{}
			for _, e := range a.events {
				c := parseEvent(t, e)
				if c.Usage != nil {
					usage += c.Usage.Completion
				}
				for _, x := range c.Choices {
					thought[x.Index] += x.Delta.Reasoning + x.Delta.ReasoningContent
					said[x.Index] += x.Delta.Content
				}
			}
			for i := range 2 {
				if n, m := p.Tokenizer.count(thought[i]), p.Tokenizer.count(said[i]); n != 5 || m != 7 {
					t.Errorf("%s: choice %d thought %d tokens and said %d, want 5 and 7", d, i, n, m)
				}
			}
			if usage != 24 || said[0] == said[1] {
				t.Errorf("%s: usage %d, want 24; texts equal: %t", d, usage, said[0] == said[1])
			}
		})
	}
}

// TestServeAfterShutdownEnds: the order of Serve's goroutine and a Shutdown that
// follows at once is nobody's to choose; neither may leave Serve behind.
func TestServeAfterShutdownEnds(t *testing.T) {
	s := New(plain(), Options{})
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener was left open: %v", err)
	}
}
