package tinymodel

import (
	"encoding/binary"
	"math"
)

// GGUF's numbers for the types of metadata values and of tensors.
const (
	ggufU32, ggufI32, ggufF32, ggufBool, ggufString, ggufArray = 4, 5, 6, 7, 8, 9

	ggufTensorF32, ggufTensorF16 = 0, 1

	ggufAlign = 32
)

// GGUF returns the model as a GGUF file, version 3, with matrices in half
// precision.
//
// The file is: "GGUF", version (u32), number of tensors (u64), number of metadata
// entries (u64), the entries, one description per tensor, and the data. The data
// as a whole and each tensor in it start at a multiple of 32 bytes.
func (m *Model) GGUF() []byte {
	kv, n := m.ggufMetadata()
	tensors := m.tensors()
	b := append([]byte(nil), "GGUF"...)
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, n)
	b = append(b, kv...)

	var data []byte
	for _, t := range tensors {
		b = appendGGUFString(b, t.gguf)
		if t.rows == 0 {
			b = binary.LittleEndian.AppendUint32(b, 1)
			b = binary.LittleEndian.AppendUint64(b, uint64(t.cols))
		} else {
			b = binary.LittleEndian.AppendUint32(b, 2)
			b = binary.LittleEndian.AppendUint64(b, uint64(t.cols)) // the fastest first
			b = binary.LittleEndian.AppendUint64(b, uint64(t.rows))
		}
		kind := uint32(ggufTensorF16)
		if t.rows == 0 {
			kind = ggufTensorF32 // llama.cpp has no half-precision norm
		}
		b = binary.LittleEndian.AppendUint32(b, kind)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
		for i := range t.len() {
			if kind == ggufTensorF16 {
				data = binary.LittleEndian.AppendUint16(data, half(t.at(i)))
			} else {
				data = appendF32(data, t.at(i))
			}
		}
		data = pad(data)
	}
	return append(pad(b), data...)
}

func pad(b []byte) []byte {
	return append(b, make([]byte, -len(b)&(ggufAlign-1))...)
}

func appendGGUFString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// ggufMetadata returns the entries and their number. llama.cpp refuses a file
// without the context length, feed-forward length, norm epsilon, number of KV
// heads or merges.
func (m *Model) ggufMetadata() (b []byte, n uint64) {
	key := func(k string, kind uint32) {
		n++
		b = appendGGUFString(b, k)
		b = binary.LittleEndian.AppendUint32(b, kind)
	}
	str := func(k, v string) { key(k, ggufString); b = appendGGUFString(b, v) }
	u32 := func(k string, v uint32) { key(k, ggufU32); b = binary.LittleEndian.AppendUint32(b, v) }
	array := func(k string, kind uint32, n int) {
		key(k, ggufArray)
		b = binary.LittleEndian.AppendUint32(b, kind)
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	strs := func(k string, vs []string) {
		array(k, ggufString, len(vs))
		for _, v := range vs {
			b = appendGGUFString(b, v)
		}
	}

	str("general.architecture", "llama")
	str("general.name", m.Name)
	u32("general.file_type", 1) // mostly half precision
	u32("llama.vocab_size", VocabSize)
	u32("llama.context_length", ContextLen)
	u32("llama.embedding_length", dim)
	u32("llama.block_count", 1)
	u32("llama.feed_forward_length", ffDim)
	u32("llama.rope.dimension_count", headDim)
	u32("llama.attention.head_count", heads)
	u32("llama.attention.head_count_kv", kvHeads)
	key("llama.attention.layer_norm_rms_epsilon", ggufF32)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(normEps))

	str("tokenizer.ggml.model", "gpt2")
	str("tokenizer.ggml.pre", "gpt-2")
	strs("tokenizer.ggml.tokens", m.vocab.tokens)
	array("tokenizer.ggml.token_type", ggufI32, VocabSize)
	for t := range VocabSize {
		kind := uint32(1) // normal
		if t == eos {
			kind = 3 // control: not printed
		}
		b = binary.LittleEndian.AppendUint32(b, kind)
	}
	strs("tokenizer.ggml.merges", m.vocab.merges)
	u32("tokenizer.ggml.bos_token_id", eos)
	u32("tokenizer.ggml.eos_token_id", eos)
	key("tokenizer.ggml.add_bos_token", ggufBool)
	b = append(b, 0)
	str("tokenizer.chat_template", chatTemplate)
	return b, n
}
