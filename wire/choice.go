package wire

import (
	"bytes"

	"github.com/valyala/fastjson"
)

// choice reads entry i of choices.
func (c *chunk) choice(v *fastjson.Value, i int) {
	if v.Type() != fastjson.TypeObject {
		return
	}
	n := len(c.ev.Choices)
	if n == maxChoices {
		return // three bytes of a payload would cost a hundred of ours
	}
	if n < cap(c.ev.Choices) {
		c.ev.Choices = c.ev.Choices[:n+1]
	} else {
		c.ev.Choices = append(c.ev.Choices, Choice{})
	}
	ch := &c.ev.Choices[n]
	*ch = Choice{Index: i, Parts: ch.Parts[:0], TokenIDs: None, Logprobs: None}
	if index := count(v.Get("index")); index != None {
		ch.Index = index
	}
	v.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		switch string(key) {
		case "delta", "message":
			c.delta(ch, v)
		case "text":
			ch.add(Content, text(v))
		case "finish_reason", "finishReason":
			if reason := text(v); len(reason) > 0 {
				ch.Finish = reason
			}
		case "stop_reason":
			ch.Stop = text(v)
		case "token_ids", "output_ids":
			if v.Type() == fastjson.TypeArray {
				ch.TokenIDs = len(v.GetArray())
			}
		case "logprobs":
			ch.Logprobs = logprobs(v)
		case "usage": // Kimi
			if !c.ev.Usage.Has {
				c.ev.Usage.read(v)
			}
		}
	})
}

// logprobs returns the number of entries, in the shape of chat (content,
// refusal) or of completions (tokens).
func logprobs(v *fastjson.Value) int {
	n := None
	for _, key := range [...]string{"content", "refusal", "tokens"} {
		if a := v.Get(key); a != nil && a.Type() == fastjson.TypeArray {
			n = max(n, 0) + len(a.GetArray())
		}
	}
	return n
}

func (ch *Choice) add(c Channel, text []byte) {
	if len(text) > 0 {
		ch.Parts = append(ch.Parts, Part{Channel: c, Text: text})
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
func (c *chunk) delta(ch *Choice, v *fastjson.Value) {
	v.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		switch string(key) {
		case "content":
			ch.content(v)
		case "reasoning_content", "reasoning", "thinking":
			ch.addReasoning(text(v))
		case "refusal":
			ch.add(Refusal, text(v))
		case "tool_calls":
			for i, call := range v.GetArray() {
				c.toolCall(ch, call, i)
			}
		case "function_call":
			ch.function(Tool0, v)
		}
	})
}

// content reads a text, or the array of typed parts that Mistral sends.
func (ch *Choice) content(v *fastjson.Value) {
	if v.Type() != fastjson.TypeArray {
		ch.add(Content, text(v))
		return
	}
	for _, part := range v.GetArray() {
		switch thinking := part.Get("thinking"); {
		case thinking == nil:
			ch.add(Content, text(part.Get("text")))
		case thinking.Type() == fastjson.TypeArray:
			for _, p := range thinking.GetArray() {
				ch.add(Reasoning, text(p.Get("text")))
			}
		default:
			ch.add(Reasoning, text(thinking))
		}
	}
}

// function reads the name and the arguments of a call.
func (ch *Choice) function(channel Channel, v *fastjson.Value) {
	if v == nil {
		return
	}
	if name := text(v.Get("name")); len(name) > 0 {
		ch.Parts = append(ch.Parts, Part{Channel: channel, Name: true, Text: name})
	}
	args := v.Get("arguments")
	switch {
	case args == nil:
	case args.Type() == fastjson.TypeObject: // Ollama's habit
		ch.add(channel, args.MarshalTo(nil))
	default:
		ch.add(channel, text(args))
	}
}

// toolCall remembers the call that a choice is making, for servers that do
// not number them.
type toolCall struct {
	choice int
	index  int
	id     []byte
}

// toolCall reads entry i of a delta's tool_calls.
func (c *chunk) toolCall(ch *Choice, v *fastjson.Value, i int) {
	if v.Type() != fastjson.TypeObject {
		return
	}
	function := v.Get("function")
	index := count(v.Get("index"))
	if index == None {
		index = c.unnumbered(ch.Index, text(v.Get("id")), len(text(function.Get("name"))) > 0)
	}
	ch.function(toolChannel(index), function)
}

// maxChoices bounds the choices of an event that are read, and those whose
// calls are remembered.
const maxChoices = 256

// unnumbered returns the index of a call without one: a call with a new id, or
// with a name and no id, is the next, anything else continues the last.
func (c *chunk) unnumbered(choice int, id []byte, named bool) int {
	for i := range c.calls {
		call := &c.calls[i]
		if call.choice != choice {
			continue
		}
		if (len(id) > 0 && !bytes.Equal(call.id, id)) || (len(id) == 0 && named) {
			call.index++
		}
		if len(id) > 0 {
			call.id = append(call.id[:0], id...)
		}
		return call.index
	}
	if len(c.calls) < maxChoices {
		c.calls = append(c.calls, toolCall{choice: choice, id: bytes.Clone(id)})
	}
	return 0
}
