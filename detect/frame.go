package detect

// frame follows text that is periodic but for its numbers. Shape alone cannot
// tell a counting loop from a counting table, but it tells whether the numbers
// count at all.
//
// The lag comes from where the last four tokens occurred before, and is tried
// anew whenever it breaks. That may miss cycles built of equal parts, which is
// good enough for a warning; exact periods are the anchors' business.
type frame struct {
	count int // tokens so far
	lag   int // in tokens; 0: none
	start int // of the run, in tokens
	began int // where the run begins in the text
	fresh int // tokens from here on have a predecessor in the run

	counted int // last number that went on counting
	changed int // last number that differs from the one a lag before

	last   [frameRows]uint32 // by hash of four tokens: where they ended
	tokens [frameTokens]frameToken
}

const (
	frameTokens = 512 // the longest lag, and a power of two
	frameRows   = 256
	frameGram   = 4

	// A slot counts once it has risen, or fallen, so often in a row: by chance
	// numbers do that once in 5,040 times.
	countingSteps = 6
	// Slots that start over, such as seconds, count all the same.
	countingCycles = 16
)

type frameToken struct {
	hash  uint32 // without the digits
	end   uint32
	value uint32
	trend int8 // rises in a row at this slot, falls if negative
	kind  tokenKind
	size  uint8
}

func (f *frame) at(i int) *frameToken { return &f.tokens[i%frameTokens] }

func (f *frame) add(t token, end int) {
	i := f.count
	f.count++
	hash := t.hash
	if t.kind == numberToken {
		hash = 1
	}
	now := f.at(i)
	*now = frameToken{hash: hash, end: uint32(end), value: t.value, kind: t.kind, size: uint8(t.size)}
	place := f.place(i)
	if f.lag > 0 && f.at(i-f.lag).hash != hash {
		f.lag = 0
	}
	if f.lag == 0 && i >= frameGram {
		f.begin(i, int(*place))
	}
	*place = uint32(i)
	if f.lag > 0 && t.kind == numberToken {
		f.compare(i, now, f.at(i-f.lag))
	}
}

// place is where the last four tokens are noted.
func (f *frame) place(i int) *uint32 {
	var hash uint32
	for k := range frameGram {
		hash = hash*0x9E3779B1 + f.at(i-min(k, i)).hash
	}
	return &f.last[hash*0x85EBCA6B>>24]
}

// begin tries the lag to before, an earlier token of the same hash.
func (f *frame) begin(i, before int) {
	lag := i - before
	if before < frameGram || lag >= frameTokens-frameGram {
		return
	}
	for k := range frameGram {
		if f.at(i-k).hash != f.at(before-k).hash {
			return
		}
	}
	first := before - frameGram + 1
	f.lag = lag
	f.start = first
	f.began = int(f.at(first - 1).end)
	f.fresh = first + lag
	f.counted, f.changed = -1, -1
}

func (f *frame) compare(i int, now, before *frameToken) {
	trend := before.trend
	if i-f.lag < f.fresh {
		trend = 0
	}
	switch {
	case now.value > before.value:
		now.trend = max(trend, 0) + 1
	case now.value < before.value:
		now.trend = min(trend, 0) - 1
	default:
		now.trend = trend
		return
	}
	now.trend = max(min(now.trend, 100), -100)
	f.changed = i
	if now.trend >= countingSteps || now.trend <= -countingSteps {
		f.counted = i
	}
}

// cycles is how often the frame stands there.
func (f *frame) cycles() int {
	if f.lag == 0 {
		return 0
	}
	return (f.count - f.start) / f.lag
}

// varies reports whether the numbers differ from cycle to cycle: otherwise it is
// an exact repetition, and not ours.
func (f *frame) varies() bool { return f.changed >= 0 && f.changed >= f.count-countingCycles*f.lag }

func (f *frame) counts() bool { return f.counted >= 0 && f.counted >= f.count-countingCycles*f.lag }

// content looks at one cycle: whether there are letters in it at all, and
// whether it says something of its own, in a word or in a number that stays. A
// bare list of numbers, a path or a matrix does not.
func (f *frame) content() (letters, says bool) {
	for i := f.count - f.lag; i < f.count; i++ {
		t := f.at(i)
		switch t.kind {
		case wordToken, ideograph:
			letters = true
			says = says || t.size > 1
		}
	}
	if !letters || says {
		return letters, says
	}
	for i := f.count - f.lag; i < f.count; i++ {
		if t := f.at(i); t.kind == numberToken && t.trend == 0 && t.value == f.at(i-f.lag).value {
			return letters, true
		}
	}
	return letters, false
}
