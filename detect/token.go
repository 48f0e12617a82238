package detect

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The near and counter signals read the text as tokens: words with case folded,
// numbers, single characters of scripts written without spaces, single signs.
// White space only separates. Classes go by the first byte of a character
// alone, which tells scripts apart well enough and needs no decoding.

type tokenKind uint8

const (
	noToken tokenKind = iota // white space
	wordToken
	numberToken
	ideograph // a character of its own: Han, Kana
	signToken
	inside // a continuation byte: goes on with whatever it follows
)

// maxTokenBytes cuts what is written without any separator.
const maxTokenBytes = 24

// byteKinds gives the kind of token that a byte begins or goes on with.
var byteKinds = makeByteKinds()

func makeByteKinds() (kinds [256]tokenKind) {
	for c := range kinds {
		switch {
		case c <= ' ' || c == 0x7f:
			kinds[c] = noToken
		case c >= '0' && c <= '9':
			kinds[c] = numberToken
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			kinds[c] = wordToken
		case c < 0x80:
			kinds[c] = signToken
		case c < 0xC0:
			kinds[c] = inside
		case c <= 0xC2 || c == 0xE2 || c >= 0xEE: // Latin-1 signs, General Punctuation to Braille, full width, emoji
			kinds[c] = signToken
		case c >= 0xE3 && c <= 0xE9: // U+3000 to U+9FFF
			kinds[c] = ideograph
		default: // letters of all other scripts, Hangul among them
			kinds[c] = wordToken
		}
	}
	return kinds
}

// token is one token of the text.
type token struct {
	kind tokenKind
	size int
	hash uint32 // of a number: the same for all, since only its value counts
}

// byteMasks sort the bytes of a block, a bit a byte from the lowest on: letters,
// digits and white space of ASCII, first and further bytes of other characters.
// The signs of ASCII are in none.
type byteMasks struct{ letter, digit, white, lead, inside uint64 }

const (
	eachByte = 0x0101010101010101
	highBits = 0x80 * eachByte
)

// masksOf sorts a block of at most 64 bytes, eight at a time: below 0x80 the sum
// of a byte and 0x80 - n has its high bit set if the byte is at least n.
func masksOf(block []byte) (m byteMasks) {
	for at := 0; at < len(block); at += 8 {
		var x uint64
		if rest := block[at:]; len(rest) >= 8 {
			x = binary.LittleEndian.Uint64(rest)
		} else {
			for i, c := range rest {
				x |= uint64(c) << (8 * i)
			}
		}
		low := x &^ highBits
		folded := low | 0x20*eachByte
		letter := (folded + (0x80-'a')*eachByte) &^ (folded + (0x80-'z'-1)*eachByte)
		digit := (low + (0x80-'0')*eachByte) &^ (low + (0x80-'9'-1)*eachByte)
		white := ^(low + (0x80-' '-1)*eachByte) | (low + eachByte)
		m.letter |= gatherHigh(letter&^x) << at
		m.digit |= gatherHigh(digit&^x) << at
		m.white |= gatherHigh(white&^x) << at
		if x&highBits != 0 {
			m.lead |= gatherHigh(x&(x<<1)) << at
			m.inside |= gatherHigh(x&^(x<<1)) << at
		}
	}
	return m
}

// gatherHigh collects the high bits of eight bytes.
func gatherHigh(x uint64) uint64 { return (x & highBits >> 7) * 0x0102040810204080 >> 56 }

// stops are the bytes at which a token may begin or end, but for its length:
// those that differ from the one before, and all that are no letter, digit or
// white space of ASCII. Of a character's further bytes none is one: where it
// begins a token is open, with room for them.
func (m *byteMasks) stops(size int) uint64 {
	changes := (m.letter ^ m.letter<<1) | (m.digit ^ m.digit<<1) | (m.white ^ m.white<<1)
	others := ^(m.letter | m.digit | m.white)
	second := m.inside & (m.lead << 1)
	third := m.inside & (second << 1)
	fourth := m.inside & (third << 1)
	return (changes&^m.inside | others&^(second|third|fourth) | 1) & (^uint64(0) >> (blockBytes - size))
}

// read goes through the text (from, to], at most a block, and takes every token
// that is over. The last one may go on behind it.
func (n *novelty) read(h *history, from, to int) {
	block := h.at(from, to)
	masks := masksOf(block)
	open, start := n.open, n.openAt
	for stops := masks.stops(len(block)); stops != 0; {
		i := bits.TrailingZeros64(stops)
		stops &= stops - 1
		c := block[i]
		kind := byteKinds[c]
		size := from + i - start
		if kind == inside && size < maxTokenBytes+utf8.UTFMax {
			continue
		}
		if kind != open || kind > numberToken || kind != noToken && size >= maxTokenBytes {
			if open != noToken {
				n.token(h, open, start, from+i)
			}
			open, start = kind, from+i
		}
		if c < utf8.RuneSelf && (kind == wordToken || kind == numberToken) {
			next := min(from+bits.TrailingZeros64(stops), to)
			for ; start+maxTokenBytes < next; start += maxTokenBytes {
				n.token(h, open, start, start+maxTokenBytes)
			}
		}
	}
	n.open, n.openAt = open, start
}

// hashToken mixes the bytes of a token, of which all but three are looked at
// even in the longest. Setting one bit folds the case of ASCII, and blurs other
// letters by no more than their case.
func hashToken(text []byte, fold uint64) uint32 {
	var hash uint64
	switch size := len(text); {
	case size >= 8:
		hash = (binary.LittleEndian.Uint64(text) | fold) * 0x9E3779B97F4A7C15
		if size > 16 {
			hash = (hash ^ binary.LittleEndian.Uint64(text[8:]) | fold) * 0xC2B2AE3D27D4EB4F
		}
		hash = (hash>>29 ^ binary.LittleEndian.Uint64(text[size-8:]) | fold) * 0x165667B19E3779F9
	case size >= 4:
		low := uint64(binary.LittleEndian.Uint32(text))
		high := uint64(binary.LittleEndian.Uint32(text[size-4:]))
		hash = (low | high<<32 | fold) * 0x9E3779B97F4A7C15
	default:
		// One to three bytes: first, middle and last name them all.
		hash = uint64(text[0]) | uint64(text[size/2])<<8 | uint64(text[size-1])<<16
		hash = (hash | fold) * 0x9E3779B97F4A7C15
	}
	return uint32(hash>>32) + uint32(len(text))
}

// valueOf reads a number's first nine digits.
func valueOf(text []byte) uint32 {
	var value uint32
	if len(text) >= 8 {
		// Eight digits at once: neighbours become numbers of two, of four and of
		// eight digits. What is no digit counts as its low four bits, as below.
		x := binary.LittleEndian.Uint64(text) & (0xF * eachByte)
		x = x*10 + x>>8
		x = (x&0x00FF00FF00FF00FF)*100 + x>>16&0x00FF00FF00FF00FF
		value = uint32(x&0xFFFF)*10000 + uint32(x>>32&0xFFFF)
		if len(text) == 8 {
			return value
		}
		text = text[8:9]
	}
	for _, c := range text {
		value = value*10 + uint32(c&0xF)
	}
	return value
}
