package sim

import (
	"math"
	"unicode/utf8"
)

// Tokenizer turns text into tokens. Its zero value cuts a text into words, with
// the space before them, of at most 8 letters, digits in threes, and single
// other characters: near 5.5 characters a token in English prose.
// The other fields imitate tokenizers of another fineness.
type Tokenizer struct {
	CharsPerToken float64 // tokens = ceil(characters / this); 0 = words
	PerHan        bool    // with CharsPerToken: each character from U+2E80 on is a token of its own
	Extra         int     // tokens added to every prompt, beside the dialect's chat wrapper
}

const (
	maxWord   = 8
	maxDigits = 3
	// Prompt token ids lie above those of the generated vocabulary.
	promptIDs = 65536
	idRange   = 65536
)

// count returns how many tokens text has.
func (t Tokenizer) count(text string) int {
	n := 0
	t.each(text, func(string) { n++ })
	return n
}

// promptID is the id of a prompt's token. Equal tokens have equal ids.
func promptID(tok string) int { return promptIDs + int(hash(fnvOffset, tok)%idRange) }

// ids returns the ids of a text's tokens.
func (t Tokenizer) ids(text string) []int {
	var ids []int
	t.each(text, func(tok string) { ids = append(ids, promptID(tok)) })
	return ids
}

// each calls f with the tokens of text in order.
func (t Tokenizer) each(text string, f func(string)) {
	if t.CharsPerToken == 0 {
		for len(text) > 0 {
			n := wordLen(text)
			f(text[:n])
			text = text[n:]
		}
		return
	}
	// Characters are dealt to tokens so that after each prefix of k of them
	// ceil(k / CharsPerToken) tokens have begun.
	start, chars, begun := 0, 0, 0
	for i := 0; i < len(text); {
		r, width := utf8.DecodeRuneInString(text[i:])
		if t.PerHan && r >= 0x2E80 {
			if i > start {
				f(text[start:i])
			}
			f(text[i : i+width])
			i += width
			start, chars, begun = i, 0, 0
			continue
		}
		chars++
		if due := int(math.Ceil(float64(chars) / t.CharsPerToken)); due > begun {
			if i > start {
				f(text[start:i])
				start = i
			}
			begun = due
		}
		i += width
	}
	if start < len(text) {
		f(text[start:])
	}
}

// wordLen returns the length in bytes of the first token of s, which is not empty.
func wordLen(s string) int {
	i := 0
	if s[0] == ' ' && len(s) > 1 && (letter(s[1]) || digit(s[1])) {
		i = 1
	}
	switch {
	case letter(s[i]):
		end := min(len(s), i+maxWord)
		for i < end && letter(s[i]) {
			i++
		}
		return i
	case digit(s[i]):
		end := min(len(s), i+maxDigits)
		for i < end && digit(s[i]) {
			i++
		}
		return i
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

// hash continues an FNV-1a hash with s.
func hash(h uint64, s string) uint64 {
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// blocks returns, for a prompt, its number of tokens and for each whole block
// the hash of all text up to the block's end: equal hashes mean equal prefixes.
// Extra tokens count as standing behind the text.
func (t Tokenizer) blocks(text string, size int) (tokens int, prefixes []uint64) {
	h := fnvOffset
	t.each(text, func(tok string) {
		h = hash(h, tok)
		if tokens++; tokens%size == 0 {
			prefixes = append(prefixes, h^uint64(tokens))
		}
	})
	return tokens + t.Extra, prefixes
}
