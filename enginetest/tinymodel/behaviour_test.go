package tinymodel

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// ggufFile is a GGUF file as read by rules of its own, not by the writer's.
type ggufFile struct {
	meta    map[string]any
	tensors map[string]ggufTensor
}

type ggufTensor struct {
	dims []uint64
	data []float64
}

func parseGGUF(t *testing.T, b []byte) ggufFile {
	t.Helper()
	pos := 0
	take := func(n int) []byte {
		if pos+n > len(b) {
			t.Fatalf("GGUF ends at %d, reading %d bytes at %d", len(b), n, pos)
		}
		pos += n
		return b[pos-n : pos]
	}
	u32 := func() uint32 { return binary.LittleEndian.Uint32(take(4)) }
	u64 := func() uint64 { return binary.LittleEndian.Uint64(take(8)) }
	str := func() string { return string(take(int(u64()))) }
	var value func(kind uint32) any
	value = func(kind uint32) any {
		switch kind {
		case 4, 5:
			return u32()
		case 6:
			return math.Float32frombits(u32())
		case 7:
			return take(1)[0] != 0
		case 8:
			return str()
		case 9:
			of, n := u32(), u64()
			vs := make([]any, n)
			for i := range vs {
				vs[i] = value(of)
			}
			return vs
		}
		t.Fatalf("metadata of type %d at %d", kind, pos)
		return nil
	}
	if magic := string(take(4)); magic != "GGUF" {
		t.Fatalf("magic %q", magic)
	}
	if v := u32(); v != 3 {
		t.Fatalf("version %d", v)
	}
	tensors, entries := u64(), u64()
	f := ggufFile{map[string]any{}, map[string]ggufTensor{}}
	for range entries {
		k := str()
		f.meta[k] = value(u32())
	}
	type info struct {
		name   string
		dims   []uint64
		kind   uint32
		offset uint64
	}
	infos := make([]info, tensors)
	for i := range infos {
		in := info{name: str()}
		in.dims = make([]uint64, u32())
		for j := range in.dims {
			in.dims[j] = u64()
		}
		in.kind, in.offset = u32(), u64()
		infos[i] = in
	}
	base := (pos + 31) / 32 * 32
	for _, in := range infos {
		if in.offset%32 != 0 {
			t.Errorf("%s starts at %d, not a multiple of 32", in.name, in.offset)
		}
		pos = base + int(in.offset)
		n := uint64(1)
		for _, d := range in.dims {
			n *= d
		}
		data := make([]float64, n)
		for i := range data {
			if in.kind == 0 {
				data[i] = float64(math.Float32frombits(u32()))
			} else {
				data[i] = fromHalf(binary.LittleEndian.Uint16(take(2)))
			}
		}
		f.tensors[in.name] = ggufTensor{in.dims, data}
	}
	if rest := len(b) - pos; rest < 0 || rest > 31 {
		t.Errorf("%d bytes after the last tensor", rest)
	}
	return f
}

func fromHalf(h uint16) float64 {
	if h == 0 {
		return 0
	}
	return math.Ldexp(1+float64(h&0x3ff)/1024, int(h>>10&31)-15)
}

func TestGGUFHeader(t *testing.T) {
	f := parseGGUF(t, Loop().GGUF())
	for k, want := range map[string]any{
		"general.architecture":                   "llama",
		"general.name":                           "tiny-loop",
		"llama.vocab_size":                       uint32(1424),
		"llama.context_length":                   uint32(131072),
		"llama.embedding_length":                 uint32(512),
		"llama.feed_forward_length":              uint32(64),
		"llama.attention.head_count":             uint32(8),
		"llama.attention.head_count_kv":          uint32(2),
		"llama.attention.layer_norm_rms_epsilon": float32(1e-6),
		"tokenizer.ggml.model":                   "gpt2",
		"tokenizer.ggml.eos_token_id":            uint32(0),
		"tokenizer.ggml.add_bos_token":           false,
	} {
		if got := f.meta[k]; got != want {
			t.Errorf("%s = %v, want %v", k, got, want)
		}
	}
	types := f.meta["tokenizer.ggml.token_type"].([]any)
	if len(types) != VocabSize || types[0] != uint32(3) || types[1] != uint32(1) {
		t.Errorf("token types: %d of them, %v, %v, …", len(types), types[0], types[1])
	}
	if n := len(f.meta["tokenizer.ggml.tokens"].([]any)); n != VocabSize {
		t.Errorf("%d tokens", n)
	}
	if n := len(f.meta["tokenizer.ggml.merges"].([]any)); n != VocabSize-257 {
		t.Errorf("%d merges, want one for each token that is neither a byte nor the end", n)
	}
	if got := f.tensors["token_embd.weight"].dims; !slices.Equal(got, []uint64{512, 1424}) {
		t.Errorf("embedding of dimensions %v", got)
	}
	for _, name := range []string{"blk.0.attn_output.weight", "blk.0.ffn_down.weight"} {
		for _, x := range f.tensors[name].data {
			if x != 0 {
				t.Fatalf("%s adds to the residual", name)
			}
		}
	}
}

// oracle computes what follows a token from the bytes of the GGUF file.
type oracle struct {
	v          *vocab
	embed, out []float64
}

func newOracle(t *testing.T) oracle {
	f := parseGGUF(t, Loop().GGUF())
	return oracle{newVocab(), f.tensors["token_embd.weight"].data, f.tensors["output.weight"].data}
}

