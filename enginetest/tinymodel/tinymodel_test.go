package tinymodel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Engines cache by the bytes, and captures in testdata name this model: a change
// of the files is a decision, not an accident.
func TestFilesAreTheSameEverywhere(t *testing.T) {
	m := Loop()
	files := m.hfFiles()
	files["tiny-loop.gguf"] = m.GGUF()
	golden := map[string]string{
		"tiny-loop.gguf":         "3ee698cc69438bae3a5af394f033fe3f2cdcb4c1b6d0dbcabb48f3a3bf12589c",
		"model.safetensors":      "3b8c9f2452a155ffd62644be3cb1f9f59909aa5a4edaa1e755eb26670229232b",
		"config.json":            "ef0b6471c16af1420cda94175ae6d24489d7db22d0ed03082422cc4022379b0a",
		"generation_config.json": "1d264b18bfa83a0d318e5ce33e512cd914670f1bcbb6f8ba24a34761a2cf05d7",
		"tokenizer.json":         "3a9c06b6bcf217812e17802dc478c204136d705c07e9469fbdb5c1e6ead008f4",
		"tokenizer_config.json":  "8e2bf1f66f951155161f3701cf646cad4f4f98ace5d4dab3801b256dcb051ebc",
	}
	for name, b := range files {
		sum := sha256.Sum256(b)
		if got := hex.EncodeToString(sum[:]); got != golden[name] {
			t.Errorf("SHA-256 of %s (%d bytes) is %s, want %s", name, len(b), got, golden[name])
		}
	}
	if len(files) != len(golden) {
		t.Errorf("%d files, want %d", len(files), len(golden))
	}
}

func TestVocabulary(t *testing.T) {
	v := newVocab()
	if len(v.tokens) != VocabSize || len(v.ids) != VocabSize {
		t.Errorf("%d tokens, %d of them different, want %d", len(v.tokens), len(v.ids), VocabSize)
	}
	if v.tokens[eos] != eosText {
		t.Errorf("token %d is %q, want the end token", eos, v.tokens[eos])
	}
	// The bytes that GPT-2's alphabet is known by.
	for b, want := range map[byte]string{' ': "Ġ", '\n': "Ċ", 'a': "a", 0xad: "Ń", 0xff: "ÿ"} {
		if v.byteOf[b] != want {
			t.Errorf("byte %#x is written %q, want %q", b, v.byteOf[b], want)
		}
	}
	seen := map[string]bool{}
	for _, words := range [][]string{Modes, LoopWords, {StutterWord}, RandomWords, StoryWords, LongLoopWords, DriftWords} {
		for _, w := range words {
			if seen[w] {
				t.Errorf("%q is in two behaviours", w)
			}
			seen[w] = true
			if got := v.encode(" " + w); len(got) != 1 || got[0] != v.word(w) {
				t.Errorf("%q is tokens %v, want %d alone", " "+w, got, v.word(w))
			}
		}
	}
	if n := len(seen); n != 6+8+1+200+100+60+40 {
		t.Errorf("%d words", n)
	}
}

// encode is byte-pair encoding by the book, for texts of words after one space.
func (v *vocab) encode(text string) (ids []int) {
	rank := map[string]int{}
	for i, m := range v.merges {
		rank[m] = i
	}
	for _, word := range strings.Split(text, " ")[1:] {
		parts := []string{v.byteOf[' ']}
		for i := range len(word) {
			parts = append(parts, v.byteOf[word[i]])
		}
		for {
			best, at := len(v.merges), -1
			for i := range len(parts) - 1 {
				if r, ok := rank[parts[i]+" "+parts[i+1]]; ok && r < best {
					best, at = r, i
				}
			}
			if at < 0 {
				break
			}
			parts = slices.Concat(parts[:at], []string{parts[at] + parts[at+1]}, parts[at+2:])
		}
		for _, p := range parts {
			ids = append(ids, v.ids[p])
		}
	}
	return ids
}

