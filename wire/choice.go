package wire

import "bytes"

// maxChoices bounds the choices of an event that are read, since three bytes of
// a payload would cost a hundred of ours, and those whose calls are remembered.
const maxChoices = 256

// choice reads entry i of choices.
func (r *reader) choice(i int) {
	if len(r.ev.Choices) == maxChoices {
		r.skip()
		return
	}
	if !r.object() {
		return
	}
	ch := r.newChoice(i)
	numbered, delta := false, absent
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "index":
			numbered = true
			if n := r.count(); n != None {
				ch.Index = n
			}
		case "delta", "message":
			if numbered {
				r.delta(ch)
			} else {
				delta = r.pass() // its calls are numbered by choice
			}
		case "text":
			ch.add(Content, r.str())
		case "finish_reason", "finishReason":
			if reason := r.str(); len(reason) > 0 {
				ch.Finish = reason
			}
		case "stop_reason":
			ch.Stop = r.str()
		case "token_ids", "output_ids":
			if n := r.items(); n != None {
				ch.TokenIDs = n
			}
		case "logprobs":
			ch.Logprobs = r.logprobs()
		case "usage": // Kimi
			if r.ev.Usage.Has {
				r.skip()
			} else {
				r.usage()
			}
		default:
			r.skip()
		}
	}
	if delta != absent && !r.bad {
		resume := r.back(delta)
		r.delta(ch)
		r.back(resume)
	}
}

// newChoice adds a choice to the event, in the memory of an earlier one.
func (r *reader) newChoice(index int) *Choice {
	n := len(r.ev.Choices)
	if n < cap(r.ev.Choices) {
		r.ev.Choices = r.ev.Choices[:n+1]
	} else {
		r.ev.Choices = append(r.ev.Choices, Choice{})
	}
	ch := &r.ev.Choices[n]
	*ch = Choice{Index: index, Parts: ch.Parts[:0], TokenIDs: None, Logprobs: None}
	return ch
}

// logprobs returns the number of entries, in the shape of chat (content,
// refusal) or of completions (tokens).
func (r *reader) logprobs() int {
	n := None
	if !r.object() {
		return n
	}
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "content", "refusal", "tokens":
			if items := r.items(); items != None {
				n = max(n, 0) + items
			}
		default:
			r.skip()
		}
	}
	return n
}

func (ch *Choice) add(c Channel, text []byte) {
	if len(text) > 0 {
		ch.Parts = append(ch.Parts, Part{Channel: c, Text: text})
	}
}

func (ch *Choice) addName(c Channel, name []byte) {
	if len(name) > 0 {
		ch.Parts = append(ch.Parts, Part{Channel: c, Name: true, Text: name})
	}
}

// nearby is how many parts back the twin of a reasoning text is looked for. In a
// delta that a server made it is among the first; one with a thousand such keys
// must not cost a million comparisons.
const nearby = 8

// addReasoning adds a text of the reasoning channel unless another key of the
// same delta brought it: vLLM 0.12 to 0.15 sent both reasoning and
// reasoning_content.
func (ch *Choice) addReasoning(text []byte) {
	for _, p := range ch.Parts[max(len(ch.Parts)-nearby, 0):] {
		if p.Channel == Reasoning && bytes.Equal(p.Text, text) {
			return
		}
	}
	ch.add(Reasoning, text)
}

// delta reads the object of a choice that holds its new output.
func (r *reader) delta(ch *Choice) {
	if !r.object() {
		return
	}
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "content":
			r.content(ch)
		case "reasoning_content", "reasoning", "thinking":
			ch.addReasoning(r.str())
		case "refusal":
			ch.add(Refusal, r.str())
		case "tool_calls":
			if r.array() {
				for r.elem() {
					r.toolCall(ch)
				}
			}
		case "function_call":
			r.function(ch, Tool0)
		default:
			r.skip()
		}
	}
}

// content reads a text, or the array of typed parts that Mistral sends.
func (r *reader) content(ch *Choice) {
	if r.peek() != '[' {
		ch.add(Content, r.str())
		return
	}
	r.array()
	for r.elem() {
		r.contentPart(ch)
	}
}

func (r *reader) contentPart(ch *Choice) {
	if !r.object() {
		return
	}
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "text":
			ch.add(Content, r.str())
		case "thinking":
			r.thinking(ch)
		default:
			r.skip()
		}
	}
}

// thinking reads a text, or an array of {"text":…}.
func (r *reader) thinking(ch *Choice) {
	if r.peek() != '[' {
		ch.add(Reasoning, r.str())
		return
	}
	r.array()
	for r.elem() {
		if !r.object() {
			continue
		}
		for key, ok := r.key(); ok; key, ok = r.key() {
			if string(key) == "text" {
				ch.add(Reasoning, r.str())
			} else {
				r.skip()
			}
		}
	}
}
