package engine

import (
	"context"
	"fmt"
	"strconv"
)

// vllm collects what a vLLM server tells of itself.
func (p *probe) vllm(ctx context.Context) {
	if v := p.look(ctx, "/version"); v != nil {
		p.version(string(v.GetStringBytes("version")), "/version")
	}
	if n, source := vllmKV(p.series); n > 0 {
		p.kv(n, source)
	}
	// Only in dev mode. kv_cache_max_concurrency is no substitute: it is
	// capacity / max_model_len, not max_num_seqs.
	if v := p.look(ctx, "/server_info?config_format=json"); v != nil {
		if n := v.GetInt("vllm_config", "scheduler_config", "max_num_seqs"); n > 0 {
			p.maxRunning(n, "/server_info scheduler_config.max_num_seqs")
		}
	}
	p.tokenizer(ctx, `{"model":`+quote(p.info.Model)+`,"prompt":"a"}`, "count")
}

// vllmKV is the KV capacity in tokens that vllm:cache_config_info tells, summed
// over engines (data parallel ranks); 0 when it tells none.
//
// num_gpu_blocks × block_size holds for uniform models only. A hybrid model
// (sliding window, Mamba) has groups of layers which share the blocks; newer
// servers give the tokens in kv_cache_size_tokens. Any label may read "None".
func vllmKV(all []Series) (tokens int, source string) {
	engines := map[string]bool{}
	for i := range all {
		s := &all[i]
		if s.Name != "vllm:cache_config_info" || engines[s.Get("engine")] {
			continue
		}
		engines[s.Get("engine")] = true
		if n := labelInt(s, "kv_cache_size_tokens"); n > 0 {
			tokens += n
			source = "/metrics vllm:cache_config_info kv_cache_size_tokens"
			continue
		}
		blocks, size := labelInt(s, "num_gpu_blocks"), labelInt(s, "block_size")
		if blocks > 0 && size > 0 {
			tokens += blocks * size
			source = fmt.Sprintf("/metrics vllm:cache_config_info num_gpu_blocks %d × block_size %d (holds for uniform models)", blocks, size)
		}
	}
	if len(engines) > 1 && tokens > 0 {
		source += fmt.Sprintf(", sum of %d engines", len(engines))
	}
	return tokens, source
}

// labelInt reads a label that holds a count; 0 for "None", absent or negative.
func labelInt(s *Series, label string) int {
	v, err := strconv.ParseFloat(s.Get(label), 64)
	if err != nil || v < 0 || v > 1<<53 {
		return 0
	}
	return int(v)
}
