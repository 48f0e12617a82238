package wire

import (
	"bytes"
	"strconv"
)

// Cut ends an event stream before its server does, so that a client takes it
// for a stream like any other: at the end of an event come a last chunk for each
// open choice, the usage if it was asked for, and the terminal marker. Use:
// Follow what was forwarded; when Open says that there is something to cut,
// forward as far as Next says, and then Append.
type Cut struct {
	dialect Dialect
	dec     *Decoder
	place   place

	// ident holds the members that all chunks of the stream share, as its
	// first one has them; nil before.
	ident []byte
	block []byte // the event that may turn out to be that first one
	over  bool   // it is too large to be looked at

	choices []cutChoice
	usage   Usage
	ended   bool // terminal marker or error: nothing may follow
}

// cutChoice is what must be known of a choice to end it.
type cutChoice struct {
	index    int
	finished bool
	tokens   int // completion tokens by continuous usage, or None
}

// maxIdent bounds the event from which the members are taken: vLLM's first one
// may hold all token ids of the prompt, and then the second serves.
const maxIdent = 64 << 10

// NewCut returns a Cut for a body in dialect d, nil where it is not known how to
// end one: beyond chat and completions the end depends on what was open.
func NewCut(d Dialect) *Cut {
	if d != Chat && d != Completions {
		return nil
	}
	return &Cut{dialect: d, dec: NewDecoder(d, 0), usage: noUsage}
}

// Follow takes bytes that were forwarded. p is not kept.
func (c *Cut) Follow(p []byte) {
	c.dec.Push(p)
	for ev := c.dec.Next(); ev != nil; ev = c.dec.Next() {
		c.see(ev)
	}
	for len(p) > 0 {
		if c.ident != nil {
			c.place.skip(p)
			return
		}
		n, end := c.place.next(p)
		c.collect(p[:n])
		if end {
			c.identify()
		}
		p = p[n:]
	}
}

func (c *Cut) see(ev *Event) {
	switch ev.Kind {
	case Done, Failure:
		c.ended = true
	case Data:
		for i := range ev.Choices {
			ch := c.choice(ev.Choices[i].Index)
			ch.finished = ch.finished || ev.Choices[i].Finish != nil
			if ev.Usage.Has && len(ev.Choices) == 1 {
				ch.tokens = max(ch.tokens, ev.Usage.CompletionTokens)
			}
		}
		if ev.Usage.Has {
			c.usage.PromptTokens = max(c.usage.PromptTokens, ev.Usage.PromptTokens)
			c.usage.CachedTokens = max(c.usage.CachedTokens, ev.Usage.CachedTokens)
		}
	}
}

// choice returns the state of a choice; those beyond maxChoices share the last.
func (c *Cut) choice(index int) *cutChoice {
	for i := range c.choices {
		if c.choices[i].index == index {
			return &c.choices[i]
		}
	}
	if len(c.choices) < maxChoices {
		c.choices = append(c.choices, cutChoice{index: index, tokens: None})
	}
	return &c.choices[len(c.choices)-1]
}

func (c *Cut) collect(p []byte) {
	if c.over = c.over || len(c.block)+len(p) > maxIdent; c.over {
		c.block = nil
		return
	}
	c.block = append(c.block, p...)
}

