package detect

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// blockBytes is the grain of all work: text is looked at in blocks of this
// size at absolute offsets, so that no verdict depends on how it was cut, and
// both sides of every comparison lie contiguous in memory.
const blockBytes = 64

// hashBase is odd so that no factor is lost, and drawn anew in each process so
// that nobody can prepare texts whose hashes collide. A collision would only
// cost one comparison in vain.
var hashBase = rand.Uint64() | 1

var (
	hashBaseHalf  = hashPower(blockBytes / 2)
	hashBaseBlock = hashPower(blockBytes)
)

// hashGone is what a byte has added to a hash a block later.
var hashGone = func() (gone [256]uint64) {
	for c := range gone {
		gone[c] = uint64(c) * hashBaseBlock
	}
	return gone
}()

func hashPower(n int) uint64 {
	power := uint64(1)
	for base := hashBase; n > 0; n >>= 1 {
		if n&1 == 1 {
			power *= base
		}
		base *= base
	}
	return power
}

// history keeps the end of the text, and for each block boundary the hash of
// everything before it, from which the hash of any stretch between boundaries
// follows. It is a plain buffer that moves its tail to the front when full:
// copying costs less than the wrap-around tests a ring needs in inner loops.
type history struct {
	text []byte
	base int      // absolute offset of text[0], a multiple of blockBytes
	sums []uint64 // sums[k]: hash of the text before base + k*blockBytes
	calm []uint32 // calm[k]: how long a calm run ends there; see calmKey
	keep int32    // how much must stay reachable
	most int32    // capacity at full size
}

// firstBytes is small because most channels of most streams stay short.
const firstBytes = 256

// newHistory holds back enough for a run of the longest period to be traced to
// its start when the anchors of the widest window first see it, and for the
// window of the near signals.
func newHistory(periodBytes, window int) history {
	blocks := func(n int) int { return (n + blockBytes - 1) / blockBytes * blockBytes }
	keep := max(blocks(periodBytes+window+window/4)+8*blockBytes, nearBytes+copyReach) + 4*blockBytes
	return history{keep: int32(keep), most: int32(keep + blocks(periodBytes/2))}
}

func (h *history) reset() {
	h.text = h.text[:0]
	h.sums = append(h.sums[:0], 0)
	h.calm = append(h.calm[:0], 0)
	h.base = 0
}

func (h *history) end() int { return h.base + len(h.text) }

// oldest is the earliest offset that is surely there while the block before to is
// at work. What is there beyond it depends on how the text was cut.
func (h *history) oldest(to int) int { return max(0, to-int(h.keep)+blockBytes) }

// at gives the text from absolute offset from to to.
func (h *history) at(from, to int) []byte { return h.text[from-h.base : to-h.base] }

// room makes space if there is none, and returns how much fits. All but the last
// incomplete block has been looked at by then.
func (h *history) room() int {
	if free := cap(h.text) - len(h.text); free > 0 {
		return free
	}
	if most := int(h.most); cap(h.text) < most {
		h.grow(min(h.larger(), most))
	} else {
		h.slide()
	}
	return cap(h.text) - len(h.text)
}

// larger is the next capacity: twice that of a short text, and then a quarter
// and an eighth more, so that a thousand texts of one age do not hold a thousand
// times the room to come.
func (h *history) larger() int {
	size := cap(h.text)
	switch {
	case size < 4*firstBytes:
		return max(2*size, firstBytes)
	case size < 32*firstBytes:
		return size + size/4/blockBytes*blockBytes
	}
	return size + size/8/blockBytes*blockBytes
}

func (h *history) grow(size int) {
	text := make([]byte, len(h.text), size)
	copy(text, h.text)
	h.text = text
	sums := make([]uint64, max(len(h.sums), 1), size/blockBytes+1)
	copy(sums, h.sums)
	h.sums = sums
	calm := make([]uint32, max(len(h.calm), 1), size/blockBytes+1)
	copy(calm, h.calm)
	h.calm = calm
}

func (h *history) slide() {
	drop := (len(h.text) - int(h.keep)) / blockBytes * blockBytes
	h.text = h.text[:copy(h.text, h.text[drop:])]
	// Behind a confirmed loop no sums are kept any more.
	blocks := min(drop/blockBytes, len(h.sums))
	h.sums = h.sums[:copy(h.sums, h.sums[blocks:])]
	h.calm = h.calm[:copy(h.calm, h.calm[blocks:])]
	h.base += drop
}

