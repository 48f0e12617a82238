package wire

import "bytes"

// toolCall remembers the call that a choice is making, for servers that do
// not number them, or the call at a place of the output.
type toolCall struct {
	choice int // or place
	index  int
	id     []byte
}

// toolCall reads an entry of a delta's tool_calls.
func (r *reader) toolCall(ch *Choice) {
	if !r.object() {
		return
	}
	index, function := None, absent
	var id []byte
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "index":
			index = r.count()
		case "id":
			id = r.str()
		case "function":
			function = r.pass()
		default:
			r.skip()
		}
	}
	if r.bad {
		return
	}
	if index == None {
		index = r.unnumbered(ch.Index, id, function != absent && r.named(function))
	}
	if function != absent {
		resume := r.back(function)
		r.function(ch, toolChannel(index))
		r.back(resume)
	}
}

// named reports whether the function there has a name.
func (r *reader) named(function int) (named bool) {
	defer r.back(r.back(function))
	if !r.object() {
		return false
	}
	for key, ok := r.key(); ok; key, ok = r.key() {
		if string(key) == "name" {
			named = len(r.str()) > 0
		} else {
			r.skip()
		}
	}
	return named
}

// function reads the name and the arguments of a call.
func (r *reader) function(ch *Choice, c Channel) {
	if !r.object() {
		return
	}
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "name":
			ch.addName(c, r.str())
		case "arguments":
			if r.peek() == '{' { // Ollama's habit
				ch.add(c, r.raw())
			} else {
				ch.add(c, r.str())
			}
		default:
			r.skip()
		}
	}
}

// unnumbered returns the index of a call without one: a call with a new id, or
// with a name and no id, is the next, anything else continues the last.
func (r *reader) unnumbered(choice int, id []byte, named bool) int {
	for i := range r.of.calls {
		call := &r.of.calls[i]
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
	if len(r.of.calls) < maxChoices {
		r.of.calls = append(r.of.calls, toolCall{choice: choice, id: bytes.Clone(id)})
	}
	return 0
}

// callAt returns the channel of the call that a dialect names by its place in
// the output or, where there is none, by an id: calls are numbered in the order
// in which they begin.
func (r *reader) callAt(place int, id []byte) Channel {
	for i := range r.of.calls {
		call := &r.of.calls[i]
		if place != None && call.choice == place || place == None && bytes.Equal(call.id, id) {
			return toolChannel(call.index)
		}
	}
	n := len(r.of.calls)
	if n < maxChoices {
		r.of.calls = append(r.of.calls, toolCall{choice: place, index: n, id: bytes.Clone(id)})
	}
	return toolChannel(n)
}
