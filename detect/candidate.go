package detect

import "bytes"

// Candidate is an exact repetition that the text ends in at this moment.
type Candidate struct {
	Onset  Extent
	Period Extent
	Length Extent
	Cycles int64
}

// gramBytes is what any candidate has in common with itself one period before:
// at least half of candidateChars.
const gramBytes = candidateChars / 2

// Candidate gives the repetition of the smallest period that the text fed so far
// ends in, if it has at least 2 cycles and 256 characters and is not white
// space. After a verdict of kind Confirmed it gives that loop while it runs.
//
// It searches the window, at up to a millisecond, rather than wait for the
// anchors, which may need a third cycle: call it when a stream is ended from
// outside, not for each piece of text.
func (l *Loop) Candidate() (Candidate, bool) {
	if l.Level() < Confirmed {
		return l.candidateAt(l.Fed())
	}
	v := l.Verdict()
	if v.Kind != Confirmed || !v.Running {
		return Candidate{}, false
	}
	return Candidate{v.Onset, v.Period, v.Length, v.Cycles}, true
}

// candidateAt judges the text up to to.
func (l *Loop) candidateAt(to Extent) (Candidate, bool) {
	h := &l.history
	end, chars := int(to.Bytes), int(to.Chars)
	if end-h.base < 2*gramBytes {
		return Candidate{}, false
	}
	gram := h.at(end-gramBytes, end)
	from := max(h.base, end-gramBytes-l.limits.PeriodBytes)
	text := h.at(from, end-1)
	for {
		at := bytes.LastIndex(text, gram)
		if at < 0 {
			return Candidate{}, false
		}
		text = text[:at+gramBytes-1]
		if c, ok := l.candidateOf(end-gramBytes-from-at, end, chars); ok {
			return c, true
		}
	}
}

// candidateOf judges the run of a lag that the text up to end ends in.
func (l *Loop) candidateOf(lag, end, chars int) (Candidate, bool) {
	h := &l.history
	back := matchingBack(h.at(h.base+lag, end), h.at(h.base, end-lag))
	if back < lag {
		return Candidate{}, false
	}
	r := run{lag: lag, start: end - back - lag, end: end}
	if known := l.runFrom(r.start, lag); known != nil {
		r.onset = known.onset
		r.onsetChars = known.onsetChars
	} else {
		r.onset = l.charStart(r.start, end)
		r.onsetChars = chars - leads(h.at(r.onset, end))
	}
	r.chars = chars - r.onsetChars
	r.cycle = leads(h.at(end-lag, end))
	if r.chars < span(candidateCycles, candidateChars, r.cycle) || r.cycle == 0 || r.cycle > l.limits.PeriodChars || isWhite(l.cycleOf(&r)) {
		return Candidate{}, false
	}
	return Candidate{
		Onset:  r.onsetAt(),
		Period: r.period(),
		Length: Extent{int64(end - r.onset), int64(r.chars)},
		Cycles: int64(r.chars / r.cycle),
	}, true
}

// runFrom gives the run of a lag that begins at start. Of a run that has
// outgrown the window, start is only where the window begins.
func (l *Loop) runFrom(start, lag int) *run {
	for i := range l.runs {
		if r := &l.runs[i]; r.lag == lag && max(r.start, l.history.base) == start {
			return r
		}
	}
	return nil
}
