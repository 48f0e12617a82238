package sim

import (
	"strconv"
	"time"
)

// llamacpp writes as llama-server b11434 does: an HTTP chunk may hold several
// events (role and first token, finish and usage), every token is an event of
// its own, timings hang on the last chunk, and n choices have a usage chunk each.
type llamacpp struct{}

const llamaFingerprint = "b1-7e4c0a9"

// event appends an event whose choices are given, up to the members that follow.
func (llamacpp) event(r *reply, choices func()) {
	r.str(`data: {"choices":[`)
	choices()
	r.str(`],"created":`)
	r.num(int(r.created))
	if r.req.chat {
		r.str(`,"id":`)
		r.quote(r.id)
	}
	r.str(`,"model":`)
	r.quote(r.model)
	r.str(`,"system_fingerprint":"` + llamaFingerprint + `","object":`)
	if r.req.chat {
		r.str(`"chat.completion.chunk"`)
	} else {
		r.str(`"text_completion"`)
	}
}

func (l llamacpp) role(r *reply, i int) {
	l.event(r, func() {
		r.str(`{"finish_reason":null,"index":`)
		r.num(i)
		r.str(`,"delta":{"role":"assistant","content":null}}`)
	})
}

func (l llamacpp) admitted(r *reply) {
	r.prefillAt = time.Now()
	if r.req.progress && r.req.stream && r.req.chat {
		l.progress(r, r.cached)
	}
}

func (l llamacpp) progress(r *reply, processed int) {
	l.role(r, 0)
	if r.req.timings {
		l.timings(r, processed-r.cached, 0)
	}
	r.str(`,"prompt_progress":{"total":`)
	r.num(r.prompt)
	r.str(`,"cache":`)
	r.num(r.cached)
	r.str(`,"processed":`)
	r.num(processed)
	r.str(`,"time_ms":`)
	r.num(int(time.Since(r.prefillAt).Milliseconds()))
	r.str("}}\n\n")
	r.cut(0)
}

func (l llamacpp) begin(r *reply) {
	r.head = []byte{}
	r.decodeAt = time.Now()
	if r.req.progress && r.req.stream && r.req.chat {
		l.progress(r, r.prompt)
	}
}

func (l llamacpp) tokens(r *reply, i int, finish End) {
	c := &r.choices[i]
	before := c.made - len(c.step)
	for k, t := range c.step {
		if r.req.chat && before+k == 0 {
			l.role(r, i)
			r.str("}\n\n") // shares the HTTP chunk of the first token
		}
		l.token(r, i, t, before+k+1)
	}
	if finish == "" {
		return
	}
	l.event(r, func() {
		if !r.req.chat {
			r.str(`{"text":"","index":`)
			r.num(i)
			r.str(`,"logprobs":null,"finish_reason":`)
			r.maybeReason(finish)
			r.str("}")
			return
		}
		r.str(`{"finish_reason":`)
		r.maybeReason(finish)
		r.str(`,"index":`)
		r.num(i)
		r.str(`,"delta":{}}`)
	})
	if r.req.includeUsage {
		if r.req.chat {
			r.str("}\n\n")
			l.event(r, func() {})
		}
		l.usage(r, c.made)
	}
	l.completionID(r)
	l.timings(r, r.prompt-r.cached, c.made)
	r.str("}\n\n")
	r.cut(0)
}

func (l llamacpp) token(r *reply, i, t, made int) {
	c := &r.choices[i]
	l.event(r, func() {
		switch {
		case !r.req.chat:
			r.str(`{"text":`)
			r.words([]int{t})
			r.str(`,"index":`)
			r.num(i)
			r.str(`,"logprobs":`)
			if r.req.logprobs {
				l.logprobs(r, t)
			} else {
				r.str("null")
			}
			r.str(`,"finish_reason":null}`)
			return
		case c.channel == reasoned:
			r.str(`{"finish_reason":null,"index":`)
			r.num(i)
			r.str(`,"delta":{"reasoning_content":`)
		default:
			r.str(`{"finish_reason":null,"index":`)
			r.num(i)
			r.str(`,"delta":{"content":`)
		}
		r.words([]int{t})
		r.str("}")
		if r.req.logprobs {
			r.str(`,"logprobs":`)
			l.logprobs(r, t)
		}
		r.str("}")
	})
	l.completionID(r)
	if r.req.timings {
		l.timings(r, r.prompt-r.cached, made)
	}
	r.str("}\n\n")
	r.cut(1)
}

