package sim

import (
	_ "embed"
	"math"
	"math/rand/v2"
	"strings"
)

//go:embed words.txt
var wordList string

// vocabulary holds the texts of the generated tokens; a token's id is its index
// plus firstID. Each entry is exactly one token for the words Tokenizer.
var vocabulary = buildVocabulary()

const (
	firstID  = 256
	idStop   = 0 // " word" entries follow the marks
	idComma  = 1
	idBreak  = 2
	numMarks = 3
)

func buildVocabulary() []string {
	words := strings.Fields(wordList)
	v := make([]string, 0, numMarks+2*len(words))
	v = append(v, ".", ",", "\n")
	for _, w := range words {
		v = append(v, " "+w)
	}
	for _, w := range words {
		v = append(v, " "+strings.ToUpper(w[:1])+w[1:])
	}
	return v
}

// prose is the endless text of one choice: sentences of random words, and from
// loopAt tokens on one phrase again and again. It is a pure function of its seed.
type prose struct {
	rng      *rand.Rand
	sentence int // words left; 0 = a new one begins, -1 = a new paragraph
	done     int // tokens made
	chars    int
	last     int // token made last
	loopAt   int // tokens; -1 = never
	period   int // tokens of the phrase
	phrase   []int
	cycle    int // characters of the phrase
}

func newProse(seed uint64) *prose {
	return &prose{rng: rand.New(rand.NewPCG(seed, 0x5eed)), loopAt: -1}
}

// loop makes the text repeat a phrase of period tokens from onset tokens on.
func (p *prose) loop(onset, period int) { p.loopAt, p.period = onset, period }

// looping reports whether the next token is part of the loop.
func (p *prose) looping() bool { return p.loopAt >= 0 && p.done >= p.loopAt }

// next returns the index of the next token in the vocabulary.
func (p *prose) next() int {
	var t int
	switch {
	case !p.looping():
		t = p.word()
	default:
		if p.phrase == nil {
			p.compose()
		}
		t = p.phrase[(p.done-p.loopAt)%len(p.phrase)]
	}
	p.done++
	p.chars += len(vocabulary[t])
	p.last = t
	return t
}

// compose makes the phrase. Its last letter differs from the one before the
// loop, else the text would rightly be seen to repeat from a little earlier.
func (p *prose) compose() {
	q := newProse(p.rng.Uint64())
	for range p.period {
		p.phrase = append(p.phrase, q.word())
	}
	for ending(p.phrase[p.period-1]) == ending(p.last) {
		p.phrase[p.period-1] = q.word()
	}
	for _, t := range p.phrase {
		p.cycle += len(vocabulary[t])
	}
}

func ending(t int) byte { return vocabulary[t][len(vocabulary[t])-1] }

func (p *prose) word() int {
	words := (len(vocabulary) - numMarks) / 2
	w := numMarks + p.rng.IntN(words)
	switch p.sentence {
	case -1:
		p.sentence = 0
		return idBreak
	case 0:
		p.sentence = 6 + p.rng.IntN(14)
		return w + words // capital
	case 1:
		p.sentence = 0
		if p.rng.IntN(5) == 0 {
			p.sentence = -1
		}
		return idStop
	}
	p.sentence--
	if p.sentence > 2 && p.rng.IntN(11) == 0 {
		return idComma
	}
	return w
}

// draw returns a length of the distribution, at least 1.
func (l Lengths) draw(rng *rand.Rand) int {
	if l.Median == 0 {
		return math.MaxInt
	}
	return max(1, int(math.Round(l.Median*math.Exp(l.Sigma*rng.NormFloat64()))))
}
