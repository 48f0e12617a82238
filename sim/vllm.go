package sim

import "strconv"

// vllm writes as vLLM 0.32's Python front end does: the role chunk comes with
// the first token, the last text shares a chunk with the finish reason.
type vllm struct{}

const vllmFingerprint = `,"system_fingerprint":"vllm-0.32.0-58c3011b"`

func (vllm) admitted(*reply) {}

func (v vllm) begin(r *reply) {
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
	if !r.req.chat {
		return
	}
	for i := range r.choices {
		r.out = append(r.out, r.head...)
		r.str(`{"index":`)
		r.num(i)
		r.str(`,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`)
		if r.req.includeUsage && r.req.continuousUsage {
			v.usage(r, 0)
		}
		r.str(`,"prompt_token_ids":`)
		v.promptIDs(r)
		r.str(`,"prompt_text":null}` + "\n\n")
		r.cut(0)
	}
}

func (vllm) promptIDs(r *reply) {
	if !r.req.tokenIDs {
		r.str("null")
		return
	}
	r.str("[")
	for i, id := range r.req.ids {
		if i > 0 {
			r.str(",")
		}
		r.num(id)
	}
	r.str("]")
}

func (v vllm) tokens(r *reply, i int, finish End) {
	c := &r.choices[i]
	r.out = append(r.out, r.head...)
	r.str(`{"index":`)
	r.num(i)
	switch {
	case !r.req.chat:
		r.str(`,"text":`)
	case c.channel == reasoned:
		r.str(`,"delta":{"reasoning":`)
	default:
		r.str(`,"delta":{"content":`)
	}
	r.words(c.step)
	if r.req.chat {
		r.str("}")
	}
	r.str(`,"logprobs":`)
	if r.req.logprobs {
		v.logprobs(r, c)
	} else {
		r.str("null")
	}
	r.str(`,"finish_reason":`)
	r.maybeReason(finish)
	if finish != "" || !r.req.chat {
		r.str(`,"stop_reason":null`)
	}
	if !r.req.chat {
		r.str(`,"prompt_token_ids":`)
		if c.made == len(c.step) {
			v.promptIDs(r)
		} else {
			r.str("null")
		}
	}
	r.str(`,"token_ids":`)
	if r.req.tokenIDs {
		r.str("[")
		r.idList(c.step)
		r.str("]")
	} else {
		r.str("null")
	}
	r.str("}]")
	switch {
	case r.req.includeUsage && r.req.continuousUsage:
		v.usage(r, c.made)
	case finish != "" && !r.req.includeUsage:
		r.str(vllmFingerprint)
	}
	r.str("}\n\n")
	r.cut(len(c.step))
}

func (vllm) usage(r *reply, completion int) {
	r.usageOpen(completion)
	if r.req.chat {
		r.str(`,"completion_tokens_details":null`)
	}
	r.str("}")
}

// usageOpen appends a usage object but for its closing brace.
func (r *reply) usageOpen(completion int) {
	r.str(`,"usage":{"prompt_tokens":`)
	r.num(r.prompt)
	r.str(`,"total_tokens":`)
	r.num(r.prompt + completion)
	r.str(`,"completion_tokens":`)
	r.num(completion)
}

func (v vllm) logprobs(r *reply, c *choice) {
	if !r.req.chat {
		r.completionLogprobs(c)
		return
	}
	r.str(`{"content":[`)
	for i, t := range c.step {
		if i > 0 {
			r.str(",")
		}
		v.entry(r, t)
		r.top(t, func(t int) { v.entry(r, t); r.str("}") })
	}
	r.str("]}")
}

func (vllm) entry(r *reply, t int) {
	text := vocabulary[t]
	r.str(`{"token":`)
	r.quote(text)
	r.str(`,"logprob":`)
	r.out = appendFloat(r.out, logprob(t))
	r.str(`,"bytes":`)
	r.out = appendBytes(r.out, text)
}

// top closes a logprob entry with its alternatives: the token itself, then the
// ones behind it in the vocabulary.
func (r *reply) top(t int, entry func(int)) {
	r.str(`,"top_logprobs":[`)
	for k := range r.req.topLogprobs {
		if k > 0 {
			r.str(",")
		}
		entry((t + k) % len(vocabulary))
	}
	r.str("]}")
}

// completionLogprobs is the legacy shape, shared by vLLM and SGLang.
func (r *reply) completionLogprobs(c *choice) {
	r.str(`{"text_offset":[`)
	at := c.chars
	for i, t := range c.step {
		if i > 0 {
			r.str(",")
		}
		r.num(at)
		at += len(vocabulary[t])
	}
	r.str(`],"token_logprobs":[`)
	for i, t := range c.step {
		if i > 0 {
			r.str(",")
		}
		r.out = appendFloat(r.out, logprob(t))
	}
	r.str(`],"tokens":[`)
	for i, t := range c.step {
		if i > 0 {
			r.str(",")
		}
		r.quote(vocabulary[t])
	}
	r.str(`],"top_logprobs":[`)
	for i, t := range c.step {
		if i > 0 {
			r.str(",")
		}
		r.str("{")
		for k := range max(1, r.req.topLogprobs) {
			if k > 0 {
				r.str(",")
			}
			other := (t + k) % len(vocabulary)
			r.quote(vocabulary[other])
			r.str(":")
			r.out = appendFloat(r.out, logprob(other))
		}
		r.str("}")
	}
	r.str("]}")
}

func (v vllm) end(r *reply) {
	if r.req.includeUsage {
		r.out = append(r.out, r.head...)
		r.str("]")
		r.usageOpen(r.made())
		v.cachedDetails(r)
		r.str("}" + vllmFingerprint + "}\n\n")
		r.cut(0)
	}
	r.done()
}

func (vllm) cachedDetails(r *reply) {
	if r.report {
		r.str(`,"prompt_tokens_details":{"cached_tokens":`)
		r.num(r.cached)
		r.str("}")
	}
}

func (r *reply) done() {
	r.str("data: [DONE]\n\n")
	r.cut(0)
}

func (vllm) broken(r *reply, message string) {
	r.str(`data: {"error":{"message":`)
	r.quote(message)
	r.str(`,"type":"InternalServerError","param":null,"code":500}}` + "\n\n")
	r.cut(0)
	r.done()
}

func (v vllm) whole(r *reply) []byte {
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
			r.str(`,"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":`)
			r.quoteOrNull(c.thought)
			r.str("}")
		} else {
			r.str(`,"text":`)
			r.quote(string(c.text))
		}
		r.str(`,"logprobs":null,"finish_reason":`)
		r.maybeReason(c.finish)
		r.str(`,"stop_reason":null,"token_ids":null`)
		if r.req.chat {
			r.str(`,"routed_experts":null`)
		}
		r.str("}")
	}
	r.str(`],"service_tier":null` + vllmFingerprint)
	r.usageOpen(r.made())
	if r.report {
		v.cachedDetails(r)
	} else {
		r.str(`,"prompt_tokens_details":null`)
	}
	r.str(`,"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`)
	return r.out
}

func (r *reply) quoteOrNull(s []byte) {
	if len(s) == 0 {
		r.str("null")
		return
	}
	r.quote(string(s))
}
