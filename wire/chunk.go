package wire

import (
	"bytes"
	"sync"
)

// keepReader is the payload size up to which the memory of a reader is used
// again: what one huge event took must not be held by the next.
const keepReader = 64 << 10

// reader reads payloads. Its event and all that it points to are valid until the
// next payload. A Decoder borrows a reader while it has events to hand out, so
// that a stream that waits for its next token holds none.
type reader struct {
	scan
	ev    Event
	of    *memory // of the stream
	grown bool    // beyond keepReader
}

// memory is what the events of a stream tell of later ones.
type memory struct {
	dialect Dialect
	called  bool // Responses: a function that the client is to run
	head    head
	calls   []toolCall
}

var readers = sync.Pool{New: func() any { return new(reader) }}

func borrow(m *memory) *reader {
	r := readers.Get().(*reader)
	r.of = m
	return r
}

// giveBack ends the use of r. Parts that no later event overwrites keep their
// texts alive: at most keepReader bytes, in as many readers as there are cores.
func (r *reader) giveBack() {
	if r.grown {
		return
	}
	r.start(nil)
	r.clear(Data, 0)
	r.of = nil
	readers.Put(r)
}

// malformed returns the event of a payload of size bytes that was not read.
func (r *reader) malformed(size int) *Event {
	r.clear(Malformed, size)
	return &r.ev
}

func (r *reader) clear(k Kind, size int) {
	r.ev = Event{
		Kind:    k,
		Size:    size,
		Choices: r.ev.Choices[:0],
		Usage:   noUsage,
		Native:  noNative,
	}
}

var (
	noUsage  = Usage{PromptTokens: None, CompletionTokens: None, CachedTokens: None, ReasoningTokens: None}
	noNative = Native{PredictedN: None, PromptN: None, CacheN: None}
)

// read returns the event of a payload, nil for a keep-alive wrapped as data.
// failed says that the event called itself an error.
func (r *reader) read(payload []byte, failed bool) *Event {
	text := bytes.TrimSpace(payload)
	if !failed && (len(text) == 0 || text[0] == ':') {
		return nil
	}
	r.clear(Data, len(payload))
	r.grown = r.grown || len(payload) > keepReader
	if string(text) == "[DONE]" {
		r.ev.Kind = Done
		return &r.ev
	}
	r.start(text)
	if r.peek() == '{' {
		r.dialectObject(failed)
	} else {
		r.skip()
	}
	switch {
	case !r.end() && failed:
		r.clear(Failure, len(payload))
		r.ev.Error = Error{Message: string(text)}
	case !r.end():
		r.clear(Malformed, len(payload))
	case failed && r.ev.Kind != Failure:
		r.ev.Kind = Failure
		r.ev.Error = r.errorAt(0)
	}
	return &r.ev
}

// dialectObject reads one object of the stream's dialect.
func (r *reader) dialectObject(failed bool) {
	c := noComplaint(failed)
	switch r.of.dialect {
	case Messages:
		r.message(&c)
	case Responses:
		r.response(&c)
	case Ollama:
		r.ollama(&c)
	default:
		r.chunk(&c)
	}
	r.heed(&c)
}

// absent is the place of a member that an object lacks.
const absent = -1

// chunk reads one object of the dialects chat and completions.
func (r *reader) chunk(c *complaint) {
	ev := &r.ev
	plain := true // no member so far that is not always the same
	if r.sameHead() {
		r.choices()
		plain = false
	} else {
		r.object()
	}
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "id":
			ev.ID = r.str()
			continue
		case "model":
			ev.Model = r.str()
			continue
		case "object":
			c.bare = string(r.str()) == "error" || c.bare
			continue
		case "created", "system_fingerprint":
			r.skip()
			continue
		case "choices":
			if plain && !c.bare {
				r.keepHead()
			}
			r.choices()
		case "usage":
			r.usage()
		case "x_groq":
			r.groq()
		case "timings":
			r.timings()
		default:
			r.other(key, c)
		}
		plain = false
	}
}

func (r *reader) choices() {
	if r.array() {
		for i := 0; r.elem(); i++ {
			r.choice(i)
		}
	}
}

// pass skips a value and returns where it begins.
func (r *reader) pass() int {
	at := r.here()
	r.skip()
	return at
}

// only returns the first choice of the event, in dialects that have but one.
func (r *reader) only() *Choice {
	if len(r.ev.Choices) == 0 {
		return r.newChoice(0)
	}
	return &r.ev.Choices[0]
}

// groq takes the usage that Groq keeps to itself.
func (r *reader) groq() {
	if !r.object() {
		return
	}
	for key, ok := r.key(); ok; key, ok = r.key() {
		if string(key) == "usage" && !r.ev.Usage.Has {
			r.usage()
		} else {
			r.skip()
		}
	}
}

func (r *reader) usage() {
	if !r.object() {
		return
	}
	u := &r.ev.Usage
	*u = noUsage
	u.Has = true
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "prompt_tokens":
			u.PromptTokens = r.count()
		case "completion_tokens":
			u.CompletionTokens = r.count()
		case "prompt_tokens_details":
			u.CachedTokens = max(u.CachedTokens, r.member("cached_tokens"))
		case "prompt_cache_hit_tokens": // DeepSeek
			u.CachedTokens = max(u.CachedTokens, r.count())
		case "completion_tokens_details":
			u.ReasoningTokens = max(u.ReasoningTokens, r.member("reasoning_tokens"))
		case "reasoning_tokens": // SGLang
			u.ReasoningTokens = max(u.ReasoningTokens, r.count())
		default:
			r.skip()
		}
	}
}

// member takes an object and returns the count that one member of it is.
func (r *reader) member(name string) int {
	n := None
	if !r.object() {
		return n
	}
	for key, ok := r.key(); ok; key, ok = r.key() {
		if string(key) == name {
			n = r.count()
		} else {
			r.skip()
		}
	}
	return n
}

// timings takes llama.cpp's own counts.
func (r *reader) timings() {
	if !r.object() {
		return
	}
	n := &r.ev.Native
	*n = noNative
	n.Has = true
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "predicted_n":
			n.PredictedN = r.count()
		case "prompt_n":
			n.PromptN = r.count()
		case "cache_n":
			n.CacheN = r.count()
		default:
			r.skip()
		}
	}
}
