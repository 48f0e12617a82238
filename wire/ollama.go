package wire

// ollama reads one line of /api/chat or /api/generate.
func (r *reader) ollama(c *complaint) {
	var reason []byte
	done := false
	u := noUsage
	r.object()
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "model":
			r.ev.Model = r.str()
		case "message":
			r.delta(r.only())
		case "response":
			r.only().add(Content, r.str())
		case "thinking":
			r.only().add(Reasoning, r.str())
		case "logprobs":
			r.only().Logprobs = r.items()
		case "done":
			done = r.peek() == 't'
			r.skip()
		case "done_reason":
			reason = r.str()
		case "prompt_eval_count":
			u.PromptTokens = r.count()
		case "eval_count":
			u.CompletionTokens = r.count()
		default:
			r.other(key, c)
		}
	}
	if !done {
		return
	}
	r.ev.Kind = Done
	if len(reason) > 0 {
		r.only().Finish = reason
	}
	u.Has = u.PromptTokens != None || u.CompletionTokens != None
	r.ev.Usage = u
}