// completionID: the legacy endpoint has its id behind, with the chat prefix.
func (llamacpp) completionID(r *reply) {
	if !r.req.chat {
		r.str(`,"id":`)
		r.quote(r.id)
	}
}

func (l llamacpp) logprobs(r *reply, t int) {
	r.str(`{"content":[`)
	l.entry(r, t)
	r.top(t, func(t int) { l.entry(r, t); r.str("}") })
	r.str("]}")
}

func (llamacpp) entry(r *reply, t int) {
	text := vocabulary[t]
	r.str(`{"id":`)
	r.num(t + firstID)
	r.str(`,"token":`)
	r.quote(text)
	r.str(`,"bytes":`)
	r.out = appendBytes(r.out, text)
	r.str(`,"logprob":`)
	r.out = appendFloat(r.out, logprob(t))
}

func (llamacpp) usage(r *reply, completion int) {
	r.str(`,"usage":{"completion_tokens":`)
	r.num(completion)
	r.str(`,"prompt_tokens":`)
	r.num(r.prompt)
	r.str(`,"total_tokens":`)
	r.num(r.prompt + completion)
	r.str(`,"prompt_tokens_details":{"cached_tokens":`)
	r.num(r.cached)
	r.str("}}")
}

// timings appends the timings object; predicted_n is the exact token count.
func (llamacpp) timings(r *reply, prompt, predicted int) {
	var promptMS, predictedMS float64
	if !r.decodeAt.IsZero() {
		promptMS = ms(r.decodeAt.Sub(r.prefillAt))
		predictedMS = ms(time.Since(r.decodeAt))
	}
	one := func(name string, n int, total float64) {
		r.str(`"` + name + `_n":`)
		r.num(n)
		r.str(`,"` + name + `_ms":`)
		r.float(total)
		r.str(`,"` + name + `_per_token_ms":`)
		r.float(ratio(total, float64(n)))
		r.str(`,"` + name + `_per_second":`)
		r.float(ratio(1e3*float64(n), total))
	}
	r.str(`,"timings":{"cache_n":`)
	r.num(r.cached)
	r.str(",")
	one("prompt", prompt, promptMS)
	r.str(",")
	one("predicted", predicted, predictedMS)
	r.str("}")
}

func (r *reply) float(f float64) { r.out = strconv.AppendFloat(r.out, f, 'f', -1, 64) }

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (llamacpp) end(r *reply) { r.done() }

func (llamacpp) broken(r *reply, message string) {
	r.str(`data: {"error":{"code":500,"message":`)
	r.quote(message)
	r.str(`,"type":"server_error"}}` + "\n\n")
	r.cut(0)
}

func (l llamacpp) whole(r *reply) []byte {
	r.str(`{"choices":[`)
	for i := range r.choices {
		c := &r.choices[i]
		if i > 0 {
			r.str(",")
		}
		if r.req.chat {
			r.str(`{"finish_reason":`)
			r.maybeReason(c.finish)
			r.str(`,"index":`)
			r.num(i)
			r.str(`,"message":{"role":"assistant","content":`)
			r.quote(string(c.text))
			if len(c.thought) > 0 {
				r.str(`,"reasoning_content":`)
				r.quote(string(c.thought))
			}
			r.str("}}")
			continue
		}
		r.str(`{"text":`)
		r.quote(string(c.text))
		r.str(`,"index":`)
		r.num(i)
		r.str(`,"logprobs":null,"finish_reason":`)
		r.maybeReason(c.finish)
		r.str("}")
	}
	r.str(`],"created":`)
	r.num(int(r.created))
	r.str(`,"model":`)
	r.quote(r.model)
	r.str(`,"system_fingerprint":"` + llamaFingerprint + `","object":`)
	if r.req.chat {
		r.str(`"chat.completion"`)
	} else {
		r.str(`"text_completion"`)
	}
	l.usage(r, r.made())
	r.str(`,"id":`)
	r.quote(r.id)
	l.timings(r, r.prompt-r.cached, r.made())
	r.str("}")
	return r.out
}
