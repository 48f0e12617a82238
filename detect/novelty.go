package detect

// novelty holds the signals for text that repeats with variation. Each was
// chosen because it tells near repetition from clean text in a corpus and holds
// on others made of other words and shapes; docs/loops.md has the figures.
//
//   - copies: less than one byte in twenty of the last 4096 is no copy of
//     something at most 1024 bytes before.
//   - vocabulary: no new words and hardly a new pair in 300 words.
//   - frame: only numbers change, and none of them counts. One that counts is a
//     counter: a loop or a table, which shape cannot tell.
type novelty struct {
	open   tokenKind // the token not over yet
	openAt int
	before tokenKind // the one before it
	copies copies
	words  vocabulary
	frame  frame

	digits    int // of the number that ends at numberEnd
	numberEnd int

	blocks  [nearRing]blockTally
	weighed int // blocks that are in the window, or have been
	novel   int // sums over the window
	letters int
	held    int // no verdict before this offset
}

// blockTally is what is known of one block.
type blockTally struct {
	novel   uint8 // bytes that are no copy
	letters uint8 // bytes of words, and of very long numbers
}

const (
	nearBytes  = 4096
	nearBlocks = nearBytes / blockBytes
	nearRing   = 2 * nearBlocks
	// A block is weighed when nothing behind it can turn it into a copy.
	nearLinger = copyLinger / blockBytes

	nearNovel   = 5  // of a hundred bytes
	nearLetters = 45 // of a hundred bytes: no hexdumps, matrices, boards

	// nearStartBytes is when the state is made: no signal can hold before.
	nearStartBytes = counterBytes

	counterCycles = 8
	counterBytes  = 2048
	// A counter whose cycle is shorter than this is no more than a counter,
	// however little its numbers add: table rows are that short.
	proseCycleBytes = 40

	// Digits of a number from here on are text: no table has such numbers, and
	// a number that grows for ever consists of them.
	plainDigits = 12
)

// reset forgets the text and keeps the memory.
func (n *novelty) reset() {
	n.words.reset()
	n.frame.reset()
	*n = novelty{words: n.words, frame: n.frame}
}

// take reads the block (from, to].
func (n *novelty) take(h *history, from, to int, last bool) {
	k := from / blockBytes
	*n.block(k) = blockTally{}
	n.read(h, from, to)
	if last {
		n.token(h, n.open, n.openAt, to)
	}
	n.countNovel(n.copies.settle(to))
	if k -= nearLinger; k >= 0 {
		n.weigh(n.block(k), 1)
		if k >= nearBlocks {
			n.weigh(n.block(k-nearBlocks), -1)
		}
		n.weighed = k + 1
	}
}

func (n *novelty) block(k int) *blockTally { return &n.blocks[uint(k)%nearRing] }

func (n *novelty) weigh(b *blockTally, by int) {
	n.novel += by * int(b.novel)
	n.letters += by * int(b.letters)
}

// token takes the next token of the text.
func (n *novelty) token(h *history, kind tokenKind, start, end int) {
	if kind == noToken {
		return
	}
	text := h.at(start, end)
	t := token{kind: kind, size: end - start}
	var value uint32
	switch kind {
	case wordToken:
		t.hash = hashToken(text, 0x2020202020202020)
		n.countLetters(end, t.size)
		n.words.word(t)
	case ideograph:
		t.hash = hashToken(text, 0)
		n.countLetters(end, t.size)
		n.words.word(t)
	case numberToken:
		value = valueOf(text)
		n.countLetters(end, n.plainDigits(start, end))
		n.words.other(t)
	default:
		t.hash = hashToken(text, 0)
		n.words.other(t)
	}
	n.frame.add(t, value, end)
	if endsCopies(t, n.before) {
		n.countNovel(n.copies.extend(h, end))
	}
	n.before = kind
}

func (n *novelty) countLetters(end, count int) {
	n.block(int(uint(end-1) / blockBytes)).letters += uint8(count)
}

// plainDigits is how many digits are so far on in a number that they are text.
func (n *novelty) plainDigits(start, end int) int {
	if start != n.numberEnd {
		n.digits = 0 // not the same number, cut
	}
	before := n.digits
	n.digits += end - start
	n.numberEnd = end
	return max(n.digits-plainDigits, 0) - max(before-plainDigits, 0)
}

func (n *novelty) countNovel(from, to int) {
	for from < to {
		next := min(to, (from/blockBytes+1)*blockBytes)
		n.block(from / blockBytes).novel += uint8(next - from)
		from = next
	}
}

// stale reports whether the text of the window says next to nothing new.
func (n *novelty) stale() bool {
	if n.weighed < nearBlocks || n.letters*100 < nearBytes*nearLetters {
		return false
	}
	return n.novel*100 < nearBytes*nearNovel && !n.shortCounter() || n.words.exhausted()
}

// shortCounter reports whether the text is a counter with little around it.
func (n *novelty) shortCounter() bool {
	f := &n.frame
	return f.stands(counterCycles) && f.counts() && int(f.at(f.count-1).end)-f.began < f.cycles()*proseCycleBytes
}

// framed reports whether only numbers have changed for a while, and stuck
// whether they do not count either, though the text around them says something.
func (n *novelty) framed(to int) (counter, stuck bool) {
	f := &n.frame
	if !f.stands(counterCycles) || to-f.began < counterBytes || !f.varies() {
		return false, false
	}
	letters, says := f.content()
	return letters, says && !f.counts() && to-f.began >= nearBytes
}
