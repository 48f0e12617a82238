package stream

import (
	"math"

	"github.com/streamgauge/streamgauge/wire"
)

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
	rises   bool // it tells the tokens so far: of these the greatest wins
}

// slack is by how much the counts per chunk may fall short of the server's
// total: end-of-text and swallowed special tokens give no chunk. Beyond it the
// counts are not what they claim (a server that sends 1 with every chunk), nor
// are those that exceed it so (one whose output_ids are all so far, each time).
func slack(total int) int { return max(16, total/10) }

// resolve picks the first source, in the order of docs/measuring.md section 2,
// that covers the stream, and gives each event of the log its tokens by it.
// One source is used for the whole stream; as long as it stays the same, only
// the events that are new cost anything.
func (m *Meter) resolve() {
	if !m.stale {
		return
	}
	m.stale = false
	m.tally = m.pick()
	if m.filledBy != m.tally.from {
		for i := range m.log[:m.filled] {
			m.log[i].Tokens = 0
		}
		m.filledBy, m.filled = m.tally.from, 0
		for i := range m.choices {
			m.choices[i].fill = fill{}
		}
	}
	switch {
	case m.tally.perChunk:
		m.fillLog()
	case !m.over:
		// The total may still come: until then the tokens are not known, and 0.
	case m.tally.from == FromUsageFinal:
		// Of a log that is full, only its part: the rest belongs to events
		// that are not in it.
		Spread(m.log, m.tally.tokens*m.logged()/max(m.events, 1))
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
		if total != wire.None && (total-s.total > slack(total) || !s.rises && s.total-total > slack(total)) {
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
		{from: FromUsageContinuous, whole: true, rises: true},
		{from: FromLogprobs, whole: true},
		{from: FromNative, whole: true, rises: true},
	}
	for i := range m.choices {
		ch := &m.choices[i]
		if ch.events == 0 {
			continue
		}
		s[0].addPerEvent(&ch.ids, ch.events)
		s[1].addCumulative(&ch.usage, ch.events, m.over)
		s[2].addPerEvent(&ch.logprobs, ch.events)
		s[3].addCumulative(&ch.native, ch.events, m.over)
	}
	return s
}

func (s *sums) addPerEvent(p *perEvent, events int) {
	s.total += p.total
	s.offered = s.offered || p.offered
	s.whole = s.whole && p.events == events
}

// addCumulative: while the stream runs, events that did not tell the count may
// still be covered by the next that does.
func (s *sums) addCumulative(c *cumulative, events int, over bool) {
	s.total += c.max
	s.offered = s.offered || c.live
	s.whole = s.whole && c.live && (c.toldAt == events || !over)
}

// told returns the completion tokens that the server told at the end, for the
// whole stream or choice by choice; None when it did not.
func (m *Meter) told() int {
	if m.total != wire.None && !m.refuted() {
		if len(m.choices) == 1 {
			// Totals of Messages come as the stream goes; the one
			// beside the stop reason is the last.
			return max(m.total, m.choices[0].final)
		}
		return m.total
	}
	usage, native := 0, 0
	for i := range m.choices {
		ch := &m.choices[i]
		usage = plusTold(usage, ch.final, ch.events)
		native = plusTold(native, ch.nativeFinal, ch.events)
	}
	switch {
	case len(m.choices) == 0:
		return wire.None
	case usage != wire.None:
		return usage
	}
	return native
}

// refuted reports whether the stream itself denies the total that it told: no
// tokens in generated events (gateways fill usage with zeros), or a total told
// too early, which more events have come behind since than it has tokens.
func (m *Meter) refuted() bool {
	return m.total < m.events && (m.total == 0 || m.events > m.totalAt)
}

// plusTold adds what a choice told at its end; a zero beside generated events
// is not told.
func plusTold(sum, final, events int) int {
	if sum == wire.None || final == wire.None || final == 0 && events > 0 {
		return wire.None
	}
	return sum + final
}

// fill is how far the events of a choice have their tokens, for a source that
// tells the tokens so far.
type fill struct {
	told  int32 // the greatest count used up
	first int   // first event since, an index into the log
	open  int   // events since
}

// fillLog gives the new events of the log their tokens by the chosen source. Of
// a source that tells the tokens so far it is the rise; a rise over several
// events, of which only the last told the count, is spread over them.
func (m *Meter) fillLog() {
	for ; m.filled < len(m.log); m.filled++ {
		i := m.filled
		if m.log[i].Flags&SameEvent != 0 {
			continue
		}
		switch m.tally.from {
		case FromTokenIDs:
			m.log[i].Tokens = max(m.ledger.ids.at(i), 0)
		case FromLogprobs:
			m.log[i].Tokens = max(m.ledger.logprobs.at(i), 0)
		case FromUsageContinuous:
			m.fillRise(i, m.ledger.usage.at(i))
		case FromNative:
			m.fillRise(i, m.ledger.native.at(i))
		}
	}
}

func (m *Meter) fillRise(i int, told int32) {
	pos := m.log[i].Choice
	f := &m.choices[pos].fill
	if f.open == 0 {
		f.first = i
	}
	f.open++
	m.log[i].Tokens = 0
	if told == wire.None {
		return
	}
	rise, n := int64(told-f.told), int64(f.open)
	for j, k := f.first, int64(0); j <= i; j++ {
		if e := &m.log[j]; e.Choice == pos && e.Flags&SameEvent == 0 {
			e.Tokens = int32(rise*(k+1)/n - rise*k/n)
			k++
		}
	}
	f.told, f.open = max(f.told, told), 0
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
// each event are known, else / (N − 1); in whole nanoseconds, and null below one,
// which only an N that is no count gives.
func (m *Meter) tbt() Null[float64] {
	m.resolve()
	n := m.tally.tokens - 1
	if first := m.firstTokens(); first.OK {
		n = m.tally.tokens - first.V
	}
	if n <= 0 || m.lastToken == m.firstToken || m.hiddenReasoning() {
		return Null[float64]{}
	}
	tbt := math.Round(float64(m.lastToken-m.firstToken) / float64(n))
	return Null[float64]{V: tbt, OK: tbt > 0}
}
