package detect

import "unicode/utf8"

// The near and counter signals read the text as tokens: words with case folded,
// numbers, single characters of scripts written without spaces, single signs.
// White space only separates. Classes go by the first byte of a character
// alone, which tells scripts apart well enough and needs no decoding.

type tokenKind uint8

const (
	noToken tokenKind = iota
	wordToken
	numberToken
	ideograph // a character of its own: Han, Kana
	signToken
)

// maxTokenBytes cuts what is written without any separator.
const maxTokenBytes = 24

// byteKinds gives the kind of token that a byte begins or goes on with.
// Continuation bytes belong to the token before them and are noToken, as is
// white space.
var byteKinds = makeByteKinds()

func makeByteKinds() (kinds [256]tokenKind) {
	for c := range kinds {
		switch {
		case c <= ' ' || c == 0x7f:
		case c >= '0' && c <= '9':
			kinds[c] = numberToken
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			kinds[c] = wordToken
		case c < 0xC3: // ASCII signs, and those of Latin-1 under C2
			if c < 0x80 || c >= 0xC0 {
				kinds[c] = signToken
			}
		case c == 0xE2 || c >= 0xEE: // General Punctuation to Braille; private, full width, emoji
			kinds[c] = signToken
		case c >= 0xE3 && c <= 0xE9: // U+3000 to U+9FFF
			kinds[c] = ideograph
		default: // letters of all other scripts, Hangul among them
			kinds[c] = wordToken
		}
	}
	return kinds
}

// token is one token, or as much of it as has come.
type token struct {
	kind  tokenKind
	hash  uint32
	size  int
	value uint32 // of a number: its first nine digits
}

const tokenPrime = 0x01000193

func (t *token) add(c byte) {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	t.hash = (t.hash ^ uint32(c)) * tokenPrime
	if t.kind == numberToken && t.size < 9 {
		t.value = t.value*10 + uint32(c-'0')
	}
	t.size++
}

// read goes through the text (from, to] and takes every token that is over. The
// last one may go on behind it.
func (n *novelty) read(h *history, from, to int) {
	t := n.open
	for i, c := range h.at(from, to) {
		kind := byteKinds[c]
		if t.goesOn(c, kind) {
			t.add(c)
			continue
		}
		if t.kind != noToken {
			n.token(h, t, from+i)
		}
		t = token{kind: kind}
		if kind != noToken {
			t.add(c)
		}
	}
	n.open = t
}

func (t *token) goesOn(c byte, kind tokenKind) bool {
	if isContinuation(c) {
		return t.kind != noToken && t.size < maxTokenBytes+utf8.UTFMax
	}
	return kind == t.kind && t.size < maxTokenBytes && (kind == wordToken || kind == numberToken)
}