func TestPrompt(t *testing.T) {
	v := newVocab()
	a := Prompt(rand.New(rand.NewPCG(1, 1)), 512, "drift")
	b := Prompt(rand.New(rand.NewPCG(1, 2)), 512, "")
	for _, p := range []string{a, b} {
		if n := len(v.encode(" " + p)); n != 512 {
			t.Errorf("prompt of %d tokens, want 512", n)
		}
	}
	if !strings.HasSuffix(a, " drift") {
		t.Errorf("prompt ends with %q", a[len(a)-10:])
	}
	if strings.HasPrefix(a, strings.Fields(b)[0]) {
		t.Error("prompts of two seeds begin alike")
	}
	if same := Prompt(rand.New(rand.NewPCG(1, 1)), 512, "drift"); same != a {
		t.Error("prompts of one seed differ")
	}
}

func TestHalf(t *testing.T) {
	for _, c := range []struct {
		in   float32
		want uint16
		why  string
	}{
		{0, 0, "zero"},
		{1, 0x3c00, "one"},
		{-2, 0xc000, "sign"},
		{1 + 1.0/2048, 0x3c00, "a tie goes to the even neighbour below"},
		{1 + 3.0/2048, 0x3c02, "a tie goes to the even neighbour above"},
		{1.9999, 0x4000, "rounding up carries into the exponent"},
		{1.0 / 16384, 0x0400, "the smallest normal number"},
	} {
		if got := half(c.in); got != c.want {
			t.Errorf("half(%v) = %#04x, want %#04x: %s", c.in, got, c.want, c.why)
		}
	}
}

func TestSafetensorsLayout(t *testing.T) {
	b := Loop().Safetensors()
	n := binary.LittleEndian.Uint64(b)
	if n%8 != 0 {
		t.Errorf("header of %d bytes leaves the data unaligned", n)
	}
	var head map[string]struct {
		Dtype   string
		Shape   []int
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(b[8:8+n], &head); err != nil {
		t.Fatal(err)
	}
	delete(head, "__metadata__")
	if len(head) != 12 {
		t.Errorf("%d tensors, want 12", len(head))
	}
	var spans [][2]int
	for name, h := range head {
		size := 4
		for _, d := range h.Shape {
			size *= d
		}
		if h.Dtype != "F32" || h.Offsets[1]-h.Offsets[0] != size {
			t.Errorf("%s: %s %v in bytes %v", name, h.Dtype, h.Shape, h.Offsets)
		}
		spans = append(spans, h.Offsets)
	}
	slices.SortFunc(spans, func(a, b [2]int) int { return a[0] - b[0] })
	end := 0
	for _, s := range spans { // the format allows no holes
		if s[0] != end {
			t.Errorf("data starts at %d, want %d", s[0], end)
		}
		end = s[1]
	}
	if got := len(b) - 8 - int(n); got != end {
		t.Errorf("%d bytes of data, the header describes %d", got, end)
	}
	e := head["model.embed_tokens.weight"]
	if !slices.Equal(e.Shape, []int{VocabSize, dim}) {
		t.Errorf("embedding of shape %v", e.Shape)
	}
	// Both formats must hold the same weights, up to rounding.
	gguf := parseGGUF(t, Loop().GGUF())
	at := func(name string, i int) float64 {
		o := 8 + int(n) + head[name].Offsets[0] + 4*i
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[o:])))
	}
	for i, x := range gguf.tensors["output.weight"].data {
		if y := at("lm_head.weight", i); math.Abs(x-y) > 1e-3 {
			t.Fatalf("output weight %d is %v in GGUF and %v in safetensors", i, x, y)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	m := Loop()
	if err := m.WriteHF(filepath.Join(dir, "hf")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(path, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.WriteGGUF(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, m.GGUF()) {
		t.Error("WriteGGUF left other bytes")
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.WriteGGUF(path); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("a right file was written again (%v)", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if hidden, _ := filepath.Glob(filepath.Join(dir, ".*")); len(hidden) > 0 {
		t.Errorf("temporary files left: %v", hidden)
	}
	if len(names) != 5 {
		t.Errorf("the model folder holds %v, want 5 files", names)
	}
}
