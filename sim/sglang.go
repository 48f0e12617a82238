package sim

import "strconv"

// sglang writes as SGLang 0.5.23 does: headers, role chunk and first token come
// together, and a finish chunk of its own follows the last text on chat.
type sglang struct{}

func (sglang) admitted(*reply) {}

func (sglang) begin(r *reply) {
	object := "text_completion"
	if r.req.chat {
		object = "chat.completion.chunk"
	}
	r.head = append(r.head[:0], `data: {"id":`...)
	r.head = appendQuoted(r.head, r.id)
	r.head = append(r.head, `,"object":"`+object+`","created":`...)
	r.head = strconv.AppendInt(r.head, r.created, 10)
	r.head = append(r.head, `,"model":`...)
	r.head = appendQuoted(r.head, r.model)
	r.head = append(r.head, `,"choices":[`...)
}

func (sglang) choice(r *reply, i int) {
	r.out = append(r.out, r.head...)
	r.str(`{"index":`)
	r.num(i)
	r.str(",")
}

func (g sglang) tokens(r *reply, i int, finish End) {
	c := &r.choices[i]
	if !r.req.chat {
		g.completion(r, i, finish)
		return
	}
	if len(c.step) == 0 {
		return
	}
	if c.made == len(c.step) {
		// No usage here, even with continuous_usage_stats.
		g.choice(r, i)
		r.str(`"delta":{"reasoning_content":null,"role":"assistant","content":""},"logprobs":null,"finish_reason":null,"matched_stop":null}]}` + "\n\n")
		r.cut(0)
	}
	g.choice(r, i)
	if c.channel == reasoned {
		r.str(`"delta":{"reasoning_content":`)
	} else {
		r.str(`"delta":{"reasoning_content":null,"content":`)
	}
	r.words(c.step)
	r.str(`},"logprobs":`)
	g.logprobs(r, c)
	r.str(`,"finish_reason":null,"matched_stop":null}]`)
	if r.req.includeUsage && r.req.continuousUsage {
		g.usage(r, c.made)
	}
	r.str("}\n\n")
	r.cut(len(c.step))
}

func (g sglang) completion(r *reply, i int, finish End) {
	c := &r.choices[i]
	g.choice(r, i)
	r.str(`"text":`)
	r.words(c.step)
	r.str(`,"logprobs":`)
	g.logprobs(r, c)
	r.str(`,"finish_reason":`)
	r.maybeReason(finish)
	r.str(`,"matched_stop":`)
	g.matched(r, finish)
	r.str("}]")
	if r.req.includeUsage && r.req.continuousUsage {
		g.usage(r, c.made)
	} else {
		r.str(`,"usage":null`)
	}
	r.str("}\n\n")
	r.cut(len(c.step))
}

// stopID is the end-of-text token.
const stopID = 106

func (sglang) matched(r *reply, finish End) {
	if finish == Stop {
		r.num(stopID)
		return
	}
	r.str("null")
}

func (g sglang) logprobs(r *reply, c *choice) {
	switch {
	case !r.req.logprobs:
		r.str("null")
	case !r.req.chat:
		r.completionLogprobs(c)
	default:
		r.str(`{"content":[`)
		for i, t := range c.step {
			if i > 0 {
				r.str(",")
			}
			g.entry(r, t)
			r.top(t, func(t int) { g.entry(r, t); r.str("}") })
		}
		r.str("]}")
	}
}

func (sglang) entry(r *reply, t int) {
	text := vocabulary[t]
	r.str(`{"token":`)
	r.quote(text)
	r.str(`,"bytes":`)
	r.out = appendBytes(r.out, text)
	r.str(`,"logprob":`)
	r.out = appendFloat(r.out, logprob(t))
}

func (sglang) usage(r *reply, completion int) {
	r.usageOpen(completion)
	details := func() {
		r.str(`,"prompt_tokens_details":`)
		if r.report && r.cached > 0 {
			r.str(`{"cached_tokens":`)
			r.num(r.cached)
			r.str("}")
		} else {
			r.str("null")
		}
	}
	if r.req.chat {
		details()
		r.str(`,"reasoning_tokens":`)
		r.num(r.thoughts())
		r.str(`,"completion_tokens_details":null}`)
		return
	}
	if r.report && r.cached > 0 {
		details()
	}
	r.str(`,"reasoning_tokens":0}`)
}

// thoughts counts the reasoning tokens made so far.
func (r *reply) thoughts() int {
	n := 0
	for i := range r.choices {
		n += r.choices[i].thoughts
	}
	return n
}

// end: the finish chunks of all choices follow their last texts.
func (g sglang) end(r *reply) {
	for i := range r.choices {
		if !r.req.chat {
			break
		}
		finish := r.choices[i].finish
		g.choice(r, i)
		r.str(`"delta":{"reasoning_content":null},"logprobs":null,"finish_reason":`)
		r.maybeReason(finish)
		r.str(`,"matched_stop":`)
		g.matched(r, finish)
		r.str("}]}\n\n")
		r.cut(0)
	}
	if r.req.includeUsage {
		r.out = append(r.out, r.head...)
		r.str("]")
		g.usage(r, r.made())
		r.str("}\n\n")
		r.cut(0)
	}
	r.done()
}

func (sglang) broken(r *reply, message string) {
	r.str(`data: {"error":{"object":"error","message":`)
	r.quote(message)
	r.str(`,"type":"InternalServerError","param":null,"code":500}}` + "\n\n")
	r.cut(0)
	r.done()
}

func (g sglang) whole(r *reply) []byte {
	object := "text_completion"
	if r.req.chat {
		object = "chat.completion"
	}
	r.str(`{"id":`)
	r.quote(r.id)
	r.str(`,"object":"` + object + `","created":`)
	r.num(int(r.created))
	r.str(`,"model":`)
	r.quote(r.model)
	r.str(`,"choices":[`)
	for i := range r.choices {
		c := &r.choices[i]
		if i > 0 {
			r.str(",")
		}
		r.str(`{"index":`)
		r.num(i)
		if r.req.chat {
			r.str(`,"message":{"role":"assistant","content":`)
			r.quote(string(c.text))
			r.str(`,"reasoning_content":`)
			r.quoteOrNull(c.thought)
			r.str(`,"tool_calls":null}`)
		} else {
			r.str(`,"text":`)
			r.quote(string(c.text))
		}
		r.str(`,"logprobs":null,"finish_reason":`)
		r.maybeReason(c.finish)
		r.str(`,"matched_stop":`)
		g.matched(r, c.finish)
		r.str("}")
	}
	r.str("]")
	g.usage(r, r.made())
	r.str(`,"metadata":{"weight_version":"default"}}`)
	return r.out
}
