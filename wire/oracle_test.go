package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// node is a JSON value as encoding/json reads it, with the members of objects in
// their order.
type node struct {
	token   any // json.Delim for objects and arrays, else the value
	keys    []string
	values  []node
	strange bool // a string here was not Unicode and is told differently
}

func parse(p []byte) (node, error) {
	dec := json.NewDecoder(bytes.NewReader(p))
	dec.UseNumber()
	n, err := parseValue(dec)
	if err == nil && dec.More() {
		err = errors.New("more than one value")
	}
	return n, err
}

func parseValue(dec *json.Decoder) (n node, err error) {
	if n.token, err = dec.Token(); err != nil {
		return n, err
	}
	switch n.token {
	case json.Delim('{'), json.Delim('['):
		for dec.More() {
			if n.token == json.Delim('{') {
				key, err := dec.Token()
				if err != nil {
					return n, err
				}
				n.keys = append(n.keys, key.(string))
				n.strange = n.strange || strings.ContainsRune(key.(string), utf8.RuneError)
			}
			v, err := parseValue(dec)
			if err != nil {
				return n, err
			}
			n.values = append(n.values, v)
			n.strange = n.strange || v.strange
		}
		_, err = dec.Token()
		return n, err
	}
	if s, ok := n.token.(string); ok {
		n.strange = strings.ContainsRune(s, utf8.RuneError)
	}
	return n, nil
}

// each calls fn with the members of an object.
func (n node) each(fn func(key string, v node)) {
	for i := range n.keys {
		fn(n.keys[i], n.values[i])
	}
}

func (n node) is(d json.Delim) bool { return n.token == d }

func (n node) text() []byte {
	s, _ := n.token.(string)
	return bytesOf([]byte(s))
}

func (n node) count() int {
	num, ok := n.token.(json.Number)
	if !ok {
		return None
	}
	f, err := strconv.ParseFloat(string(num), 64)
	if err != nil || f < 0 || f > 1<<31-1 {
		return None
	}
	return int(f)
}

// items is the length of an array, else of no use.
func (n node) items(or int) int {
	if n.is('[') {
		return len(n.values)
	}
	return or
}

// expect is what a chunk of dialect chat says, by another parser: texts of
// content and reasoning, counts, finish. ok is false where the two may differ.
func expect(n node) (choices []Choice, usage Usage, ok bool) {
	usage, ok = noUsage, !n.strange
	n.each(func(key string, v node) {
		switch key {
		case "choices":
			for i, c := range v.values {
				if c.is('{') && v.is('[') && len(choices) < maxChoices {
					ch, plain := expectChoice(c, i)
					choices = append(choices, ch)
					ok = ok && plain
				}
			}
		case "usage":
			if v.is('{') {
				usage = expectUsage(v)
			}
		case "x_groq", "error", "object", "detail":
			ok = false
		}
	})
	return choices, usage, ok
}

func expectChoice(c node, i int) (ch Choice, ok bool) {
	ch = Choice{Index: i, TokenIDs: None, Logprobs: None}
	ok = true
	outputs := 0 // a delta before its index is read last
	c.each(func(key string, v node) {
		if key == "delta" || key == "text" {
			outputs++
			ok = ok && outputs == 1
		}
		switch key {
		case "index":
			if n := v.count(); n != None {
				ch.Index = n
			}
		case "delta":
			v.each(func(key string, v node) {
				switch key {
				case "content":
					ok = ok && !v.is('[')
					ch.add(Content, v.text())
				case "reasoning":
					ch.addReasoning(v.text())
				case "refusal":
					ch.add(Refusal, v.text())
				case "tool_calls", "function_call", "reasoning_content", "thinking":
					ok = false
				}
			})
		case "text":
			ch.add(Content, v.text())
		case "finish_reason":
			if f := v.text(); f != nil {
				ch.Finish = f
			}
		case "stop_reason":
			ch.Stop = v.text()
		case "token_ids":
			ch.TokenIDs = v.items(ch.TokenIDs)
		case "logprobs":
			ch.Logprobs = None
			v.each(func(key string, v node) {
				if n := v.items(None); n != None && (key == "content" || key == "refusal" || key == "tokens") {
					ch.Logprobs = max(ch.Logprobs, 0) + n
				}
			})
		case "message", "finishReason", "output_ids", "usage":
			ok = false
		}
	})
	return ch, ok
}

