package engine

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

// countWait bounds one count. A quarter of a million tokens take a tokenizer
// about a second; a one-token request of that length is a whole prefill.
const countWait = 10 * time.Minute

// Prompt is a text whose tokens are to be counted, as a request would send it.
type Prompt struct {
	Endpoint     string // Chat ("" too): the chat template's tokens count too
	Text         string
	Thinking     *bool  // as in BodyInput: it may change the template's tokens
	MaxTokensKey string // of the switches, for counts by a request
}

// CountTokens counts a prompt the way the server counts it:
//
//	vLLM       POST /tokenize, messages for chat
//	llama.cpp  POST /v1/chat/completions/input_tokens, or /apply-template and
//	           /tokenize; /tokenize for completions
//	SGLang     POST /tokenize, plus for chat the template's tokens, learned from
//	           a one-token request with a sample of the text
//	others     usage.prompt_tokens of a one-token request
func CountTokens(ctx context.Context, t *Target, info Info, p Prompt) (int, error) {
	c := t.open()
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	if !info.HasTokenize {
		return c.countByRequest(ctx, info, p)
	}
	chat := p.Endpoint != Completions
	switch {
	case info.Kind == VLLM && chat:
		return c.count(ctx, "/tokenize", p.members(member{"model", info.Model}), "count")
	case info.Kind == LlamaCPP && chat:
		return c.countLlamaChat(ctx, p)
	case info.Kind == LlamaCPP:
		return c.count(ctx, "/tokenize", []member{{"content", p.Text}, {"add_special", true}, {"parse_special", true}}, "tokens")
	}
	plain, err := c.countPlain(ctx, info, p.Text)
	if err != nil || !chat {
		return plain, err
	}
	sample := p
	sample.Text = ends(p.Text, 128)
	whole, err := c.countByRequest(ctx, info, sample)
	if err != nil {
		return 0, err
	}
	bare, err := c.countPlain(ctx, info, sample.Text)
	if err != nil {
		return 0, err
	}
	return plain + whole - bare, nil
}

// members is a request of the messages form.
func (p Prompt) members(first ...member) []member {
	ms := append(first, member{"messages", []map[string]any{{"role": "user", "content": p.Text}}})
	if p.Thinking != nil {
		ms = append(ms, member{"chat_template_kwargs", thinking(p.Thinking)})
	}
	return ms
}

func (c *call) countPlain(ctx context.Context, info Info, text string) (int, error) {
	return c.count(ctx, "/tokenize", []member{{"model", info.Model}, {"prompt", text}}, "count")
}

// countLlamaChat takes the newer of two ways that the server has.
func (c *call) countLlamaChat(ctx context.Context, p Prompt) (int, error) {
	n, err := c.count(ctx, "/v1/chat/completions/input_tokens", p.members(), "input_tokens")
	if !Is(err, NotFound) {
		return n, err
	}
	v, err := c.postJSON(ctx, "/apply-template", p.members())
	if err != nil {
		return 0, err
	}
	text := string(v.GetStringBytes("prompt"))
	return c.count(ctx, "/tokenize", []member{{"content", text}, {"add_special", true}, {"parse_special", true}}, "tokens")
}

// countByRequest reads usage.prompt_tokens of a request for one token. It is not
// streamed: usage then comes without any option.
func (c *call) countByRequest(ctx context.Context, info Info, p Prompt) (int, error) {
	s := Switches{MaxTokensKey: p.MaxTokensKey}
	body, err := s.Body(BodyInput{Endpoint: p.Endpoint, Model: info.Model, Prompt: p.Text, MaxTokens: 1, Thinking: p.Thinking, NoStream: true})
	if err != nil {
		return 0, err
	}
	a, err := c.post(ctx, EndpointPath(p.Endpoint), body)
	if err != nil {
		return 0, err
	}
	if f := c.fault(a); f != nil {
		return 0, f
	}
	if v := a.json(); v != nil {
		if n := v.GetInt("usage", "prompt_tokens"); n > 0 {
			return n, nil
		}
	}
	return 0, &Error{Kind: NoCount, Status: a.status, Message: a.address + " does not tell usage.prompt_tokens, and the server has no /tokenize: prompt lengths cannot be set"}
}

// count posts and reads a count: a number, or the length of a list.
func (c *call) count(ctx context.Context, path string, ms []member, key string) (int, error) {
	v, err := c.postJSON(ctx, path, ms)
	if err != nil {
		return 0, err
	}
	switch n := v.Get(key); {
	case n == nil:
	case n.Type() == fastjson.TypeNumber && n.GetInt() >= 0:
		return n.GetInt(), nil
	case n.Type() == fastjson.TypeArray:
		return len(n.GetArray()), nil
	}
	return 0, &Error{Kind: BadAnswer, Message: fmt.Sprintf("%s%s answered without %q", c.t, path, key)}
}

func (c *call) postJSON(ctx context.Context, path string, ms []member) (*fastjson.Value, error) {
	body, err := object(ms)
	if err != nil {
		return nil, err
	}
	a, err := c.post(ctx, path, body)
	if err != nil {
		return nil, err
	}
	if f := c.fault(a); f != nil {
		return nil, f
	}
	v := a.json()
	if v == nil {
		return nil, &Error{Kind: BadAnswer, Status: a.status, Message: a.address + " did not answer with JSON"}
	}
	return v, nil
}

// ends is a text's first and last n bytes, cut between characters: what meets
// the template at either side is what the template's own tokens depend on.
func ends(text string, n int) string {
	if len(text) <= 2*n {
		return text
	}
	head, tail := n, len(text)-n
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + text[tail:]
}
