package tinymodel

import "math"

// The shape of the network. Nothing but the embedding and the output matrix does
// any work; the rest is there because the engines expect a Llama.
const (
	dim     = 512
	heads   = 8
	kvHeads = 2
	headDim = dim / heads
	ffDim   = 64
	normEps = 1e-6
)

// Model is a one-layer Llama whose next token depends on the last one only.
type Model struct {
	Name  string
	vocab *vocab
	embed []float32 // VocabSize rows of dim
	out   []float32 // VocabSize rows of dim
	used  int       // dimensions given out
}

// A sure successor stands 30 above the other tokens in the logits, one of several
// 20: after the softmax all others together have less than 1e-5.
const (
	sureLogit   = 30
	choiceLogit = 20
)

// Loop returns the programmable model "tiny-loop" of the package comment.
func Loop() *Model {
	v := newVocab()
	m := &Model{
		Name: "tiny-loop", vocab: v,
		embed: make([]float32, VocabSize*dim), out: make([]float32, VocabSize*dim),
	}
	loop := v.words(LoopWords)
	m.chain(loop, loop[0])
	m.chain([]int{v.word(StutterWord)}, v.word(StutterWord))
	long := v.words(LongLoopWords)
	m.chain(long, long[0])
	var emoji []int
	for _, b := range []byte(EmojiText) {
		emoji = append(emoji, v.ids[v.byteOf[b]])
	}
	m.chain(emoji, emoji[0])
	story := v.words(StoryWords)
	m.chain(story, eos)
	for _, c := range []struct {
		mode  string
		first int
	}{
		{"loop", loop[0]}, {"stutter", v.word(StutterWord)}, {"longloop", long[0]}, {"emoji", emoji[0]}, {"story", story[0]},
	} {
		m.chain([]int{v.word(c.mode)}, c.first)
	}
	m.drift(v.word("drift"), v.words(DriftWords), loop[0])
	m.random(v.words(RandomWords))
	return m
}

func (m *Model) newDim() int {
	if m.used == dim {
		panic("tinymodel: dim is too small for so many behaviours")
	}
	m.used++
	return m.used - 1
}

func (m *Model) mark(token, d int) { m.embed[token*dim+d] = 1 }

// favour adds logit to token's score when the last token has marks dimensions
// set, d among them. The final norm scales a vector of k ones to sqrt(dim/k).
func (m *Model) favour(token, d int, logit float64, marks int) {
	m.out[token*dim+d] += float32(logit / math.Sqrt(float64(dim)/float64(marks)))
}

// chain makes each token lead to the next, and the last one to then.
func (m *Model) chain(tokens []int, then int) {
	for i, t := range tokens {
		d := m.newDim()
		m.mark(t, d)
		next := then
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		m.favour(next, d, sureLogit, 1)
	}
}

// random makes words follow each other by chance, and any token without a
// behaviour yet lead to one of them. Each word has one successor whose odds are
// 1 in 121 instead of 1 in 200, so that greedy sampling, which needs a winner,
// walks through all of them before it repeats.
func (m *Model) random(words []int) {
	class := m.newDim()
	for i, w := range words {
		own := m.newDim()
		m.mark(w, class)
		m.mark(w, own)
		m.favour(w, class, choiceLogit, 2)
		// 20 has every prime factor of 200, and 4: one cycle through all.
		m.favour(words[(21*i+7)%len(words)], own, 0.5, 2)
	}
	for t := range VocabSize {
		marked := false
		for _, x := range m.embed[t*dim : (t+1)*dim] {
			marked = marked || x != 0
		}
		if !marked {
			m.mark(t, class)
		}
	}
}

// gateOdds is the weight of a gate word against an ordinary one. It puts the loop
// 150 tokens away on average, and gates at the head of the order, where samplers
// such as top-p do not cut them off. One rare successor would be cut.
const gateOdds = 1.32

// drift makes words follow each other at random until two gates in a row come
// up: the first is one of the last two of 39 words, the second one of 12.
func (m *Model) drift(mode int, words []int, loop int) {
	n := len(words)
	ordinary, first, second := words[:n-3], words[n-3:n-1], words[n-1]
	class, open := m.newDim(), m.newDim()
	m.mark(mode, class)
	for _, w := range ordinary {
		m.mark(w, class)
		m.favour(w, class, choiceLogit, 1)
	}
	for _, w := range first {
		m.favour(w, class, choiceLogit+math.Log(gateOdds), 1)
		m.mark(w, open)
	}
	for _, w := range ordinary[:11] {
		m.favour(w, open, choiceLogit, 1)
	}
	m.favour(second, open, choiceLogit+math.Log(gateOdds), 1)
	m.chain([]int{second}, loop)
}