func expectUsage(v node) Usage {
	u := noUsage
	u.Has = true
	detail := func(v node, name string) int {
		n := None
		v.each(func(key string, v node) {
			if key == name {
				n = v.count()
			}
		})
		return n
	}
	v.each(func(key string, v node) {
		switch key {
		case "prompt_tokens":
			u.PromptTokens = v.count()
		case "completion_tokens":
			u.CompletionTokens = v.count()
		case "prompt_tokens_details":
			u.CachedTokens = max(u.CachedTokens, detail(v, "cached_tokens"))
		case "prompt_cache_hit_tokens":
			u.CachedTokens = max(u.CachedTokens, v.count())
		case "completion_tokens_details":
			u.ReasoningTokens = max(u.ReasoningTokens, detail(v, "reasoning_tokens"))
		case "reasoning_tokens":
			u.ReasoningTokens = max(u.ReasoningTokens, v.count())
		}
	})
	return u
}

// FuzzPayload lays what is read of a payload beside encoding/json: what that
// accepts is accepted and says the same, and what it refuses is refused, but for
// the liberties that scan declares.
func FuzzPayload(f *testing.F) {
	for _, body := range captures(f) {
		for line := range bytes.Lines(body) {
			if p, ok := bytes.CutPrefix(line, []byte("data: ")); ok && len(p) < 4096 {
				f.Add(bytes.TrimSpace(p), bytes.TrimSpace(p))
			}
		}
	}
	for _, v := range r31 {
		for line := range bytes.Lines([]byte(v.body)) {
			p := bytes.TrimPrefix(bytes.TrimSpace(line), []byte("data: "))
			f.Add(p, p)
		}
	}
	f.Add([]byte(content(`\u00e9\ud83d\ude42\n\\\"`)), []byte(`{"id":"a\u0062","choices":[{"delta":{"refusal":"x"},"index":7},{"text":"y"}]}`))
	f.Add([]byte(`{"id":"a","choices":[]}`), []byte(`{"id":"a","choices":[],"usage":{"prompt_tokens":1e2}}`))
	f.Add([]byte(`{ "id" : "a" , "choices" : [ { } , { "index" : -1 } ] } `), []byte(`{"a":-0.5e+7,"b":01}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		// The second comes behind the first: what is remembered of a stream
		// must not change what its events say.
		r := borrow(&memory{dialect: Chat})
		for _, p := range [][]byte{first, second} {
			p = bytes.TrimSpace(p)
			if len(p) == 0 || p[0] == ':' || string(p) == "[DONE]" {
				continue
			}
			ev := clone(r.read(p, false))
			for _, d := range []Dialect{Messages, Responses, Ollama} {
				if got := borrow(&memory{dialect: d}).read(p, false).Kind; (got == Malformed) != (ev.Kind == Malformed) {
					t.Fatalf("kind %d as %v, %d as chat: %s", got, d, ev.Kind, p)
				}
			}
			n, err := parse(p)
			if err != nil {
				err = errors.Join(err, json.Unmarshal(p, new(any)))
			}
			if (err == nil) != json.Valid(p) {
				continue // encoding/json's Token is looser than the rest of it
			}
			if err == nil && ev.Kind == Malformed && bytes.Count(p, []byte("["))+bytes.Count(p, []byte("{")) < maxDepth {
				t.Fatalf("malformed: %s", p)
			}
			if err != nil && ev.Kind == Data && !liberties(p) {
				t.Fatalf("accepted, against %v: %s", err, p)
			}
			if err != nil || ev.Kind != Data || !n.is('{') {
				continue
			}
			choices, usage, ok := expect(n)
			if !ok {
				continue
			}
			want := Event{Size: len(p), ID: ev.ID, Model: ev.Model, Choices: choices, Usage: usage, Native: ev.Native}
			n.each(func(key string, v node) {
				switch key {
				case "id":
					want.ID = v.text()
				case "model":
					want.Model = v.text()
				}
			})
			if d := diff([]Event{ev}, []Event{clone(&want)}); d != "" {
				t.Fatalf("%s\ngot - want +:\n%s", p, d)
			}
		}
	})
}

// liberties reports whether p may hold what scan reads beyond RFC 8259.
func liberties(p []byte) bool {
	return bytes.ContainsAny(p, `\NI`) || bytes.ContainsFunc(p, func(r rune) bool { return r < ' ' })
}
