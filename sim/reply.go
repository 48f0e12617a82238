package sim

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// reply is the answer to one request while it is being made: the texts of its
// choices and the bytes that wait to be sent.
type reply struct {
	req     *request
	id      string
	model   string
	created int64
	prompt  int
	cached  int
	report  bool // cached tokens are told in usage
	choices []choice

	prefillAt, decodeAt time.Time // llama.cpp's timings are of these

	head   []byte // of every event up to the choice, made once
	out    []byte
	pieces []piece
}

// piece is one HTTP chunk: out up to end, after the piece before it.
type piece struct {
	end    int
	tokens int
}

// choice is one of the n answers.
type choice struct {
	prose     *prose
	left      int // tokens until max_tokens
	eos       int // tokens until the natural end
	made      int
	reasoning int // reasoning tokens still to come
	thoughts  int // reasoning tokens made
	deck      int // place in the cycle of chunk sizes
	step      []int
	channel   channel
	text      []byte // not streamed: all so far
	thought   []byte
	finish    End
	chars     int // before step
}

type channel uint8

const (
	visible channel = iota
	reasoned
)

// shape dresses a reply in a dialect's events. Each call appends whole events
// and cuts them into pieces the way the engine cuts its HTTP chunks.
type shape interface {
	// admitted is called when prefill begins.
	admitted(r *reply)
	// begin is called before the first step's tokens.
	begin(r *reply)
	// tokens is called with a choice's step; finish is "" unless it is its last.
	tokens(r *reply, index int, finish End)
	// end is called after all choices have finished.
	end(r *reply)
	// broken is an error in mid-stream.
	broken(r *reply, message string)
	// whole is the answer to a request that does not stream.
	whole(r *reply) []byte
}

// newChoices draws what each choice will be: the same for the same seed.
func newChoices(p Profile, req *request, seed uint64, maxTokens int) []choice {
	cs := make([]choice, req.n)
	for i := range cs {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		c := &cs[i]
		c.prose = newProse(rng.Uint64())
		c.deck = rng.IntN(len(p.Chunks))
		c.left, c.eos = maxTokens, p.EOS.draw(rng)
		if !p.DeafToEOS {
			if req.ignoreEOS {
				c.eos = math.MaxInt
			}
			c.eos = max(c.eos, req.minTokens)
		}
		c.reasoning = p.Reasoning
	}
	return cs
}

// advance makes a choice's next step of tokens and returns how it ended, or "".
func (c *choice) advance(p Profile, rule *LoopRule) End {
	n := 1
	if c.made > 0 {
		n = p.Chunks[c.deck]
		c.deck = (c.deck + 1) % len(p.Chunks)
		if rule != nil && rule.Faster > 1 && c.prose.looping() {
			n *= rule.Faster
		}
	}
	n = min(n, c.left, c.eos)
	c.channel = visible
	if c.reasoning > 0 {
		n = min(n, c.reasoning)
		c.reasoning -= n
		c.thoughts += n
		c.channel = reasoned
	}
	c.chars = c.prose.chars
	c.step = c.step[:0]
	for range n {
		c.step = append(c.step, c.prose.next())
	}
	c.made += n
	c.left -= n
	if c.eos != math.MaxInt {
		c.eos -= n
	}
	switch {
	case c.eos == 0:
		c.finish = Stop
	case c.left == 0:
		c.finish = Length
	}
	return c.finish
}

// cut ends a piece that carries so many tokens.
func (r *reply) cut(tokens int) { r.pieces = append(r.pieces, piece{len(r.out), tokens}) }

func (r *reply) reset() {
	r.out, r.pieces = r.out[:0], r.pieces[:0]
}

// made is the number of tokens of all choices.
func (r *reply) made() int {
	n := 0
	for i := range r.choices {
		n += r.choices[i].made
	}
	return n
}

func (r *reply) str(s string) { r.out = append(r.out, s...) }
func (r *reply) num(n int)    { r.out = strconv.AppendInt(r.out, int64(n), 10) }
func (r *reply) quote(s string) {
	r.out = appendQuoted(r.out, s)
}

// words appends a step's text as a JSON string.
func (r *reply) words(step []int) {
	r.out = append(r.out, '"')
	for _, t := range step {
		r.out = appendEscaped(r.out, vocabulary[t])
	}
	r.out = append(r.out, '"')
}

// idList appends a step's token ids.
func (r *reply) idList(step []int) {
	for i, t := range step {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		r.num(t + firstID)
	}
}

// maybeReason appends a finish reason or null.
func (r *reply) maybeReason(finish End) {
	if finish == "" {
		r.str("null")
		return
	}
	r.quote(string(finish))
}

func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// quote returns s as a JSON string; %q would escape as Go does.
func quote(s string) string { return string(appendQuoted(nil, s)) }

const hexDigits = "0123456789abcdef"

func appendEscaped(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// logprob is a number that depends on the token alone.
func logprob(t int) float64 { return -float64(t%97) / 64 }

func appendBytes(dst []byte, s string) []byte {
	dst = append(dst, '[')
	for i := 0; i < len(s); i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(s[i]), 10)
	}
	return append(dst, ']')
}

func appendFloat(dst []byte, f float64) []byte { return strconv.AppendFloat(dst, f, 'f', -1, 64) }
