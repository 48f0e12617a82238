package detect

// frame follows text that is periodic but for its numbers. Shape alone cannot
// tell a counting loop from a counting table, but it tells whether the numbers
// count at all.
//
// The lag comes from where a number and the three tokens before it occurred
// last, and is tried anew at the next number when it breaks. That may miss cycles
// built of equal parts, which is good enough for a warning; exact periods are the
// anchors' business.
//
// Text without numbers has no frame: until the first one the last four tokens
// are kept and nothing else, and later the tokens grow with the text.
type frame struct {
	count  int // tokens so far, but for stretches without numbers
	number int // the last number
	since  int // the tokens from here on are contiguous
	lag    int // in tokens; 0: none
	start  int // of the run, in tokens
	began  int // where the run begins in the text
	fresh  int // tokens from here on have a predecessor in the run

	awake   bool // a number came
	counted int  // last number that went on counting
	changed int  // last number that differs from the one a lag before

	last   *[frameRows]frameGrams // by hash; nil before the first number
	tokens []frameToken           // the last ones, by number: a power of two
	early  [frameGram]frameToken  // those before the first number
}

const (
	frameTokens = 512 // the longest lag, and a power of two
	// firstFrameTokens is how many tokens there is room for at first.
	firstFrameTokens = 64
	frameRows        = 256
	frameGram        = 4

	// A slot counts once it has risen, or fallen, so often in a row: by chance
	// numbers do that once in 5,040 times.
	countingSteps = 6
	// Slots that start over, such as seconds, count all the same.
	countingCycles = 16
)

// frameGrams tells where a number stood last behind three tokens.
type frameGrams struct {
	hash uint32
	at   uint32
}

type frameToken struct {
	hash  uint32 // without the digits
	end   uint32
	value uint32
	trend int8 // rises in a row at this slot, falls if negative
	kind  tokenKind
	size  uint8
}

func (f *frame) at(i int) *frameToken { return &f.tokens[i&(len(f.tokens)-1)] }

// reset forgets the text and keeps the memory.
func (f *frame) reset() {
	if f.last != nil {
		*f.last = [frameRows]frameGrams{}
	}
	clear(f.tokens)
	*f = frame{last: f.last, tokens: f.tokens}
}

// room makes place for token i. All tokens there are have the place of their
// number until there are frameTokens of them.
func (f *frame) room(i int) {
	size := max(len(f.tokens), firstFrameTokens)
	for size <= i && size < frameTokens {
		size *= 2
	}
	if size > len(f.tokens) {
		tokens := make([]frameToken, size)
		copy(tokens, f.tokens)
		f.tokens = tokens
	}
}

// wake begins with token i, the first number.
func (f *frame) wake(i int) {
	if f.last == nil {
		f.last = new([frameRows]frameGrams)
	}
	f.room(i)
	for k := max(i-frameGram, 0); k < i; k++ {
		*f.at(k) = f.early[k%frameGram]
	}
	f.awake = true
}

func (f *frame) add(t token, value uint32, end int) {
	i := f.count
	if t.kind == numberToken {
		if i-f.number > frameTokens {
			f.lag, f.since = 0, i
		}
		f.number = i
	} else if i-f.number > frameTokens {
		return // text without numbers costs nothing
	}
	f.count++
	if !f.awake {
		if t.kind != numberToken {
			f.early[i%frameGram] = frameToken{hash: t.hash, end: uint32(end), kind: t.kind, size: uint8(t.size)}
			return
		}
		f.wake(i)
	} else if i >= len(f.tokens) {
		f.room(i)
	}
	now := f.at(i)
	now.hash, now.end, now.value = t.hash, uint32(end), value
	now.trend, now.kind, now.size = 0, t.kind, uint8(t.size)
	if f.lag > 0 && f.at(i-f.lag).hash != t.hash {
		f.lag = 0
	}
	if t.kind == numberToken {
		f.addNumber(i, now)
	}
}

// addNumber looks for the lag where there is none, and compares the number with
// its predecessor where there is one. A frame without a number is none.
func (f *frame) addNumber(i int, now *frameToken) {
	gram := f.at(i-1).hash*0x85EBCA6B + f.at(i-2).hash*0xC2B2AE35 + f.at(i-3).hash*0x27D4EB2F
	last := &f.last[gram*0x9E3779B1>>24]
	if f.lag == 0 && last.hash == gram {
		f.begin(i, int(last.at))
	}
	*last = frameGrams{gram, uint32(i)}
	if f.lag > 0 {
		f.compare(i, now, f.at(i-f.lag))
	}
}

// begin tries the lag from i to before, where the same four tokens ended.
func (f *frame) begin(i, before int) {
	lag := i - before
	if before < f.since+frameGram || lag >= frameTokens-frameGram {
		return
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

// stands reports whether the frame stands there so often.
func (f *frame) stands(cycles int) bool { return f.lag > 0 && f.count-f.start >= cycles*f.lag }

// cycles is how often a frame with a lag stands there.
func (f *frame) cycles() int { return (f.count - f.start) / f.lag }

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
