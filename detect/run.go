package detect

import "math"

// run is a maximal stretch [start, end) in which every byte equals the one lag
// before it, at least two lags long. Onset and the counts are of whole
// characters: since UTF-8 is self-synchronising, lag spans the same characters
// wherever it is laid within the run.
type run struct {
	lag   int
	start int
	end   int
	ended bool // the byte at end differs

	onset      int // first character that begins in the run
	onsetChars int // characters of the text before onset
	chars      int // characters that begin in [onset, end)
	cycle      int // characters in one lag
	mute       bool
}

// runs are those alive at the end of the text. Two runs alive at one place have
// lags that differ like Fibonacci numbers, since multiples are not kept; so
// there are never more than about log(PeriodBytes) of them.
type runs []run

// cover reports whether some run from start to end has no lag but its own, and
// multiples of that, within a window. Both the run's lag and the one that a
// match of the window would give are periods of the stretch, which is as long
// as both together, so that their greatest common divisor is one too.
func (rs runs) cover(start, end, window int) bool {
	for i := range rs {
		if rs[i].start <= start && rs[i].end >= end && rs[i].lag <= window {
			return true
		}
	}
	return false
}

// explain reports whether a match at pos is a run already known, or a multiple
// of one that has covered both lags. Without the second condition the multiple
// may belong to a longer run of its own.
func (rs runs) explain(lag, pos int) bool {
	for i := range rs {
		r := &rs[i]
		if r.end < pos || lag%r.lag != 0 {
			continue
		}
		if lag == r.lag || pos-r.start >= lag+r.lag {
			return true
		}
	}
	return false
}

// openRun follows a match of a window at pos back to where it begins and on to
// where it ends, but not beyond to.
func (l *Loop) openRun(lag, window, pos, to int) {
	h := &l.history
	back := matchingBack(h.at(h.base+lag, pos), h.at(h.base, pos-lag))
	if back < window {
		return // only the hashes are equal
	}
	r := run{lag: lag, start: pos - back - lag}
	r.end = pos + matching(h.at(pos, to), h.at(pos-lag, to-lag))
	r.ended = r.end < to
	r.onset = l.charStart(r.start, r.end)
	whole := r.onset+lag <= r.end
	if whole {
		cycle := h.at(r.onset, r.onset+lag)
		r.cycle = leads(cycle)
		r.chars = leads(h.at(r.onset, r.end))
		r.onsetChars = l.blockChars - leads(h.at(r.onset, l.blockFrom))
		whole = !isWhite(cycle)
	}
	// A run that can give no verdict is kept all the same, so that it is not
	// opened again at every anchor.
	r.mute = !whole || r.cycle == 0 || r.cycle > l.limits.PeriodChars
	l.runs = append(l.runs, r)
}

// charStart is where the first character from at on begins, or end.
func (l *Loop) charStart(at, end int) int {
	text := l.history.at(at, end)
	n := 0
	for n < len(text) && isContinuation(text[n]) {
		n++
	}
	return at + n
}

// advanceRuns follows every run through a block.
func (l *Loop) advanceRuns(from, to int) {
	h := &l.history
	for i := range l.runs {
		r := &l.runs[i]
		n := matching(h.at(from, to), h.at(from-r.lag, to-r.lag))
		r.end += n
		r.ended = r.end < to
		r.chars += leads(h.at(from, from+n))
	}
}

func (l *Loop) dropEndedRuns() {
	alive := l.runs[:0]
	for _, r := range l.runs {
		if !r.ended {
			alive = append(alive, r)
		}
	}
	l.runs = alive
}

// span is how many characters a run of the given cycle must have.
func span(cycles, chars, cycle int) int { return max(cycles*cycle, chars) }

// endOf gives the offset just after the character number need of the run. It is
// known only once the next character begins, or the run or the text has ended.
func (l *Loop) endOf(r *run, need int) (end int, known bool) {
	if r.mute || r.chars < need {
		return 0, false
	}
	h := &l.history
	at, count := r.end, r.chars+1
	for count > need {
		at--
		if !isContinuation(h.at(at, at+1)[0]) {
			count--
		}
	}
	at++
	limit := h.end()
	if !l.finished {
		limit = l.blockTo
	}
	for at < limit && isContinuation(h.at(at, at+1)[0]) {
		at++
	}
	if at > r.end {
		return 0, false // the run breaks off within the character
	}
	return at, at < limit || l.finished
}

// held is the first place where a rule holds, and the run it holds for.
type held struct {
	run *run
	end Extent
}

// firstHeld gives the least offset at which a run has that many cycles and
// characters, the smaller period first.
func (l *Loop) firstHeld(cycles, chars int) (held, bool) {
	best := held{end: Extent{Chars: math.MaxInt64}}
	for i := range l.runs {
		r := &l.runs[i]
		need := span(cycles, chars, r.cycle)
		end, ok := l.endOf(r, need)
		if !ok {
			continue
		}
		at := Extent{int64(end), int64(r.onsetChars + need)}
		if at.Chars < best.end.Chars || at.Chars == best.end.Chars && r.lag < best.run.lag {
			best = held{r, at}
		}
	}
	return best, best.run != nil
}

func (r *run) onsetAt() Extent { return Extent{int64(r.onset), int64(r.onsetChars)} }
func (r *run) period() Extent  { return Extent{int64(r.lag), int64(r.cycle)} }

// lengthOf is how much of the run is whole characters.
func (l *Loop) lengthOf(r *run) Extent {
	h := &l.history
	length := Extent{int64(r.end - r.onset), int64(r.chars)}
	if !r.ended || !isContinuation(h.at(r.end, r.end+1)[0]) {
		return length
	}
	at := r.end - 1
	for isContinuation(h.at(at, at+1)[0]) {
		at--
	}
	return Extent{int64(at - r.onset), length.Chars - 1}
}

// cycleOf is one cycle of a run, as it stands at the onset. That one may have
// left the window; a later one is the same.
func (l *Loop) cycleOf(r *run) []byte {
	at := r.onset
	if gone := l.history.base - at; gone > 0 {
		at += (gone + r.lag - 1) / r.lag * r.lag
	}
	return l.history.at(at, at+r.lag)
}
