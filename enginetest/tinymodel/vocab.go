package tinymodel

import (
	"math/rand/v2"
	"strings"
)

const (
	// VocabSize is the number of tokens, ContextLen the longest sequence that the
	// model says it was trained for.
	VocabSize  = 1424
	ContextLen = 131072

	eosText = "<|endoftext|>"
	eos     = 0
)

// Modes are the words which, at the end of a prompt, pick a behaviour.
var Modes = []string{"loop", "stutter", "longloop", "emoji", "story", "drift"}

// LoopWords is what "loop" repeats, and what "drift" falls into.
var LoopWords = strings.Fields("the quick brown fox jumps over lazy dogs")

// StutterWord is what "stutter" repeats.
const StutterWord = "ha"

// EmojiText is what "emoji" repeats, one byte a token.
const EmojiText = "é漢😀\n"

// Words that the model says in its other modes.
var (
	RandomWords   = inventWords(0, 200)   // endless
	StoryWords    = inventWords(200, 100) // once each
	LongLoopWords = inventWords(300, 60)
	DriftWords    = inventWords(360, 40) // until the loop
)

// inventWords returns n pronounceable words, the ones from number first on of a
// fixed walk through all pairs of 70 syllables. No two are equal.
func inventWords(first, n int) []string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	syllable := func(i int) string {
		return consonants[i/len(vowels):][:1] + vowels[i%len(vowels):][:1]
	}
	const all = len(consonants) * len(vowels)
	words := make([]string, n)
	for i := range words {
		// A full-period linear congruence by index: 1960 has every prime
		// factor of 4900, and 4.
		x := first + i
		pair := 1237
		for range x {
			pair = (1961*pair + 1237) % (all * all)
		}
		words[i] = syllable(pair/all) + syllable(pair%all)
		if x%3 == 0 {
			words[i] += syllable(pair % 31)
		}
	}
	return words
}

// vocab is a byte-level BPE vocabulary in GPT-2's spelling.
type vocab struct {
	tokens []string // by id: the end token, 256 bytes, then pieces of words
	ids    map[string]int
	merges []string // "left right", in order of rank
	byteOf [256]string
}

func newVocab() *vocab {
	v := &vocab{ids: map[string]int{}}
	v.add(eosText)
	spare := 0
	for b := range 256 {
		// GPT-2 writes bytes that print as themselves, and the others as the
		// letters from U+0100 on.
		r := rune(b)
		printable := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
		if !printable {
			r = rune(256 + spare)
			spare++
		}
		v.byteOf[b] = string(r)
		v.add(v.byteOf[b])
	}
	for _, words := range [][]string{Modes, LoopWords, {StutterWord}, RandomWords, StoryWords, LongLoopWords, DriftWords} {
		for _, w := range words {
			v.addWord(w)
		}
	}
	// Words of no behaviour fill the rest, so that the size does not follow from
	// the choice of words.
	for i := 400; len(v.tokens) < VocabSize; i++ {
		v.addWord(inventWords(i, 1)[0])
	}
	return v
}

func (v *vocab) add(token string) {
	v.ids[token] = len(v.tokens)
	v.tokens = append(v.tokens, token)
}

// addWord makes " word" one token. BPE gets there letter by letter, so each of
// its beginnings becomes a token too.
func (v *vocab) addWord(word string) {
	piece := v.byteOf[' ']
	for i := range len(word) {
		longer := piece + word[i:i+1]
		if _, ok := v.ids[longer]; !ok {
			if len(v.tokens) == VocabSize {
				return
			}
			v.add(longer)
			v.merges = append(v.merges, piece+" "+word[i:i+1])
		}
		piece = longer
	}
}

// word returns the id of " w", which must have been added.
func (v *vocab) word(w string) int {
	id, ok := v.ids[v.byteOf[' ']+w]
	if !ok {
		panic("tinymodel: not in the vocabulary: " + w)
	}
	return id
}

func (v *vocab) words(ws []string) []int {
	ids := make([]int, len(ws))
	for i, w := range ws {
		ids[i] = v.word(w)
	}
	return ids
}

// Prompt returns a text of exactly n tokens of this vocabulary, as the only
// message of a chat, that ends with last: a mode, or "" for endless random
// words. Prompts of different r share no beginning, so no prompt cache helps.
func Prompt(r *rand.Rand, n int, last string) string {
	words := make([]string, n)
	for i := range words {
		words[i] = RandomWords[r.IntN(len(RandomWords))]
	}
	if last != "" && n > 0 {
		words[n-1] = last
	}
	return strings.Join(words, " ")
}
