package wire

// response reads one event of OpenAI's Responses, or the whole reply of a
// request that did not stream.
func (r *reader) response(c *complaint) {
	var kind, object, item []byte
	index, logprobs := None, None
	delta, added, inner := absent, absent, absent
	r.object()
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "type": // vLLM and SGLang send it last
			kind = r.str()
		case "object":
			object = r.str()
		case "output_index":
			index = r.count()
		case "item_id":
			item = r.str()
		case "delta":
			delta = r.pass()
		case "item":
			added = r.pass()
		case "response":
			inner = r.pass()
		case "logprobs":
			logprobs = r.items()
		case "timings":
			r.timings()
		default:
			r.other(key, c)
		}
	}
	if r.bad {
		return
	}
	end := r.i
	switch string(kind) {
	case "response.output_text.delta":
		r.outputDelta(delta, Content, logprobs)
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		r.outputDelta(delta, Reasoning, logprobs)
	case "response.refusal.delta":
		r.outputDelta(delta, Refusal, logprobs)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta",
		"response.mcp_call_arguments.delta", "response.code_interpreter_call_code.delta":
		r.outputDelta(delta, r.callAt(index, item), logprobs)
	case "response.output_item.added":
		r.outputItem(added, index, false)
	case "response.created", "response.in_progress", "response.queued":
		r.reply(inner, false, c)
	case "response.completed", "response.incomplete":
		r.ev.Kind = Done
		r.reply(inner, false, c)
		r.ended(kind)
	case "response.failed":
		r.reply(inner, false, c)
		c.bare = true
	case "error":
		c.bare = true
	case "":
		if string(object) == "response" {
			r.reply(0, true, c)
			r.ended(nil)
		}
		c.bare = c.bare || string(object) == "error"
	}
	r.i = end
}

// outputDelta reads more of one output. The events that end in done repeat what
// came in deltas; they are not read.
func (r *reader) outputDelta(at int, channel Channel, logprobs int) {
	if at == absent {
		return
	}
	ch := r.only()
	ch.Logprobs = logprobs
	r.back(at)
	ch.add(channel, r.str())
}

// outputItem reads an item that begins, or with whole a complete one.
func (r *reader) outputItem(at, index int, whole bool) {
	if !r.revisit(at) {
		return
	}
	var kind, id, callID []byte
	name, args := absent, absent
	parts, summary := absent, absent
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "type":
			kind = r.str()
		case "id":
			id = r.str()
		case "call_id": // llama.cpp: what deltas call item_id
			callID = r.str()
		case "name":
			name = r.pass()
		case "arguments", "input":
			args = r.pass()
		case "content":
			parts = r.pass()
		case "summary":
			summary = r.pass()
		default:
			r.skip()
		}
	}
	switch string(kind) {
	case "function_call", "custom_tool_call":
		r.of.called = true
	case "mcp_call":
	default:
		name, args = absent, absent
	}
	if name != absent {
		if id == nil {
			id = callID
		}
		tool := r.callAt(index, id)
		r.back(name)
		r.only().addName(tool, r.str())
		if whole && args != absent {
			r.back(args)
			r.only().add(tool, r.str())
		}
	}
	if whole {
		r.itemTexts(summary, true)
		r.itemTexts(parts, string(kind) == "reasoning")
	}
}

// itemTexts reads the parts of a complete item.
func (r *reader) itemTexts(at int, reasoning bool) {
	if at == absent {
		return
	}
	r.back(at)
	if !r.array() {
		return
	}
	for r.elem() {
		if !r.object() {
			continue
		}
		for key, ok := r.key(); ok; key, ok = r.key() {
			switch string(key) {
			case "text":
				channel := Content
				if reasoning {
					channel = Reasoning
				}
				r.only().add(channel, r.str())
			case "refusal":
				r.only().add(Refusal, r.str())
			default:
				r.skip()
			}
		}
	}
}

// reply reads a response object. Its output repeats what came in deltas; only of
// a whole reply it is new.
func (r *reader) reply(at int, whole bool, c *complaint) {
	if !r.revisit(at) {
		return
	}
	output, reason := absent, absent
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "id":
			r.ev.ID = r.str()
		case "model":
			r.ev.Model = r.str()
		case "usage":
			r.responseUsage()
		case "incomplete_details":
			reason = r.pass()
		case "output":
			output = r.pass()
		case "error":
			c.failure = r.pass()
		default:
			r.skip()
		}
	}
	if r.revisit(reason) {
		for key, ok := r.key(); ok; key, ok = r.key() {
			if string(key) == "reason" {
				r.only().Finish = finishOf(r.str())
			} else {
				r.skip()
			}
		}
	}
	if !whole || output == absent {
		return
	}
	r.back(output)
	if !r.array() {
		return
	}
	for i := 0; r.elem(); i++ {
		item := r.pass()
		resume := r.i
		r.outputItem(item, i, true)
		r.i = resume
	}
}

// ended gives the choice its finish reason, unless the reply named one.
func (r *reader) ended(kind []byte) {
	ch := r.only()
	switch {
	case len(ch.Finish) > 0:
	case string(kind) == "response.incomplete":
		ch.Finish = finishIncomplete
	case r.of.called:
		ch.Finish = finishCalls
	default:
		ch.Finish = finishStop
	}
}

func (r *reader) responseUsage() {
	if !r.object() {
		return
	}
	u := &r.ev.Usage
	*u = noUsage
	u.Has = true
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "input_tokens":
			u.PromptTokens = r.count()
		case "output_tokens":
			u.CompletionTokens = r.count()
		case "input_tokens_details":
			u.CachedTokens = r.member("cached_tokens")
		case "output_tokens_details":
			u.ReasoningTokens = r.member("reasoning_tokens")
		default:
			r.skip()
		}
	}
}