// sum is the hash of all text before a block boundary.
func (h *history) sum(at int) uint64 { return h.sums[(at-h.base)/blockBytes] }

// tail is the hash of the block that ends at a block boundary.
func (h *history) tail(at int) uint64 { return h.sum(at) - h.sum(at-blockBytes)*hashBaseBlock }

// window is the hash of the last window of a scale before a block boundary.
func (h *history) window(at, scaleIndex int) uint64 {
	sc := &scales[scaleIndex]
	return h.sum(at) - h.sum(at-sc.window)*sc.power
}

// alike compares eight bytes here and there of two windows: a cheap refusal
// before the hash of a window is worked out.
func (h *history) alike(a, b, window int) bool {
	text := h.text
	a -= h.base + window
	b -= h.base + window
	for range 4 {
		if binary.LittleEndian.Uint64(text[a:]) != binary.LittleEndian.Uint64(text[b:]) {
			return false
		}
		a += window / 4
		b += window / 4
	}
	return true
}

// close notes the hash of a block that is over, and the calm run it ends in. The
// last block of a text may be short; nothing follows it, so it needs neither.
func (h *history) close(block []byte, hash uint64, calm int) {
	if len(block) == blockBytes {
		h.sums = append(h.sums, h.sums[len(h.sums)-1]*hashBaseBlock+hash)
		h.calm = append(h.calm, uint32(calm))
	}
}

// calmBefore is how long a calm run ends at a block boundary.
func (h *history) calmBefore(at int) int { return int(h.calm[(at-h.base)/blockBytes]) }

// hashOf hashes a block, in two chains: one takes twice as long.
func hashOf(block []byte) uint64 {
	var front, back uint64
	base, half := hashBase, len(block)/2
	for i, c := range block[:half] {
		front = front*base + uint64(c)
		back = back*base + uint64(block[half+i])
	}
	power := hashBaseHalf
	if len(block) != blockBytes {
		power = hashPower(half)
	}
	hash := front*power + back
	if half*2 < len(block) {
		hash = hash*base + uint64(block[half*2])
	}
	return hash
}

// Chars is the number of characters that begin in text, as the package counts
// them: all bytes but UTF-8 continuations.
func Chars(text []byte) int { return leads(text) }

// leads counts the characters that begin in text: all bytes but continuations.
func leads(text []byte) int {
	count := len(text)
	for len(text) >= 32 && (binary.LittleEndian.Uint64(text)|binary.LittleEndian.Uint64(text[8:])|
		binary.LittleEndian.Uint64(text[16:])|binary.LittleEndian.Uint64(text[24:]))&highBits == 0 {
		text = text[32:] // ASCII
	}
	for len(text) >= 8 {
		word := binary.LittleEndian.Uint64(text)
		count -= bits.OnesCount64(word >> 7 &^ (word >> 6) & 0x0101010101010101)
		text = text[8:]
	}
	for _, c := range text {
		if isContinuation(c) {
			count--
		}
	}
	return count
}

func isContinuation(c byte) bool { return c&0xC0 == 0x80 }

// matching counts how many bytes of text, from the front, equal those of other,
// which is as long.
func matching(text, other []byte) int {
	n := 0
	for len(text)-n >= 8 {
		diff := binary.LittleEndian.Uint64(text[n:]) ^ binary.LittleEndian.Uint64(other[n:])
		if diff != 0 {
			return n + bits.TrailingZeros64(diff)/8
		}
		n += 8
	}
	for n < len(text) && text[n] == other[n] {
		n++
	}
	return n
}

// matchingBack is matching from the back.
func matchingBack(text, other []byte) int {
	n := 0
	for len(text)-n >= 8 {
		a, b := text[:len(text)-n], other[:len(other)-n]
		diff := binary.LittleEndian.Uint64(a[len(a)-8:]) ^ binary.LittleEndian.Uint64(b[len(b)-8:])
		if diff != 0 {
			return n + bits.LeadingZeros64(diff)/8
		}
		n += 8
	}
	for n < len(text) && text[len(text)-1-n] == other[len(other)-1-n] {
		n++
	}
	return n
}