// identify looks for the shared members in the event that has just ended.
func (c *Cut) identify() {
	defer func() { c.block, c.over = c.block[:0], false }()
	var payload []byte
	for line := range bytes.FieldsFuncSeq(c.block, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			payload = append(append(payload, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		}
	}
	var ident []byte
	chunk := false
	ok := eachMember(payload, func(key, value []byte) bool {
		switch string(key) {
		case "choices":
			chunk = true
		case "id", "object", "created", "model", "system_fingerprint":
			ident = append(append(append(append(ident, '"'), key...), `":`...), value...)
			ident = append(ident, ',')
		}
		return true
	})
	if ok && chunk {
		c.ident = append(make([]byte, 0, len(ident)), ident...)
		c.block = nil
	}
}

// Open reports whether the stream can be cut: chunks have come, and neither the
// terminal marker nor the last word of every choice.
func (c *Cut) Open() bool {
	if c.ended || c.ident == nil || c.dec.body != lines {
		return false
	}
	for i := range c.choices {
		if !c.choices[i].finished {
			return true
		}
	}
	return false
}

// Next returns after how many bytes of p, which come behind those followed, an
// event ends: 0 when one has just ended, -1 when none ends in p.
func (c *Cut) Next(p []byte) int {
	if c.place.end() {
		return 0
	}
	ahead := c.place
	if n, end := ahead.next(p); end {
		return n
	}
	return -1
}

// Append appends the end of the stream to dst: a chunk with the finish reason
// "repetition" for each open choice; with usage, and if the stream told its
// counts so far, the usage chunk; the terminal marker. Lines end as the stream's
// do.
func (c *Cut) Append(dst []byte, usage bool) []byte {
	for i := range c.choices {
		ch := &c.choices[i]
		if ch.finished {
			continue
		}
		dst = append(append(append(dst, "data: {"...), c.ident...), `"choices":[{"index":`...)
		dst = strconv.AppendInt(dst, int64(ch.index), 10)
		if c.dialect == Completions {
			dst = append(dst, `,"text":""`...)
		} else {
			dst = append(dst, `,"delta":{}`...)
		}
		dst = c.blank(append(dst, `,"logprobs":null,"finish_reason":"repetition"}]}`...))
	}
	if usage {
		dst = c.appendUsage(dst)
	}
	return c.blank(append(dst, "data: [DONE]"...))
}

// appendUsage appends the usage chunk, unless a count is not known.
func (c *Cut) appendUsage(dst []byte) []byte {
	total := 0
	for i := range c.choices {
		if c.choices[i].tokens == None {
			return dst
		}
		total += c.choices[i].tokens
	}
	prompt := c.usage.PromptTokens
	if prompt == None {
		return dst
	}
	dst = append(append(append(dst, "data: {"...), c.ident...), `"choices":[],"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), int64(total), 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), int64(prompt+total), 10)
	if cached := c.usage.CachedTokens; cached != None {
		dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), int64(cached), 10)
		dst = append(dst, '}')
	}
	return c.blank(append(dst, "}}"...))
}

// blank ends a line and adds a blank one.
func (c *Cut) blank(dst []byte) []byte {
	eol := c.place.eol()
	return append(append(dst, eol...), eol...)
}

// place is where in an event stream a byte stands. An event has ended behind a
// blank line. A line ends with LF, CRLF or CR: behind a CR only the next byte
// tells, unless the stream has shown that its lines end with CR alone; until
// then such a place is not taken for an end, since half a line end is none for
// clients that look for CRLF CRLF.
type place struct {
	line   bool // in a line
	cr     bool // behind a CR
	blank  bool // the CR ended a blank line
	begun  bool // a line that is not blank came since the last end
	at     bool // behind the end of an event
	loneCR bool
	crlf   bool
}

func (s *place) end() bool { return s.at }

func (s *place) eol() string {
	switch {
	case s.crlf:
		return "\r\n"
	case s.loneCR:
		return "\r"
	}
	return "\n"
}

// next consumes p up to the end of an event, or all of it.
func (s *place) next(p []byte) (n int, end bool) {
	for n < len(p) {
		if s.line && !s.cr {
			n += lineEndIn(p[n:])
			if n == len(p) {
				return n, false
			}
		}
		s.step(p[n])
		n++
		if s.at {
			return n, true
		}
	}
	return n, false
}

// skip consumes p.
func (s *place) skip(p []byte) {
	for len(p) > 0 {
		n, _ := s.next(p)
		p = p[n:]
	}
}

// lineEndIn returns the index of the first CR or LF, len(p) without one.
func lineEndIn(p []byte) int {
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		p = p[:i]
	}
	if i := bytes.IndexByte(p, '\r'); i >= 0 {
		return i
	}
	return len(p)
}

func (s *place) step(b byte) {
	s.at = false
	if s.cr {
		s.cr = false
		if b == '\n' {
			s.crlf, s.loneCR = true, false
			s.ended(s.blank)
			return
		}
		s.loneCR, s.crlf = true, false
		s.ended(s.blank)
		s.at = false // the end was before b
	}
	switch b {
	case '\n':
		s.crlf, s.loneCR = false, false
		s.ended(!s.line)
	case '\r':
		s.cr, s.blank = true, !s.line
		if s.loneCR && s.blank {
			s.cr = false
			s.ended(true)
		}
	default:
		s.line, s.begun = true, true
	}
}

// ended takes the end of a line.
func (s *place) ended(blank bool) {
	s.line = false
	if blank && s.begun {
		s.at, s.begun = true, false
	}
}
