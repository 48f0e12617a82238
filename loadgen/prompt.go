package loadgen

import (
	_ "embed"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// words.txt holds common English words, one a line. Prompts are made of them:
// varied text tokenises like text, and no paragraph comes round again.
//
//go:embed words.txt
var wordFile string

// lexicon is the word list; short holds its words of five letters, of which
// salts and tails are made.
var lexicon, short = splitWords(wordFile)

func splitWords(file string) (all, five []string) {
	all = strings.Fields(file)
	for _, w := range all {
		if len(w) == 5 {
			five = append(five, w)
		}
	}
	return all, five
}

// Salts and tails of a run are the same words in different orders: a tokeniser
// that cuts at spaces gives each order as many tokens (but for a salt's first
// word, which has no space before it), so a prompt whose length was counted once
// keeps it when they change. Different words do not: a tokeniser that knows none
// of them gave prompts of 512 ± 19 tokens.
const (
	saltWords = 16 // 16! > 2^44 orders
	tailWords = 20 // 20! > 2^61
)

// prompts makes the prompts of a run. The same seed and salt give the same texts.
type prompts struct {
	seed uint64
	salt string
	ask  string
	text contextText

	salts, tails []string // the words that are put in order
}

func newPrompts(seed uint64, salt, ask string) *prompts {
	p := &prompts{seed: seed, salt: salt, ask: ask}
	p.text.rng = p.rng("text")
	words := p.rng("words").Perm(len(short))
	for i := range saltWords {
		p.salts = append(p.salts, short[words[i]])
	}
	for i := range tailWords {
		p.tails = append(p.tails, short[words[saltWords+i]])
	}
	return p
}

// rng returns a generator of its own for a purpose.
func (p *prompts) rng(purpose string, at ...int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(purpose))
	for _, n := range at {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	return rand.New(rand.NewPCG(p.seed, h.Sum64()))
}

// head is the part of a prompt before its tail: a salt at position 0 and words
// of context text. Generations differ in their salt and in the sentence that
// the text begins with, not in its words, so they have the same length.
func (p *prompts) head(words, context, generation int) string {
	h := fnv.New64a()
	h.Write([]byte(p.salt))
	r := p.rng("salt", context, generation, int(h.Sum64()))
	var b strings.Builder
	for i, n := range r.Perm(len(p.salts)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.salts[n])
	}
	b.WriteString(".\n\n")
	if words > 0 {
		p.text.rotated(&b, words, r.Uint64())
		b.WriteString("\n\n")
	}
	return b.String()
}

// tail is what differs between the streams that share a head: it stands right
// before the ask, is of one length, and needs no escaping in JSON.
func (p *prompts) tail(context, concurrency, repeat, slot, seq int) string {
	r := p.rng("tail", context, concurrency, repeat, slot, seq)
	b := make([]byte, 0, 16+tailWords*6)
	b = append(b, "Keep in mind:"...)
	for _, n := range r.Perm(len(p.tails)) {
		b = append(b, ' ')
		b = append(b, p.tails[n]...)
	}
	return string(append(b, ". "...))
}

// primeTail is the tail of one-token requests that only fill a cache.
func (p *prompts) primeTail(context, n int) string { return p.tail(context, -1, 0, n, 0) }

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// contextText is an endless text of sentences of random words, grown on demand;
// its first n words are the same whatever was asked before.
type contextText struct {
	rng       *rand.Rand
	text      []byte
	ends      []int // offset behind each word, its punctuation included
	sentences []int // number of the first word of each sentence
	left      int   // words left in the current sentence
}

// grow makes the text at least n words long.
func (t *contextText) grow(n int) {
	for len(t.ends) < n {
		w := pick(t.rng, lexicon)
		if t.left == 0 {
			t.sentences = append(t.sentences, len(t.ends))
			t.left = 5 + t.rng.IntN(12)
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		if len(t.text) > 0 {
			t.text = append(t.text, ' ')
		}
		t.text = append(t.text, w...)
		if t.left--; t.left == 0 {
			t.text = append(t.text, '.')
		}
		t.ends = append(t.ends, len(t.text))
	}
}

// rotated appends the first n words, beginning with a sentence chosen by turn
// and going on from the front where they end.
func (t *contextText) rotated(b *strings.Builder, n int, turn uint64) {
	t.grow(n)
	end := t.ends[n-1]
	count := 0
	for count < len(t.sentences) && t.sentences[count] < n {
		count++
	}
	cut := 0
	if first := t.sentences[turn%uint64(count)]; first > 0 {
		cut = t.ends[first-1]
	}
	b.Grow(end + 2)
	b.Write(t.text[min(cut+sign(cut), end):end])
	if cut > 0 {
		b.WriteByte(' ')
		b.Write(t.text[:cut])
	}
}

// sign is 1 behind a word, where a space has to be skipped, and 0 at the front.
func sign(n int) int { return min(n, 1) }
