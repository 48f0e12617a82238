package stream

import "github.com/streamgauge/streamgauge/wire"

// tally is what the sources of token counts amount to.
type tally struct {
	from       TokensFrom
	tokens     int  // N
	perChunk   bool // the tokens of each event are known
	incomplete bool // a better source was offered but did not cover the stream
	mismatch   bool // the counts per chunk do not add up to the server's total
}

// sums is one source over all choices.
type sums struct {
	from    TokensFrom
	total   int
	offered bool // by some choice
	whole   bool // every generated event is covered
}

// slack is by how much the counts per chunk may fall short of the server's
// total: end-of-text and swallowed special tokens give no chunk. Beyond it the
// counts are not what they claim (a server that sends 1 with every chunk).
func slack(total int) int { return max(16, total/10) }

// resolve picks the first source, in the order of docs/measuring.md section 2,
// that covers the stream, and gives each event of the log its tokens by it.
// One source is used for the whole stream.
func (m *Meter) resolve() {
	if !m.stale {
		return
	}
	m.stale = false
	m.tally = m.pick()
	switch m.tally.from {
	case FromTokenIDs:
		m.fillPerEvent(func(e evidence) int32 { return e.ids })
	case FromLogprobs:
		m.fillPerEvent(func(e evidence) int32 { return e.logprobs })
	case FromUsageContinuous:
		m.fillCumulative(func(e evidence) int32 { return e.usage })
	case FromNative:
		m.fillCumulative(func(e evidence) int32 { return e.native })
	case FromUsageFinal:
		Spread(m.log, m.tally.tokens)
	default:
		Spread(m.log, m.logged())
	}
}

// logged is the number of generated events in the log.
func (m *Meter) logged() (n int) {
	for i := range m.log {
		if m.log[i].Flags&SameEvent == 0 {
			n++
		}
	}
	return n
}

func (m *Meter) pick() tally {
	total := m.told()
	var t tally
	for _, s := range m.sources() {
		if !s.offered {
			continue
		}
		covers := s.whole || s.total == total
		if total != wire.None && total-s.total > slack(total) {
			covers = false
		}
		if !covers {
			t.incomplete = true
			continue
		}
		t.from, t.perChunk = s.from, true
		t.tokens = max(s.total, total)
		t.mismatch = total != wire.None && s.total != total && s.from != FromUsageContinuous
		return t
	}
	if total != wire.None {
		t.from, t.tokens = FromUsageFinal, total
		return t
	}
	t.from, t.tokens = FromEstimate, m.events
	return t
}

// sources sums each source that tells counts per chunk, best first.
func (m *Meter) sources() [4]sums {
	s := [4]sums{
		{from: FromTokenIDs, whole: true},
		{from: FromUsageContinuous, whole: true},
		{from: FromLogprobs, whole: true},
		{from: FromNative, whole: true},
	}
	for i := range m.choices {
		ch := &m.choices[i]
		if ch.events == 0 {
			continue
		}
		s[0].addPerEvent(&ch.ids, ch.events)
		s[1].addCumulative(&ch.usage)
		s[2].addPerEvent(&ch.logprobs, ch.events)
		s[3].addCumulative(&ch.native)
	}
	return s
}

func (s *sums) addPerEvent(p *perEvent, events int) {
	s.total += p.total
	s.offered = s.offered || p.offered
	s.whole = s.whole && p.events == events
}

func (s *sums) addCumulative(c *cumulative) {
	s.total += c.max
	s.offered = s.offered || c.live
	s.whole = s.whole && c.live && c.tail == 0
}

// told returns the completion tokens that the server told at the end, for the
// whole stream or choice by choice; None when it did not.
func (m *Meter) told() int {
	if m.total != wire.None {
		return m.total
	}
	usage, native := 0, 0
	for i := range m.choices {
		ch := &m.choices[i]
		if ch.final == wire.None {
			usage = wire.None
		}
		if ch.nativeFinal == wire.None {
			native = wire.None
		}
		if usage != wire.None {
			usage += ch.final
		}
		if native != wire.None {
			native += ch.nativeFinal
		}
	}
	switch {
	case len(m.choices) == 0:
		return wire.None
	case usage != wire.None:
		return usage
	}
	return native
}

func (m *Meter) fillPerEvent(tokens func(evidence) int32) {
	for i := range m.log {
		m.log[i].Tokens = max(tokens(m.evidence[i]), 0)
	}
}

// fillCumulative gives each event the rise of its choice's count. A rise over
// several events, of which only the last told the count, is spread over them.
func (m *Meter) fillCumulative(sofar func(evidence) int32) {
	for pos := range m.choices {
		var before int32
		var open []int // events of this choice since the count was told
		for i := range m.log {
			e := &m.log[i]
			if int(e.Choice) != pos {
				continue
			}
			e.Tokens = 0
			if e.Flags&SameEvent != 0 {
				continue
			}
			open = append(open, i)
			n := sofar(m.evidence[i])
			if n == wire.None {
				continue
			}
			rise, k := n-before, int32(len(open))
			for j, at := range open {
				m.log[at].Tokens = rise*(int32(j)+1)/k - rise*int32(j)/k
			}
			before, open = max(before, n), open[:0]
		}
	}
}

// firstTokens is the number of tokens in the first generated event, when the
// counts per chunk are known.
func (m *Meter) firstTokens() Null[int] {
	m.resolve()
	if !m.tally.perChunk || len(m.log) == 0 {
		return Null[int]{}
	}
	return Some(int(m.log[0].Tokens))
}

// hiddenReasoning reports whether tokens were generated out of sight before
// the first event: the pace of the visible ones says nothing of the model's.
func (m *Meter) hiddenReasoning() bool {
	if m.usage.ReasoningTokens > 0 && !m.reasoned {
		return true
	}
	first := m.firstTokens()
	return first.OK && first.V > max(16, m.tally.tokens/10)
}

// tbt is the time between tokens: (last − first) / (N − n1) when the tokens of
// each event are known, else / (N − 1).
func (m *Meter) tbt() Null[float64] {
	m.resolve()
	n := m.tally.tokens - 1
	if first := m.firstTokens(); first.OK {
		n = m.tally.tokens - first.V
	}
	if n <= 0 || m.lastToken == m.firstToken || m.hiddenReasoning() {
		return Null[float64]{}
	}
	return Some(float64(m.lastToken-m.firstToken) / float64(n))
}
