package detect

// Loop judges the text of one channel of one choice. Make it with [New]. It is
// not safe for concurrent use.
type Loop struct {
	// Text that completes no block waits here, in the first cache line: to put it
	// behind the rest at once would cost several misses where thousands of
	// channels take turns.
	lacking  uint8 // a piece shorter than this may wait; 0: none may
	waiting  uint8 // bytes of wait
	scales   uint8 // how many of the scales reach up to the longest period
	finished bool
	wait     [44]byte

	history   history
	blockFrom int       // where the block at work begins, else the next one
	verdicts  []Verdict // one a level, rising

	blockTo    int
	blockChars int // characters before blockFrom

	runs    runs
	anchors anchors
	rolled  []rolled
	white   whiteRun
	near    *novelty // nil while the text is short

	limits Limits
}

// New makes the state for one channel. It fails if a limit is out of range.
func New(limits Limits) (*Loop, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	l := &Loop{limits: limits.withDefaults()}
	for i := range scales {
		if scales[i].under < l.limits.PeriodBytes {
			l.scales = uint8(i + 1)
		}
	}
	l.history = newHistory(l.limits.PeriodBytes, scales[l.scales-1].window)
	l.anchors.reset()
	l.await()
	return l, nil
}

// Reset makes the state ready for another text with the same limits. It keeps
// the memory it has grown to, so that states can be pooled.
func (l *Loop) Reset() {
	l.waiting = 0
	l.history.reset()
	l.blockFrom, l.blockTo, l.blockChars = 0, 0, 0
	l.runs = l.runs[:0]
	l.anchors.reset()
	clear(l.rolled)
	l.white = whiteRun{}
	if l.near != nil {
		l.near.reset()
	}
	clear(l.verdicts) // lets go of the excerpts
	l.verdicts = l.verdicts[:0]
	l.finished = false
	l.await()
}

// Feed looks at the next piece of text, which may be empty and may end within a
// character. It reports whether the level rose; see [Loop.Verdict]. The piece is
// not kept. After Finish it does nothing.
func (l *Loop) Feed(text []byte) (rose bool) { return feed(l, text) }

// FeedString is [Loop.Feed] for a string.
func (l *Loop) FeedString(text string) (rose bool) { return feed(l, text) }

func feed[T string | []byte](l *Loop, text T) bool {
	if len(text) < int(l.lacking) {
		l.waiting += uint8(copy(l.wait[l.waiting:], text))
		l.lacking -= uint8(len(text))
		return false
	}
	if l.finished {
		return false
	}
	before := len(l.verdicts)
	l.settle()
	take(l, text)
	l.await()
	return len(l.verdicts) > before
}

// await lets the next pieces wait, up to the one that completes a block. Those
// behind a confirmed loop are looked at one by one.
func (l *Loop) await() {
	if l.Level() < Confirmed {
		l.lacking = uint8(min(blockBytes-(l.history.end()-l.blockFrom), len(l.wait)+1))
	}
}

// settle takes in what waits.
func (l *Loop) settle() {
	waiting := l.wait[:l.waiting]
	l.lacking, l.waiting = 0, 0
	take(l, waiting)
}

func take[T string | []byte](l *Loop, text T) {
	h := &l.history
	for len(text) > 0 {
		n := min(h.room(), len(text))
		h.text = append(h.text, text[:n]...)
		text = text[n:]
		if h.end()-l.blockFrom >= blockBytes || l.Level() == Confirmed {
			l.work()
		}
	}
}

// Finish tells that the text is over and looks at what is left of it. It reports
// whether the level rose.
func (l *Loop) Finish() (rose bool) {
	if l.finished {
		return false
	}
	l.settle()
	before := len(l.verdicts)
	l.finished = true
	l.work()
	return len(l.verdicts) > before
}

