package stream

import (
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// choice is the state of one choice of a stream.
type choice struct {
	index      int // as the server numbers it
	events     int // generated
	last       stamp.Instant
	finished   bool
	engineLoop bool

	usage, native cumulative
	ids, logprobs perEvent
	final         int // completion_tokens that usage told for this choice at its end, or None
	nativeFinal   int // likewise timings.predicted_n
	fill          fill
	finish        []byte
}

// perEvent counts a source that tells the tokens of an event.
type perEvent struct {
	total   int
	events  int // generated events that had it
	offered bool
}

// cumulative counts a source that tells the tokens of a choice so far. It is
// live once it was above zero on a chunk that did not end the choice: before
// that it may be a total in the last chunk, or the zeros that Ollama sends.
type cumulative struct {
	max    int
	live   bool
	toldAt int // generated events of the choice when it was last told
}

// choiceAt returns the position of the state of choice index, made if needed.
func (m *Meter) choiceAt(index int) int {
	for i := range m.choices {
		if m.choices[i].index == index {
			return i
		}
	}
	n := len(m.choices)
	if n == maxChoices {
		return n - 1
	}
	m.notTotal()
	if n < cap(m.choices) {
		m.choices = m.choices[:n+1]
	} else {
		m.choices = append(m.choices, choice{})
	}
	c := &m.choices[n]
	*c = choice{index: index, finish: c.finish[:0], final: wire.None, nativeFinal: wire.None}
	return n
}

// said collects what an event says of the counts of choice c. Counts beside
// several choices belong to none of them.
func (m *Meter) said(ev *wire.Event, c *wire.Choice, pos int) evidence {
	s := evidence{ids: int32(c.TokenIDs), logprobs: int32(c.Logprobs), usage: wire.None, native: wire.None}
	if len(ev.Choices) > 1 {
		return s
	}
	ch := &m.choices[pos]
	if ch.finished {
		return s // a trailing usage chunk that names its choice
	}
	s.usage = ch.usage.told(ev.Usage.CompletionTokens, c.Finish == nil)
	s.native = ch.native.told(ev.Native.PredictedN, c.Finish == nil)
	return s
}

// told returns n as evidence of the tokens so far, or None when the source is
// not live.
func (c *cumulative) told(n int, open bool) int32 {
	if n > 0 && open {
		c.live = true
	}
	if n == wire.None || !c.live {
		return wire.None
	}
	return int32(max(n, c.max))
}

// generated reports whether an event of choice c is a generated one: it brings
// text, or the count of its choice has risen.
func (m *Meter) generated(c *wire.Choice, pos int, said evidence) bool {
	ch := &m.choices[pos]
	return len(c.Parts) > 0 || said.ids > 0 || said.logprobs > 0 ||
		int(said.usage) > ch.usage.max || int(said.native) > ch.native.max
}

// book counts one generated event.
func (ch *choice) book(said evidence) {
	ch.events++
	ch.ids.add(said.ids)
	ch.logprobs.add(said.logprobs)
}

// see raises the cumulative counts.
func (ch *choice) see(said evidence) {
	ch.usage.raise(said.usage, ch.events)
	ch.native.raise(said.native, ch.events)
}

func (p *perEvent) add(n int32) {
	if n == wire.None {
		return
	}
	p.total += int(n)
	p.events++
	p.offered = p.offered || n > 0
}

// raise takes a count that came with event number events of the choice, or
// behind it.
func (c *cumulative) raise(n int32, events int) {
	if n == wire.None {
		return
	}
	c.max = max(c.max, int(n))
	c.toldAt = events
}

// counts takes the stream-wide facts of a usage object. Later ones repeat or
// correct earlier ones, they never add up.
func (m *Meter) counts(ev *wire.Event) {
	if ev.Native.Has && ev.Native.PromptN != wire.None && m.usage.PromptTokens == wire.None && ev.Native.PredictedN > 0 {
		m.nativePrompt = ev.Native.PromptN + max(ev.Native.CacheN, 0)
		m.nativeCached = ev.Native.CacheN
	}
	if !ev.Usage.Has {
		return
	}
	u := &m.usage
	u.Has = true
	if ev.Usage.PromptTokens > 0 { // Ollama's zeros are no count
		u.PromptTokens = max(u.PromptTokens, ev.Usage.PromptTokens)
	}
	u.CachedTokens = max(u.CachedTokens, ev.Usage.CachedTokens)
	u.ReasoningTokens = max(u.ReasoningTokens, ev.Usage.ReasoningTokens)
}

// final takes a usage event without a choice. It tells the total of the
// stream. llama.cpp with n > 1 sends one for each choice, behind its finish:
// such an event comes while other choices are still open or not yet begun.
func (m *Meter) final(ev *wire.Event) {
	n := ev.Usage.CompletionTokens
	if !ev.Usage.Has || n == wire.None {
		return
	}
	if m.lastEnded >= 0 && (m.perChoice || !m.allFinished()) {
		m.perChoice = true
		ch := &m.choices[m.lastEnded]
		ch.final = max(ch.final, n)
		return
	}
	m.tell(n)
}

// tell takes a total of the whole stream.
func (m *Meter) tell(n int) { m.total, m.totalAt = max(m.total, n), m.events }

// notTotal takes back that a usage event told the total, since another choice
// begins: it was for the one that had ended.
func (m *Meter) notTotal() {
	if m.total == wire.None || m.lastEnded < 0 {
		return
	}
	m.perChoice = true
	m.choices[m.lastEnded].final = m.total
	m.total = wire.None
}
