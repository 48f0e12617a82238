package wire

import (
	"bytes"

	"github.com/valyala/fastjson"
)

// sift is the payload size over which the members that echo the prompt are left
// out before parsing: a vLLM stream may open with 251K prompt_token_ids, each of
// which would cost 80 bytes of parser memory. It is also the size up to which
// the parser's memory is kept.
const sift = 64 << 10

// maxValues is the number of JSON values over which a payload is not read but
// counted as malformed: they would take 80 MB of parser memory. A reply of 8 MB
// with 20 logprobs a token has half as many.
const maxValues = 1 << 20

// chunk reads payloads. Its Event and all that it points to are reused.
type chunk struct {
	parser *fastjson.Parser
	small  []byte // a large payload without the echo of the prompt
	ev     Event
	calls  []toolCall
}

func (c *chunk) reset() {
	if c.parser == nil {
		c.parser = new(fastjson.Parser)
	}
	c.calls = c.calls[:0]
}

// malformed returns the event of a payload of size bytes that was not read.
func (c *chunk) malformed(size int) *Event {
	c.clear(Malformed, size)
	return &c.ev
}

func (c *chunk) clear(k Kind, size int) {
	c.ev = Event{
		Kind:    k,
		Size:    size,
		Choices: c.ev.Choices[:0],
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
func (c *chunk) read(payload []byte, failed bool) *Event {
	text := bytes.TrimSpace(payload)
	if !failed && (len(text) == 0 || text[0] == ':') {
		return nil
	}
	c.clear(Data, len(payload))
	if string(text) == "[DONE]" {
		c.ev.Kind = Done
		return &c.ev
	}
	if len(text) > sift {
		if text = c.sift(text); countValues(text) > maxValues {
			c.ev.Kind = Malformed
			return &c.ev
		}
	}
	v, err := c.parser.ParseBytes(text)
	if len(text) > sift {
		// The value lives as long as it is used; the parser would keep it
		// for ever.
		c.parser = new(fastjson.Parser)
	}
	switch {
	case err != nil && failed:
		c.ev.Kind = Failure
		c.ev.Error = Error{Message: string(text)}
	case err != nil:
		c.ev.Kind = Malformed
	case v.Type() == fastjson.TypeObject:
		c.object(v, failed)
	case failed:
		c.ev.Kind = Failure
		c.ev.Error = readError(v)
	}
	return &c.ev
}

// countValues returns at least the number of values that the JSON text p holds:
// behind each of these bytes stands at most one more.
func countValues(p []byte) int {
	return 1 + bytes.Count(p, []byte{','}) + bytes.Count(p, []byte{'['}) + bytes.Count(p, []byte{'{'})
}

// sift returns the JSON object p without the members that echo the prompt, or
// p itself if it cannot be walked.
func (c *chunk) sift(p []byte) []byte {
	out := append(trim(c.small), '{')
	ok := eachMember(p, func(key, value []byte) bool {
		if string(key) == "prompt_token_ids" || string(key) == "prompt_logprobs" {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, key...)
		out = append(out, '"', ':')
		out = append(out, value...)
		return true
	})
	c.small = trim(out)
	if !ok {
		return p
	}
	return append(out, '}')
}

// object reads one chunk.
func (c *chunk) object(v *fastjson.Value, failed bool) {
	ev := &c.ev
	var failure, bare, detail *fastjson.Value
	v.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		switch string(key) {
		case "id":
			ev.ID = text(v)
		case "model":
			ev.Model = text(v)
		case "object":
			if string(text(v)) == "error" {
				bare = v
			}
		case "choices":
			for i, choice := range v.GetArray() {
				c.choice(choice, i)
			}
		case "usage":
			ev.Usage.read(v)
		case "x_groq":
			if !ev.Usage.Has {
				ev.Usage.read(v.Get("usage"))
			}
		case "timings":
			ev.Native.read(v)
		case "error":
			failure = v
		case "detail": // FastAPI, for example {"detail":"Not Found"}
			detail = v
		}
	})
	switch {
	case isError(failure):
		ev.Kind = Failure
		ev.Error = readError(failure)
		if ev.Error.Type == "" {
			ev.Error.Type = string(text(v.Get("error_type")))
		}
	case failed || bare != nil:
		ev.Kind = Failure
		ev.Error = readError(v)
	case detail != nil && len(ev.Choices) == 0 && !ev.Usage.Has:
		ev.Kind = Failure
		ev.Error = Error{Message: scalar(detail)}
	}
}

// isError says whether the value of an error member is an error. Some servers
// send the key with null on every chunk.
func isError(v *fastjson.Value) bool {
	if v == nil {
		return false
	}
	switch v.Type() {
	case fastjson.TypeNull, fastjson.TypeFalse:
		return false
	case fastjson.TypeString:
		return len(text(v)) > 0
	}
	return true
}

// readError reads an error that is a text or an object.
func readError(v *fastjson.Value) Error {
	if v.Type() != fastjson.TypeObject {
		return Error{Message: scalar(v)}
	}
	code := scalar(v.Get("code"))
	if code == "" {
		code = scalar(v.Get("http_status_code"))
	}
	return Error{Type: scalar(v.Get("type")), Code: code, Message: scalar(v.Get("message"))}
}

// scalar returns a string, number or boolean as text, "" for null and nothing.
func scalar(v *fastjson.Value) string {
	if v == nil {
		return ""
	}
	switch v.Type() {
	case fastjson.TypeNull:
		return ""
	case fastjson.TypeString:
		return string(text(v))
	}
	return v.String()
}

// text returns the bytes of a string value, nil if v is none.
func text(v *fastjson.Value) []byte {
	if v == nil || v.Type() != fastjson.TypeString {
		return nil
	}
	b, err := v.StringBytes()
	if err != nil {
		return nil
	}
	return b
}

// count returns a number of tokens, None if v is no such number.
func count(v *fastjson.Value) int {
	if v == nil || v.Type() != fastjson.TypeNumber {
		return None
	}
	f, err := v.Float64()
	if err != nil || !(f >= 0 && f <= 1<<31-1) {
		return None
	}
	return int(f)
}

func (u *Usage) read(v *fastjson.Value) {
	if v == nil || v.Type() != fastjson.TypeObject {
		return
	}
	*u = noUsage
	u.Has = true
	v.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		switch string(key) {
		case "prompt_tokens":
			u.PromptTokens = count(v)
		case "completion_tokens":
			u.CompletionTokens = count(v)
		case "prompt_tokens_details":
			u.CachedTokens = max(u.CachedTokens, count(v.Get("cached_tokens")))
		case "prompt_cache_hit_tokens": // DeepSeek
			u.CachedTokens = max(u.CachedTokens, count(v))
		case "completion_tokens_details":
			u.ReasoningTokens = max(u.ReasoningTokens, count(v.Get("reasoning_tokens")))
		case "reasoning_tokens": // SGLang
			u.ReasoningTokens = max(u.ReasoningTokens, count(v))
		}
	})
}

func (n *Native) read(v *fastjson.Value) {
	if v.Type() != fastjson.TypeObject {
		return
	}
	n.Has = true
	n.PredictedN = count(v.Get("predicted_n"))
	n.PromptN = count(v.Get("prompt_n"))
	n.CacheN = count(v.Get("cache_n"))
}
