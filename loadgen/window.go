package loadgen

import (
	"time"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// window is the half-open span [open, end) in which a cell counts. Counting is
// done after the streams have ended, by the instants of their events: what the
// scheduler did around the edges cannot move a token across them.
type window struct{ open, end stamp.Instant }

func (w window) has(at stamp.Instant) bool { return at >= w.open && at < w.end }

// span is a piece of one slot's time that counts, with the events whose tokens
// count for it.
type span struct {
	owner      *life // whose window part it is added to
	of         *life // whose events [from, to) count
	from, to   int
	start, end stamp.Instant
	// half is +1 or −1 where the time and the events of an unbroken stretch do
	// not match at its ends, else 0: see tokens.
	half int
}

// tokens is what the span counts. A stretch of events that is measured from an
// event (not counted) to an arbitrary instant misses, on average, half an event
// of its time; one from an arbitrary instant to an event (counted) has half an
// event too many. With the few long events of speculative decoding that shows.
func (s span) tokens() float64 {
	n := s.of.tokens(s.from, s.to)
	if s.half != 0 {
		n += float64(s.half) / 2 * s.of.tokens(0, len(s.of.log)) / float64(len(s.of.log))
	}
	return n
}

// slot fills the window parts of one slot's streams, in the order they ran, and
// returns the spans that count.
//
// A stream without a loop counts from the end of the one before it (its wait for
// the first token included) to its own end. A looping stream counts from its
// first event in the window to its last before the onset; both edges are
// events, the tokens of the first belong to the time before it. What follows the
// onset counts again from the first token of the slot's next stream, by the
// same reasoning without the tokens of that event.
func (w window) slot(lives []*life) []span {
	var spans []span
	atEvent := false // the stretch under way began at an event, not at the opening
	for i, l := range lives {
		a, b := l.before(w.open), l.before(w.end)
		part := stream.WindowOf(l.log, w.edges(l))
		part.CleanNS, part.CleanTokens, part.Trimmed = 0, 0, false // below, from the spans
		l.rec.Window = &part
		if l.rec.End == stream.Failed || l.end <= w.open || l.sent >= w.end {
			continue
		}
		var before *life
		if i > 0 {
			before = lives[i-1]
		}
		if l.onset < b {
			part.Trimmed = true
			spans = w.cut(spans, l, before, a, min(l.onset, b), atEvent)
			continue
		}
		s := span{owner: l, of: l, from: a, to: b, start: w.open, end: min(l.end, w.end)}
		switch {
		case before == nil:
			s.start = max(w.open, l.sent)
			atEvent = false
		case !before.retired:
			s.start = max(w.open, before.end)
		case len(l.log) == 0:
			continue // still waiting after a loop
		case l.firstToken() >= w.open:
			s.start = l.firstToken()
			s.from++
			atEvent = true
		default:
			atEvent = false
		}
		if i == len(lives)-1 && l.end < w.end {
			s.end = w.end // the slot waited, as it was told, to start again
		}
		if atEvent && s.end == w.end && len(l.log) > 0 {
			s.half = 1
		}
		if s.end > s.start {
			spans = append(spans, s)
		}
	}
	for _, s := range spans {
		s.owner.rec.Window.CleanNS += int64(s.end - s.start)
		s.owner.rec.Window.CleanTokens += s.tokens()
	}
	return spans
}

// cut appends what counts of a stream that loops, whose clean events in the
// window are [a, b). Its wait for the first token, and that token, go to the
// stream before it if that one ended by itself: such restarts count with their
// waits, whatever becomes of the stream that follows.
func (w window) cut(spans []span, l, before *life, a, b int, atEvent bool) []span {
	if b <= a {
		return spans
	}
	if a == 0 && before != nil && !before.retired && before.rec.End != stream.Failed {
		wait := span{owner: before, of: l, from: 0, to: 1, start: max(w.open, before.end), end: l.log[0].At}
		if !atEvent {
			wait.half = -1
		}
		spans = append(spans, wait)
	}
	return append(spans, span{owner: l, of: l, from: a + 1, to: b, start: l.log[a].At, end: l.log[b-1].At})
}

// edges is the window for the stream room, the onset included.
func (w window) edges(l *life) stream.Edges {
	e := stream.Edges{Open: w.open, Close: w.end}
	if l.onset < clean {
		e.Onset = stream.Some(l.onset)
	}
	return e
}

// gaps files the stream's gaps inside the window, up to a loop's onset.
func (w window) gaps(h *hist.H, l *life) {
	if l.rec.End != stream.Failed {
		stream.GapsIn(l.log, w.edges(l), h)
	}
}

// perSecond is the output of each whole second of the window, tokens, loops
// included.
func (w window) perSecond(lives []*life) []float64 {
	out := make([]float64, int(w.end.Sub(w.open)/time.Second))
	for _, l := range lives {
		if l.rec.End == stream.Failed {
			continue
		}
		for i := l.before(w.open); i < len(l.log) && w.has(l.log[i].At); i++ {
			if n := int(l.log[i].At.Sub(w.open) / time.Second); n < len(out) {
				out[n] += float64(l.log[i].Tokens)
			}
		}
	}
	return out
}

// cleanPerSecond is the salvaged rate of each whole second, C · clean tokens /
// clean stream-seconds, of the seconds that are clean for at least half.
func (w window) cleanPerSecond(spans []span, concurrency int) []float64 {
	n := int(w.end.Sub(w.open) / time.Second)
	tokens, ns := make([]float64, n), make([]float64, n)
	for _, s := range spans {
		for i := range n {
			from, to := w.open.Add(time.Duration(i)*time.Second), w.open.Add(time.Duration(i+1)*time.Second)
			ns[i] += float64(max(min(to, s.end)-max(from, s.start), 0))
		}
		for i := s.from; i < s.to; i++ {
			if k := int(s.of.log[i].At.Sub(w.open) / time.Second); k < n {
				tokens[k] += float64(s.of.log[i].Tokens)
			}
		}
	}
	var out []float64
	for i := range n {
		if ns[i] >= float64(concurrency)*float64(time.Second)/2 {
			out = append(out, float64(concurrency)*tokens[i]/(ns[i]/1e9))
		}
	}
	return out
}

// rateCI95 is the half width of the 95 % interval of the cell's total.
func (w window) rateCI95(c *matrix.Cell, spans []span, salvaged bool) stream.Null[float64] {
	switch {
	case !c.TotalTokS.OK:
		return stream.Null[float64]{}
	case salvaged:
		return matrix.CI95(w.cleanPerSecond(spans, c.Concurrency))
	}
	return matrix.CI95(c.PerSecond)
}
