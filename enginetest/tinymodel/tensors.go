package tinymodel

import (
	"encoding/binary"
	"math"
)

// tensor is one weight under both of its names. Rows is 0 for a vector. Data is
// nil for a matrix of zeros.
type tensor struct {
	gguf, hf   string
	rows, cols int
	data       []float32
}

func (t tensor) len() int { return max(t.rows, 1) * t.cols }

func (t tensor) at(i int) float32 {
	if t.data == nil {
		return 0
	}
	return t.data[i]
}

func (m *Model) tensors() []tensor {
	ones := make([]float32, dim)
	for i := range ones {
		ones[i] = 1
	}
	return []tensor{
		{"token_embd.weight", "model.embed_tokens.weight", VocabSize, dim, m.embed},
		{"output_norm.weight", "model.norm.weight", 0, dim, ones},
		{"output.weight", "lm_head.weight", VocabSize, dim, m.out},
		{"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight", 0, dim, ones},
		{"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight", heads * headDim, dim, nil},
		{"blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight", kvHeads * headDim, dim, nil},
		{"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight", kvHeads * headDim, dim, nil},
		{"blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight", dim, heads * headDim, nil},
		{"blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight", 0, dim, ones},
		{"blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight", ffDim, dim, nil},
		{"blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight", ffDim, dim, nil},
		{"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight", dim, ffDim, nil},
	}
}

// chatTemplate puts a space before each message and nothing after it, so that
// the last word of the last message is the last token, whole. A message of parts
// counts by its first. Trim forgives a newline at the end of a prompt file.
const chatTemplate = "{% for m in messages %} {{ (m['content'] if m['content'] is string else m['content'][0]['text']) | trim }}{% endfor %}"

func appendF32(b []byte, x float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
}

// half rounds to IEEE 754 binary16, ties to even. The weights lie between 2^-14
// and 2^15, where neither subnormals nor overflow arise; half panics elsewhere.
func half(x float32) uint16 {
	if x == 0 {
		return 0
	}
	bits := math.Float32bits(x)
	exp := int(bits>>23&0xff) - 127
	if exp < -14 || exp > 14 {
		panic("tinymodel: weight out of the range of half")
	}
	mant := bits & 0x7fffff
	h := uint32(exp+15)<<10 | mant>>13
	if rest := mant & 0x1fff; rest > 0x1000 || rest == 0x1000 && h&1 == 1 {
		h++ // a carry into the exponent is the right result
	}
	return uint16(bits>>16&0x8000 | h)
}
