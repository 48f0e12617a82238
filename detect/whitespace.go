package detect

import (
	"unicode"
	"unicode/utf8"
)

// whiteRun is the white space that the text looked at ends in.
type whiteRun struct {
	onset Extent
	chars int
	next  int // first byte not looked at, at a character
}

// isSpace follows Unicode, and counts the four ASCII separators in as Python
// does: an engine's detokenizer may emit them in a flood.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func isWhite(text []byte) bool {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if !isSpace(r) {
			return false
		}
		text = text[size:]
	}
	return true
}

// judgeWhite counts white space on to the end of the block. A run worth a
// verdict fills whole blocks, so a block of other text is looked at only at its
// two ends.
func (l *Loop) judgeWhite() {
	w := &l.white
	if w.chars == 0 && l.blockTo > l.blockFrom {
		if last := l.history.at(l.blockTo-1, l.blockTo)[0]; last > ' ' && last < utf8.RuneSelf {
			w.next = l.blockTo // no white space within a block is long enough
			return
		}
	}
	end := l.lastCharEnd(w.next)
	text := l.history.at(w.next, end)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if !isSpace(r) {
			break
		}
		if w.chars == 0 {
			w.onset = l.extentAt(w.next)
		}
		text = text[size:]
		w.next += size
		w.chars++
		if w.chars == l.limits.WhiteSpace && l.Level() < WhiteSpace {
			l.raiseWhite()
		}
	}
	l.followWhite(len(text) == 0)
	if len(text) > 0 {
		l.restartWhite(text, end)
	}
}

// restartWhite begins with the white space at the end of text, which ends at
// end; before it there is some other character.
func (l *Loop) restartWhite(text []byte, end int) {
	w := &l.white
	w.chars = 0
	w.next = end
	size := 0
	for {
		r, n := utf8.DecodeLastRune(text[:len(text)-size])
		if !isSpace(r) {
			break
		}
		size += n
		w.chars++
	}
	if w.chars > 0 {
		w.onset = l.extentAt(end - size)
	}
}

// lastCharEnd is where the last character that is complete at the end of the
// block ends.
func (l *Loop) lastCharEnd(from int) int {
	end := l.blockTo
	if l.finished {
		return end
	}
	for at := end - 1; at >= max(from, end-utf8.UTFMax+1); at-- {
		if tail := l.history.at(at, end); !isContinuation(tail[0]) {
			if !utf8.FullRune(tail) {
				return at
			}
			break
		}
	}
	return end
}

// extentAt counts the characters before an offset near the block at work.
func (l *Loop) extentAt(at int) Extent {
	if at < l.blockFrom {
		return Extent{int64(at), int64(l.blockChars - leads(l.history.at(at, l.blockFrom)))}
	}
	return Extent{int64(at), int64(l.blockChars + leads(l.history.at(l.blockFrom, at)))}
}

func (l *Loop) raiseWhite() {
	w := &l.white
	v := Verdict{
		Kind:        WhiteSpace,
		Onset:       w.onset,
		ConfirmedAt: Extent{int64(w.next), w.onset.Chars + int64(w.chars)},
		Running:     true,
	}
	if r := l.runOver(int(w.onset.Bytes), w.next); r != nil {
		v.Period = r.period()
		v.describe(l.cycleOf(r))
	} else {
		v.Excerpt = excerpt(l.history.at(max(int(w.onset.Bytes), l.history.oldest(l.blockTo)), w.next))
	}
	l.verdicts = append(l.verdicts, v)
}

// runOver gives the run with the smallest period that holds all of a stretch.
func (l *Loop) runOver(from, to int) *run {
	var least *run
	for i := range l.runs {
		r := &l.runs[i]
		if r.onset <= from && r.end >= to && (least == nil || r.lag < least.lag) {
			least = r
		}
	}
	return least
}

func (l *Loop) followWhite(running bool) {
	for i := range l.verdicts {
		if v := &l.verdicts[i]; v.Kind == WhiteSpace && v.Running {
			length := Extent{int64(l.white.next), l.white.onset.Chars + int64(l.white.chars)}.minus(l.white.onset)
			v.follow(length, running)
		}
	}
}
