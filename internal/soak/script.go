package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// script is what a request asks the engine for. It travels in the request's body.
type script struct {
	ID     uint64        `json:"id"`
	Events int           `json:"events"`           // with text, each a chunk of its own
	Text   int           `json:"text"`             // bytes of each, about; of the whole answer without a stream
	Every  time.Duration `json:"every_ns"`         // from one event to the next
	Loop   int           `json:"loop,omitempty"`   // events after which the text repeats itself
	Fault  fault         `json:"fault,omitempty"`  // what the engine does
	At     int           `json:"at,omitempty"`     // event at which it does
	Prompt int           `json:"prompt,omitempty"` // bytes of the prompt
	Whole  bool          `json:"whole,omitempty"`  // no stream
}

// fault is what the engine does wrong.
type fault string

const (
	cut   fault = "cut"   // closes the connection in the middle of a chunk
	reset fault = "reset" // resets it there
	quiet fault = "quiet" // says nothing any more, the connection open
	mute  fault = "mute"  // says nothing at all
)

// body is the request's.
func (s script) body() []byte {
	own, err := json.Marshal(s)
	if err != nil {
		panic(err) // no value of a script is beyond JSON
	}
	b := make([]byte, 0, len(own)+s.Prompt+256)
	b = append(b, `{"model":"soak","stream":`...)
	b = strconv.AppendBool(b, !s.Whole)
	b = append(b, `,"script":`...)
	b = append(b, own...)
	b = append(b, `,"messages":[{"role":"user","content":"`...)
	b = appendText(b, s.ID, 0, s.Prompt)
	return append(b, `"}]}`...)
}

// read takes a request's script out of its body, which is to be exactly the one
// that the script makes.
func read(body []byte) (script, error) {
	var q struct {
		Script script `json:"script"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return q.Script, fmt.Errorf("a request of %d bytes: %w", len(body), err)
	}
	if !bytes.Equal(body, q.Script.body()) {
		return q.Script, fmt.Errorf("request %d: its %d bytes are not those that were sent", q.Script.ID, len(body))
	}
	return q.Script, nil
}

// total is the number of events: after those with text, the finish, the usage and
// the end marker.
func (s script) total() int { return s.Events + 3 }

// appendEvent appends event i of the stream, from 0.
func (s script) appendEvent(b []byte, i int) []byte {
	if i == s.Events+2 {
		return append(b, "data: [DONE]\n\n"...)
	}
	b = append(b, `data: {"id":"s`...)
	b = strconv.AppendUint(b, s.ID, 10)
	b = append(b, `","object":"chat.completion.chunk","created":1,"model":"soak","choices":[`...)
	switch i {
	case s.Events:
		b = append(b, `{"index":0,"delta":{},"finish_reason":"length"}]`...)
	case s.Events + 1:
		b = append(b, `],"usage":{"prompt_tokens":1,"completion_tokens":`...)
		b = strconv.AppendInt(b, int64(s.Events), 10)
		b = append(b, `,"total_tokens":`...)
		b = strconv.AppendInt(b, int64(s.Events)+1, 10)
		b = append(b, '}')
	default:
		if s.Loop > 0 {
			i %= s.Loop
		}
		b = append(b, `{"index":0,"delta":{"content":"`...)
		b = appendText(b, s.ID, i+1, s.Text)
		b = append(b, `"},"finish_reason":null}]`...)
	}
	return append(b, "}\n\n"...)
}

// appendAnswer appends the answer without a stream.
func (s script) appendAnswer(b []byte) []byte {
	b = append(b, `{"id":"s`...)
	b = strconv.AppendUint(b, s.ID, 10)
	b = append(b, `","object":"chat.completion","created":1,"model":"soak","choices":[{"index":0,"message":{"role":"assistant","content":"`...)
	b = appendText(b, s.ID, 1, s.Text)
	return append(b, `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`...)
}

var words = [...]string{"river", "stone", "amber", "quiet", "lantern", "orbit", "maple", "signal", "velvet", "harbor", "copper", "meadow", "thunder", "pixel", "saddle", "walnut",
	"ember", "glacier", "ribbon", "falcon", "hollow", "cedar", "prairie", "tunnel", "violet", "anchor", "bramble", "cinder", "dapple", "écho", "水", "🜂"}

// appendText appends at least n bytes of words that stream id has at place, and
// nothing else has.
func appendText(b []byte, id uint64, place, n int) []byte {
	x := id*0x9e3779b97f4a7c15 + uint64(place)*0xd1342543de82ef95
	for end := len(b) + n; len(b) < end; {
		// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
		// generators", 2014.
		x += 0x9e3779b97f4a7c15
		z := x
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		for range 12 { // words of 5 bits
			b = append(append(b, words[z%32]...), ' ')
			z >>= 5
			if len(b) >= end {
				break
			}
		}
	}
	return b
}

// expected is what a client has still to get.
type expected struct {
	s    script
	next int    // event
	rest []byte // of those before
	buf  []byte
	got  int
}

func expect(s script) *expected {
	e := &expected{s: s}
	if s.Whole {
		e.rest, e.next = s.appendAnswer(nil), s.total()
	}
	return e
}

// take compares what came with what is to come.
func (e *expected) take(p []byte) error {
	for len(p) > 0 {
		if len(e.rest) == 0 {
			if e.next == e.s.total() {
				return fmt.Errorf("%d bytes past the end, after %d", len(p), e.got)
			}
			e.buf = e.s.appendEvent(e.buf[:0], e.next)
			e.rest = e.buf
			e.next++
		}
		n := min(len(p), len(e.rest))
		if !bytes.Equal(p[:n], e.rest[:n]) {
			return fmt.Errorf("in the %d bytes after %d: %.60q instead of %.60q", n, e.got, p[:n], e.rest[:n])
		}
		e.got += n
		p, e.rest = p[n:], e.rest[n:]
	}
	return nil
}

// done says whether all has come.
func (e *expected) done() bool { return len(e.rest) == 0 && e.next == e.s.total() }
