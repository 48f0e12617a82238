package detect

// judgeNear takes in the block at work and raises the level if a signal holds.
func (l *Loop) judgeNear(from, to int) {
	if from == to {
		return
	}
	if l.near == nil {
		if to < nearStartBytes {
			return
		}
		// Most channels stay short, so the state is made when there is
		// something to judge, and catches up.
		l.near = new(novelty)
		for at := 0; at < from; at += blockBytes {
			l.near.take(&l.history, at, at+blockBytes, false)
		}
	}
	n := l.near
	n.take(&l.history, from, to, l.finished)
	counter, stuck := n.framed(to)
	if counter && l.Level() < Counter {
		l.raiseFrame(Counter, to)
	}
	stale := n.stale()
	if (stale || stuck) && l.Level() < Near && !l.exactly(to) {
		if stale {
			l.raiseStale(to)
		} else {
			l.raiseFrame(Near, to)
		}
	}
	l.followNear(Counter, to, counter)
	l.followNear(Near, to, stale || stuck)
}

// exactly reports whether the repetition at to is an exact one, which has
// verdicts of its own, so that near must not come before them. To search for it
// costs more than the rest: once in a while is enough.
func (l *Loop) exactly(to int) bool {
	if to < l.near.held {
		return true
	}
	c, ok := l.candidateAt(l.extentAt(to))
	if !ok || c.Length.Bytes < nearBytes/4 {
		return false
	}
	l.near.held = to + nearBytes/8
	return true
}

func (l *Loop) followNear(kind Kind, to int, running bool) {
	for i := range l.verdicts {
		v := &l.verdicts[i]
		if v.Kind != kind || !v.Running {
			continue
		}
		if running {
			v.follow(l.extentAt(to).minus(v.Onset), true)
		}
		v.Running = running
	}
}

// raiseFrame reports a frame, whose numbers differ, from where it begins.
func (l *Loop) raiseFrame(kind Kind, to int) {
	f := &l.near.frame
	v := l.nearVerdict(kind, f.began, to)
	cycles := int64(f.cycles())
	length := l.extentAt(to).minus(v.Onset)
	v.Period = Extent{length.Bytes / cycles, length.Chars / cycles}
	l.verdicts = append(l.verdicts, v)
}

// raiseStale reports a window in which nothing is new, from where it begins.
func (l *Loop) raiseStale(to int) {
	onset := (l.near.weighed - nearBlocks) * blockBytes
	l.verdicts = append(l.verdicts, l.nearVerdict(Near, onset, to))
}

func (l *Loop) nearVerdict(kind Kind, onset, to int) Verdict {
	onset = l.charStart(max(onset, l.history.oldest(to)), to)
	return Verdict{
		Kind:        kind,
		Onset:       l.extentAt(onset),
		ConfirmedAt: l.extentAt(to),
		Running:     true,
		Excerpt:     excerpt(l.history.at(onset, to)),
	}
}