// work goes through the blocks that are complete; after Finish, also the rest.
func (l *Loop) work() {
	end := l.history.end()
	for l.Level() < Confirmed && end-l.blockFrom >= blockBytes {
		l.block(l.blockFrom + blockBytes)
	}
	if l.Level() < Confirmed && l.finished {
		l.block(end)
	}
	if l.Level() == Confirmed {
		l.trail(end)
	}
}

// block judges the text up to to, less than or just one block on. At the end of
// a text it may be empty: what was undecided in the block before is known then.
func (l *Loop) block(to int) {
	from := l.blockFrom
	l.blockTo = to
	l.advanceRuns(from, to)
	l.seek(from, to)
	if len(l.runs) > 0 {
		l.judgeRuns()
	}
	l.judgeWhite()
	l.judgeNear(from, to)
	if len(l.verdicts) > 0 {
		l.followRuns()
	}
	l.dropEndedRuns()
	l.blockChars += leads(l.history.at(from, to))
	l.blockFrom = to
}

// judgeRuns raises the level if a rule holds for some run.
func (l *Loop) judgeRuns() {
	if l.Level() < Suspected {
		l.raiseRun(Suspected, suspectCycles, suspectChars)
	}
	if l.Level() < Confirmed {
		l.raiseRun(Confirmed, l.limits.Cycles, l.limits.Chars)
	}
}

func (l *Loop) raiseRun(kind Kind, cycles, chars int) {
	found, ok := l.firstHeld(cycles, chars)
	if !ok {
		return
	}
	r := found.run
	if kind == Confirmed {
		l.leaveOthers()
	}
	v := Verdict{Kind: kind, Onset: r.onsetAt(), Period: r.period(), ConfirmedAt: found.end, Running: true}
	v.describe(l.cycleOf(r))
	l.verdicts = append(l.verdicts, v)
}

// leaveOthers ends the verdicts that are followed no longer once a loop is
// confirmed.
func (l *Loop) leaveOthers() {
	for i := range l.verdicts {
		if v := &l.verdicts[i]; v.Kind != Suspected {
			v.Running = false
		}
	}
}

// followRuns brings the verdicts about runs up to the text looked at.
func (l *Loop) followRuns() {
	for i := range l.verdicts {
		v := &l.verdicts[i]
		if !v.Running || v.Kind != Suspected && v.Kind != Confirmed {
			continue
		}
		r := l.runOf(v)
		if r == nil { // suspected, while another run was confirmed
			v.Running = false
			continue
		}
		v.follow(l.lengthOf(r), !r.ended)
	}
}

func (l *Loop) runOf(v *Verdict) *run {
	for i := range l.runs {
		if r := &l.runs[i]; r.lag == int(v.Period.Bytes) && r.onset == int(v.Onset.Bytes) {
			return r
		}
	}
	return nil
}

// trail follows a confirmed loop, and nothing else, to end. The rest of the
// state rests.
func (l *Loop) trail(end int) {
	if v := &l.verdicts[len(l.verdicts)-1]; v.Running {
		l.runs[0] = *l.runOf(v)
		l.runs = l.runs[:1]
		l.advanceRuns(l.runs[0].end, end)
		l.followRuns()
	}
	l.blockChars += leads(l.history.at(l.blockFrom, end))
	l.blockFrom = end
}

// Level is the kind of the highest verdict so far.
func (l *Loop) Level() Kind {
	if len(l.verdicts) == 0 {
		return None
	}
	return l.verdicts[len(l.verdicts)-1].Kind
}

// Verdict gives the highest verdict so far; its kind is None if there is none.
func (l *Loop) Verdict() Verdict {
	if len(l.verdicts) == 0 {
		return Verdict{}
	}
	return l.verdicts[len(l.verdicts)-1]
}

// Verdicts gives every verdict so far, one a level, in the order in which the
// level rose: a single Feed may raise it more than once. The slice is valid
// until the next call of Feed, Finish or Reset.
func (l *Loop) Verdicts() []Verdict { return l.verdicts }

// Fed is how much text came so far.
func (l *Loop) Fed() Extent {
	l.settle()
	return l.extentAt(l.history.end())
}
