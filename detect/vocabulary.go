package detect

// vocabulary tells whether the text has run out of words: the same thought
// worded again and again draws on a few dozen, in the same order, where even
// a plain text brings a new one every dozen and hardly repeats a pair.
type vocabulary struct {
	words     *recent // nil before the first word
	pairs     fewRecent
	count     uint32 // words so far
	numbers   int32  // in the window, like the others
	newWords  int32
	newPairs  int32
	last      uint32 // hash of the word before
	character uint32 // hash of the ideograph before, 0 if none
	between   uint8  // numbers since the word before

	window [wordWindow]uint8 // an entry a word
}

// reset forgets the text and keeps the memory.
func (v *vocabulary) reset() {
	if v.words != nil {
		*v.words = recent{}
	}
	v.pairs.reset()
	*v = vocabulary{words: v.words, pairs: v.pairs}
}

const (
	wordWindow = 300
	wordReach  = 400 // how many words back a word may have occurred to be known

	// What a window without anything new may hold.
	mostNewWords = 1
	mostNewPairs = 60
	mostNumbers  = 37
	// With more new words than this, pairs are not looked up.
	pairsFrom = 30

	// An entry of the window: two flags, and the count of numbers before the word.
	newWord      = 1
	newPair      = 2
	numbersShift = 2
	entryNumbers = 63
)

// word takes the next word. Two ideographs in a row count as one, every other
// time by the second's hash: so as many bytes are a word as in other scripts.
func (v *vocabulary) word(t token) {
	hash := t.hash
	if t.kind == ideograph {
		before := v.character
		v.character = hash | 1<<31
		if before == 0 || hash&1 != 0 {
			return
		}
		hash = before*31 + hash
	} else {
		v.character = 0
		if t.size < 2 {
			return // of hexadecimal digits, algebra, game boards
		}
	}
	if v.words == nil {
		v.words = new(recent)
	}
	v.count++
	var entry uint8
	if !v.words.see(hash, v.count, wordReach) {
		entry |= newWord
	}
	// Pairs matter only when words are about to run out.
	if v.newWords > pairsFrom || !v.pairs.see(hash*31+v.last, v.count, wordReach) {
		entry |= newPair
	}
	entry |= v.between << numbersShift
	v.between = 0
	v.last = hash
	place := &v.window[v.count%wordWindow]
	v.tally(*place, -1)
	*place = entry
	v.tally(entry, 1)
}

func (v *vocabulary) other(t token) {
	v.character = 0
	if t.kind == numberToken && v.between < entryNumbers {
		v.between++
	}
}

func (v *vocabulary) tally(entry uint8, by int32) {
	v.newWords += by * int32(entry&newWord)
	v.newPairs += by * int32(entry>>1&1)
	v.numbers += by * int32(entry>>numbersShift)
}

// exhausted reports whether the last 300 words hold at most one that the 400
// before it did not have, and next to no new pair. Text full of numbers is left
// to the frame: a table uses few words too.
func (v *vocabulary) exhausted() bool {
	return v.count >= wordWindow+wordReach &&
		v.newWords <= mostNewWords &&
		v.newPairs <= mostNewPairs &&
		v.numbers <= mostNumbers
}
