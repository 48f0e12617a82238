package detect

import (
	"encoding/binary"
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

// read goes through the text (from, to] and takes every token that is over. The
// last one may go on behind it.
func (n *novelty) read(h *history, from, to int) {
	open, start := n.open, n.openAt
	for i, c := range h.at(from, to) {
		kind := byteKinds[c]
		size := from + i - start
		if kind == open && (kind == noToken || kind <= numberToken && size < maxTokenBytes) {
			continue
		}
		if kind == inside && size < maxTokenBytes+utf8.UTFMax {
			continue
		}
		if open != noToken {
			n.token(h, open, start, from+i)
		}
		open, start = kind, from+i
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
	for i := 0; i < min(len(text), 9); i++ {
		value = value*10 + uint32(text[i]&0xF)
	}
	return value
}