// next returns the chance of each successor of a token at temperature 1.
func (o oracle) next(token int) []float64 {
	x := o.embed[token*dim : (token+1)*dim]
	square := 0.0
	for _, v := range x {
		square += v * v
	}
	scale := 1 / math.Sqrt(square/dim+normEps)
	var set []int
	for d, v := range x {
		if v != 0 {
			set = append(set, d)
		}
	}
	p := make([]float64, VocabSize)
	sum := 0.0
	for t := range p {
		logit := 0.0
		for _, d := range set {
			logit += x[d] * scale * o.out[t*dim+d]
		}
		p[t] = math.Exp(logit)
		sum += p[t]
	}
	for t := range p {
		p[t] /= sum
	}
	return p
}

func (o oracle) greedy(token int) int {
	p := o.next(token)
	return slices.Index(p, slices.Max(p))
}

func TestSureBehaviours(t *testing.T) {
	o := newOracle(t)
	var emoji []string
	for _, b := range []byte(EmojiText) {
		emoji = append(emoji, o.v.byteOf[b])
	}
	spaced := func(words []string) (r []string) {
		for _, w := range words {
			r = append(r, "Ġ"+w)
		}
		return r
	}
	for _, c := range []struct {
		mode string
		says []string
		then string // what follows the last of says
	}{
		{"loop", spaced(LoopWords), "Ġthe"},
		{"stutter", []string{"Ġha"}, "Ġha"},
		{"longloop", spaced(LongLoopWords), "Ġ" + LongLoopWords[0]},
		{"emoji", emoji, emoji[0]},
		{"story", spaced(StoryWords), eosText},
	} {
		at := o.v.word(c.mode)
		for i, want := range append(c.says, c.then) {
			p := o.next(at)
			at = slices.Index(p, slices.Max(p))
			if o.v.tokens[at] != want || p[at] < 1-1e-8 {
				t.Fatalf("%s: token %d is %q with chance %v, want %q", c.mode, i, o.v.tokens[at], p[at], want)
			}
		}
	}
}

func TestEndless(t *testing.T) {
	o := newOracle(t)
	// A prompt that ends with anything else: a random word, a byte, a fragment,
	// and the end token, which ignore_eos makes the engine go on from.
	for _, start := range []int{o.v.word(RandomWords[0]), o.v.ids["."], o.v.ids["Ġlo"], eos} {
		p := o.next(start)
		inside := 0.0
		for _, w := range RandomWords {
			q := p[o.v.word(w)]
			if q < 1.0/250 || q > 1.0/100 {
				t.Fatalf("after %q: %q has chance %v", o.v.tokens[start], w, q)
			}
			inside += q
		}
		if 1-inside > 1e-5 {
			t.Errorf("after %q: chance %v to leave the random words", o.v.tokens[start], 1-inside)
		}
		if p[eos] > 1e-10 {
			t.Errorf("after %q: chance %v to end", o.v.tokens[start], p[eos])
		}
	}
	first := o.v.word(RandomWords[0])
	seen := map[int]bool{}
	for at := first; !seen[at]; at = o.greedy(at) {
		seen[at] = true
	}
	if len(seen) != 200 {
		t.Errorf("greedy sampling repeats after %d words, want 200", len(seen))
	}
}

// The chance must be right without samplers, and must not vanish under those
// that an engine applies by default.
func TestDriftFallsIntoTheLoop(t *testing.T) {
	o := newOracle(t)
	none := func(p []float64) []float64 { return p }
	for _, c := range []struct {
		name     string
		sampler  func([]float64) []float64
		min, max float64 // tokens until the loop, on average
	}{
		{"vLLM", none, 148, 152},
		{"llama.cpp", llamaSampler, 120, 152},
	} {
		// Expected steps to reach the loop's first word from each word: the
		// fixed point of E = 1 + P·E.
		words := append([]int{o.v.word("drift")}, o.v.words(DriftWords)...)
		goal := o.v.word(LoopWords[0])
		rows := make([][]float64, len(words))
		for i, w := range words {
			rows[i] = c.sampler(o.next(w))
		}
		steps := make([]float64, len(words))
		for range 3000 { // the error falls by e every 150
			for i, row := range rows {
				e := 1.0
				for j, w := range words {
					e += row[w] * steps[j]
				}
				steps[i] = e
			}
		}
		for i, row := range rows {
			inside := row[goal]
			for _, w := range words {
				inside += row[w]
			}
			if 1-inside > 1e-6 {
				t.Errorf("%s: %q leads outside with chance %v", c.name, o.v.tokens[words[i]], 1-inside)
			}
		}
		if steps[0] < c.min || steps[0] > c.max {
			t.Errorf("%s: the loop starts after %.0f tokens on average, want %v to %v", c.name, steps[0], c.min, c.max)
		}
		t.Logf("%s: the loop starts after %.1f tokens on average", c.name, steps[0])
	}
}

// llamaSampler applies llama-server's defaults, in its order: top-k 40, top-p
// 0.95, min-p 0.05, temperature 0.8.
func llamaSampler(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] > p[b]:
			return -1
		case p[a] < p[b]:
			return 1
		}
		return 0
	})
	kept, sum := 0, 0.0
	for kept < 40 && sum < 0.95 {
		sum += p[order[kept]]
		kept++
	}
	q := make([]float64, len(p))
	total := 0.0
	for _, t := range order[:kept] {
		if p[t] >= 0.05*p[order[0]] {
			q[t] = math.Pow(p[t], 1/0.8)
			total += q[t]
		}
	}
	for t := range q {
		q[t] /= total
	}
	return q
}
