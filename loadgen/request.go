package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/streamgauge/streamgauge/engine"
)

// Marks stand in a body where each request has its own tail and id. They are
// plain letters, so JSON leaves them as they are.
const (
	tailMark = "zqxTAILxqz7f3k"
	ridMark  = "zqxRIDxqz7f3k"
)

// template is a request body with two holes. Bodies of one context differ in
// nothing else, so the megabyte around the holes is encoded once.
type template struct {
	pieces [][]byte // around the holes
	holes  []string // the mark between pieces i and i+1
}

// append appends the body of one request. The tail and the id are plain ASCII
// without quotes: as they stand in JSON.
func (t *template) append(dst []byte, tail, rid string) []byte {
	for i, p := range t.pieces {
		dst = append(dst, p...)
		if i < len(t.holes) {
			if t.holes[i] == tailMark {
				dst = append(dst, tail...)
			} else {
				dst = append(dst, rid...)
			}
		}
	}
	return dst
}

// template encodes the requests behind one head.
func (r *runner) template(head string, maxTokens int, cold bool) (*template, error) {
	body, err := r.switches.Body(r.bodyInput(head+tailMark+r.prompts.ask, maxTokens, ridMark, cold))
	if err != nil {
		return nil, err
	}
	t := &template{}
	for {
		i, mark := bytes.Index(body, []byte(tailMark)), tailMark
		if j := bytes.Index(body, []byte(ridMark)); i < 0 || (j >= 0 && j < i) {
			i, mark = j, ridMark
		}
		if i < 0 {
			t.pieces = append(t.pieces, body)
			break
		}
		t.pieces = append(t.pieces, body[:i:i])
		t.holes = append(t.holes, mark)
		body = body[i+len(mark):]
	}
	if len(t.holes) == 0 {
		return nil, errors.New("the request body has no place for the prompt")
	}
	return t, nil
}

func (r *runner) bodyInput(prompt string, maxTokens int, rid string, cold bool) engine.BodyInput {
	return engine.BodyInput{
		Endpoint: r.cfg.Endpoint, Model: r.info.Model, Prompt: prompt, MaxTokens: maxTokens,
		Temperature: r.cfg.Temperature, TopP: r.cfg.TopP, Thinking: r.cfg.Thinking, ReasoningEffort: r.cfg.Effort,
		Extra: r.cfg.Extra, RID: rid, Cold: cold,
	}
}

// words returns how many words of context text make a prompt of that many
// tokens by the server's own count, within engine.Tolerance and never over
// limit. Counting may cost a prefill, so a length is looked up once.
//
// The texts that are counted have salts of their own: a server that counts by
// running a request must not find the measured text in its cache.
func (r *runner) words(ctx context.Context, tokens, limit int) (int, error) {
	if tokens == 0 {
		return 0, nil
	}
	key := [2]int{tokens, limit}
	if n, ok := r.lengths[key]; ok {
		return n, nil
	}
	r.stage(Calibrating, 0)
	probe := 0
	text := func(units int) string {
		probe++
		return r.prompts.head(units, tokens, genProbe+probe) + r.prompts.primeTail(tokens, genProbe+probe) + r.prompts.ask
	}
	fit, err := engine.Calibrate(ctx, tokens, limit, text, r.count)
	if err != nil {
		return 0, fmt.Errorf("prompt of %d tokens: %w", tokens, err)
	}
	r.lengths[key] = fit.Units
	return fit.Units, nil
}

// count is the server's own count of a prompt. A tokenizer endpoint that knows the
// server's plain texts and not its messages answers with 0 tokens: then, and from
// then on, the usage of one-token requests is asked.
func (r *runner) count(ctx context.Context, text string) (int, error) {
	prompt := engine.Prompt{Endpoint: r.cfg.Endpoint, Text: text, Thinking: r.cfg.Thinking, MaxTokensKey: r.switches.MaxTokensKey}
	n, err := engine.CountTokens(ctx, r.deps.Target, r.info, prompt)
	if err != nil || n > 0 || text == "" || !r.info.HasTokenize {
		return n, err
	}
	r.info.HasTokenize = false
	if err := r.doubt("tokenize", fmt.Sprintf("the server's /tokenize counts %d tokens in a prompt of %d characters; the usage of one-token requests is taken instead", n, utf8.RuneCountInString(text))); err != nil {
		return 0, err
	}
	return engine.CountTokens(ctx, r.deps.Target, r.info, prompt)
}

// Generations of a context's head. Each has a salt of its own.
const (
	genShared   = 0       // the text of --prefix shared; also the first prefill sample
	genDistinct = 1 << 10 // + slot
	genProbe    = 1 << 20 // + number of the count
)
