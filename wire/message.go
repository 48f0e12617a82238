package wire

// message reads one event of Anthropic's Messages, or the whole reply of a
// request that did not stream.
func (r *reader) message(c *complaint) {
	var kind []byte
	index := None
	delta, start, block := absent, absent, absent    // of events
	content, reason, usage := absent, absent, absent // of whole replies; usage of both
	r.object()
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "type":
			kind = r.str()
		case "id":
			r.ev.ID = r.str()
		case "model":
			r.ev.Model = r.str()
		case "object":
			c.bare = string(r.str()) == "error" || c.bare
		case "index":
			index = r.count()
		case "delta":
			delta = r.pass()
		case "message":
			start = r.pass()
		case "content_block":
			block = r.pass()
		case "content":
			content = r.pass()
		case "stop_reason":
			reason = r.pass()
		case "usage":
			usage = r.pass()
		default:
			r.other(key, c)
		}
	}
	if r.bad {
		return
	}
	end := r.i
	switch string(kind) {
	case "message_start":
		r.messageStart(start)
	case "content_block_start":
		r.contentBlock(block, index)
	case "content_block_delta":
		r.blockDelta(delta, index)
	case "message_delta":
		r.messageDelta(delta)
		r.messageUsage(usage)
	case "message_stop":
		r.ev.Kind = Done
	case "message":
		r.contentBlocks(content)
		r.stopReason(reason)
		r.messageUsage(usage)
	case "error":
		c.bare = true
	}
	r.i = end
}

// revisit goes back to an object that was passed, false if there is none.
func (r *reader) revisit(at int) bool {
	if at == absent {
		return false
	}
	r.back(at)
	return r.object()
}

// messageStart reads what is known before the first token. Its output_tokens are
// none: Anthropic itself sends 1 there.
func (r *reader) messageStart(at int) {
	if !r.revisit(at) {
		return
	}
	usage := absent
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "id":
			r.ev.ID = r.str()
		case "model":
			r.ev.Model = r.str()
		case "usage":
			usage = r.pass()
		default:
			r.skip()
		}
	}
	r.messageUsage(usage)
	r.ev.Usage.CompletionTokens = None
}

// contentBlock reads the start of a block, or a whole one. A block has its
// channel by its kind; calls are numbered in the order in which they begin.
func (r *reader) contentBlock(at, index int) {
	if !r.revisit(at) {
		return
	}
	ch := r.only()
	name, input := absent, absent
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "text":
			ch.add(Content, r.str())
		case "thinking":
			ch.add(Reasoning, r.str())
		case "name":
			name = r.pass()
		case "input":
			input = r.pass()
		default:
			r.skip()
		}
	}
	if name == absent {
		return
	}
	tool := r.callAt(index, nil)
	r.back(name)
	ch.addName(tool, r.str())
	if input != absent {
		r.back(input)
		// It opens as {} and comes in deltas.
		if raw := r.raw(); len(raw) > len("{}") {
			ch.add(tool, raw)
		}
	}
}

// contentBlocks reads the content of a whole reply.
func (r *reader) contentBlocks(at int) {
	if at == absent {
		return
	}
	r.back(at)
	if !r.array() {
		return
	}
	for i := 0; r.elem(); i++ {
		block := r.pass()
		resume := r.i
		r.contentBlock(block, i)
		r.i = resume
	}
}

// blockDelta reads more of a block. Signatures and citations are no output.
func (r *reader) blockDelta(at, index int) {
	if !r.revisit(at) {
		return
	}
	ch := r.only()
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "text":
			ch.add(Content, r.str())
		case "thinking":
			ch.add(Reasoning, r.str())
		case "partial_json":
			ch.add(r.callAt(index, nil), r.str())
		default:
			r.skip()
		}
	}
}

func (r *reader) messageDelta(at int) {
	if !r.revisit(at) {
		return
	}
	reason := absent
	for key, ok := r.key(); ok; key, ok = r.key() {
		if string(key) == "stop_reason" {
			reason = r.pass()
		} else {
			r.skip()
		}
	}
	r.stopReason(reason)
}

// stopReason ends the choice, unless the reason is null.
func (r *reader) stopReason(at int) {
	if at == absent {
		return
	}
	r.back(at)
	if reason := r.str(); len(reason) > 0 {
		ch := r.only()
		ch.Stop, ch.Finish = reason, finishOf(reason)
	}
}

// The words of chat for the endings of other dialects.
var (
	finishStop       = []byte("stop")
	finishLength     = []byte("length")
	finishCalls      = []byte("tool_calls")
	finishFilter     = []byte("content_filter")
	finishIncomplete = []byte("incomplete") // Responses, without a reason
)

// finishOf returns the finish reason for a reason of Messages or Responses;
// those that chat has no word for stay.
func finishOf(reason []byte) []byte {
	switch string(reason) {
	case "end_turn", "stop_sequence":
		return finishStop
	case "max_tokens", "max_output_tokens", "model_context_window_exceeded":
		return finishLength
	case "tool_use":
		return finishCalls
	case "refusal":
		return finishFilter
	}
	return reason
}

// messageUsage reads a usage object, in which input_tokens leaves the cached
// ones out.
func (r *reader) messageUsage(at int) {
	if !r.revisit(at) {
		return
	}
	u := &r.ev.Usage
	u.Has = true
	written := None
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "input_tokens":
			u.PromptTokens = r.count()
		case "cache_read_input_tokens":
			u.CachedTokens = r.count()
		case "cache_creation_input_tokens":
			written = r.count()
		case "output_tokens":
			u.CompletionTokens = r.count()
		default:
			r.skip()
		}
	}
	if u.PromptTokens != None {
		u.PromptTokens += max(u.CachedTokens, 0) + max(written, 0)
	}
}
