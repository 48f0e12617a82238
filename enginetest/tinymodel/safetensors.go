package tinymodel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Safetensors returns the weights as a safetensors file in single precision: the
// length of the header (u64), the header in JSON, the data. The header is padded
// with spaces so that the data is aligned.
func (m *Model) Safetensors() []byte {
	var head, data bytes.Buffer
	head.WriteString(`{"__metadata__":{"format":"pt"}`)
	var b []byte
	for _, t := range m.tensors() {
		b = b[:0]
		for i := range t.len() {
			b = appendF32(b, t.at(i))
		}
		shape := fmt.Sprintf("[%d,%d]", t.rows, t.cols)
		if t.rows == 0 {
			shape = fmt.Sprintf("[%d]", t.cols)
		}
		fmt.Fprintf(&head, `,%q:{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}`, t.hf, shape, data.Len(), data.Len()+len(b))
		data.Write(b)
	}
	head.WriteByte('}')
	for head.Len()%8 != 0 {
		head.WriteByte(' ')
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(head.Len()))
	return append(append(file, head.Bytes()...), data.Bytes()...)
}

// hfFiles are the files of a Hugging Face model folder, by name.
func (m *Model) hfFiles() map[string][]byte {
	return map[string][]byte{
		"model.safetensors": m.Safetensors(),
		"config.json": indented(hfConfig{
			Architectures: []string{"LlamaForCausalLM"}, ModelType: "llama", TorchDtype: "float32",
			VocabSize: VocabSize, HiddenSize: dim, IntermediateSize: ffDim, Layers: 1,
			Heads: heads, KVHeads: kvHeads, HeadDim: headDim, HiddenAct: "silu",
			MaxPositions: ContextLen, NormEps: normEps, RopeTheta: 10000,
			BOS: eos, EOS: eos, PAD: eos,
		}),
		"generation_config.json": indented(map[string]any{
			"bos_token_id": eos, "eos_token_id": eos, "pad_token_id": eos, "do_sample": true,
		}),
		"tokenizer.json": indented(m.hfTokenizer()),
		"tokenizer_config.json": indented(map[string]any{
			"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": ContextLen,
			"bos_token": eosText, "eos_token": eosText, "pad_token": eosText, "add_bos_token": false,
			"clean_up_tokenization_spaces": false, "chat_template": chatTemplate,
		}),
	}
}

type hfConfig struct {
	Architectures    []string `json:"architectures"`
	ModelType        string   `json:"model_type"`
	TorchDtype       string   `json:"torch_dtype"`
	VocabSize        int      `json:"vocab_size"`
	HiddenSize       int      `json:"hidden_size"`
	IntermediateSize int      `json:"intermediate_size"`
	Layers           int      `json:"num_hidden_layers"`
	Heads            int      `json:"num_attention_heads"`
	KVHeads          int      `json:"num_key_value_heads"`
	HeadDim          int      `json:"head_dim"`
	HiddenAct        string   `json:"hidden_act"`
	MaxPositions     int      `json:"max_position_embeddings"`
	NormEps          float64  `json:"rms_norm_eps"`
	RopeTheta        float64  `json:"rope_theta"`
	AttentionBias    bool     `json:"attention_bias"`
	MLPBias          bool     `json:"mlp_bias"`
	TieEmbeddings    bool     `json:"tie_word_embeddings"`
	BOS              int      `json:"bos_token_id"`
	EOS              int      `json:"eos_token_id"`
	PAD              int      `json:"pad_token_id"`
}

// hfTokenizer is tokenizer.json. It must split text as llama.cpp's "gpt-2" does;
// no behaviour would tell if it did not, but token counts would differ.
func (m *Model) hfTokenizer() map[string]any {
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	return map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil,
		"added_tokens": []any{map[string]any{
			"id": eos, "content": eosText, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		}},
		"pre_tokenizer": byteLevel, "post_processor": byteLevel, "decoder": byteLevel,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
			"continuing_subword_prefix": "", "end_of_word_suffix": "",
			"vocab": m.vocab.ids, "merges": m.vocab.merges,
		},
	}
}

// indented encodes values of this package, for which that cannot fail; keys of
// maps come out sorted.
func indented(v any) []byte {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}
