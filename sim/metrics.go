package sim

import (
	"fmt"
	"strconv"
)

// metrics appends the engine's Prometheus text, the names, types and labels of
// the captured pages as far as the sim has such a number.
func (s *Server) metrics(b []byte) []byte {
	st := s.sched.status()
	switch s.profile.Dialect {
	case SGLang:
		return s.metricsSGLang(b, st)
	case LlamaCPP:
		return s.metricsLlama(b, st)
	}
	return s.metricsVLLM(b, st)
}

// family appends one metric with its HELP and TYPE lines and a sample for each
// pair of labels and value.
func family(b []byte, name, kind, help string, samples ...any) []byte {
	b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	for i := 0; i < len(samples); i += 2 {
		b = append(b, name...)
		b = append(b, samples[i].(string)...)
		b = append(b, ' ')
		b = strconv.AppendFloat(b, samples[i+1].(float64), 'g', -1, 64)
		b = append(b, '\n')
	}
	return b
}

func (s *Server) metricsVLLM(b []byte, st status) []byte {
	p, t := s.profile, st.totals
	l := fmt.Sprintf(`{engine="0",model_name=%q}`, p.Model)
	with := func(more string) string { return fmt.Sprintf(`{engine="0",%s,model_name=%q}`, more, p.Model) }
	gauge := func(name, help string, v float64) { b = family(b, "vllm:"+name, "gauge", help, l, v) }
	counter := func(name, help string, v int64) {
		b = family(b, "vllm:"+name+"_total", "counter", help, l, float64(v))
	}
	gauge("num_requests_running", "Number of requests in model execution batches.", float64(st.running))
	gauge("num_requests_waiting", "Number of requests waiting to be processed.", float64(st.waiting))
	b = family(b, "vllm:num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.",
		with(`reason="capacity"`), float64(st.waiting), with(`reason="deferred"`), 0.0)
	gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", float64(st.usedBlocks)/float64(st.blocks))
	counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", t.Prompt)
	counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", t.Cached)
	counter("num_preemptions", "Cumulative number of preemption from the engine.", t.Preemptions)
	counter("prompt_tokens", "Number of prefill tokens processed.", t.Prompt)
	b = family(b, "vllm:prompt_tokens_by_source_total", "counter", "Number of prompt tokens by source.",
		with(`source="local_compute"`), float64(t.Prompt-t.Cached), with(`source="local_cache_hit"`), float64(t.Cached))
	counter("prompt_tokens_cached", "Number of cached prompt tokens (local + external).", t.Cached)
	counter("generation_tokens", "Number of generation tokens processed.", t.Generated)
	b = family(b, "vllm:request_success_total", "counter", "Count of successfully processed requests.",
		`{engine="0",finished_reason="stop",model_name="`+p.Model+`"}`, float64(t.Finished[Stop]),
		`{engine="0",finished_reason="length",model_name="`+p.Model+`"}`, float64(t.Finished[Length]),
		`{engine="0",finished_reason="abort",model_name="`+p.Model+`"}`, float64(t.Finished[ClientGone]+t.Finished[Aborted]),
		`{engine="0",finished_reason="error",model_name="`+p.Model+`"}`, float64(t.Finished[Faulted]))
	if draft := s.draftTokens(); draft > 0 {
		counter("spec_decode_num_drafts", "Number of spec decoding drafts.", t.Chunks)
		counter("spec_decode_num_draft_tokens", "Number of draft tokens.", t.Chunks*draft)
		counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.", t.Generated-t.Chunks)
	}
	// Labels are strings, None where unset, as Python prints them.
	info := fmt.Sprintf(`{block_size="%d",cache_dtype="auto",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.9",kv_cache_max_concurrency="%.2f",kv_cache_size_tokens="%d",num_cpu_blocks="None",num_gpu_blocks="%d",sliding_window="None"}`,
		p.BlockSize, float64(p.KVTokens)/float64(p.MaxModelLen), p.KVTokens, p.KVTokens/p.BlockSize)
	return family(b, "vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig", info, 1.0)
}

// draftTokens is the number of tokens drafted a step; 0 = no speculation. The
// largest chunk is all drafts accepted and one token more.
func (s *Server) draftTokens() int64 {
	most := 0
	for _, n := range s.profile.Chunks {
		most = max(most, n)
	}
	return int64(most - 1)
}

func (s *Server) metricsSGLang(b []byte, st status) []byte {
	p, t := s.profile, st.totals
	rank := fmt.Sprintf(`{engine_type="unified",model_name=%q,moe_ep_rank="0",pp_rank="0",tp_rank="0"}`, p.Model)
	l := fmt.Sprintf(`{engine_type="unified",is_streaming="true",model_name=%q}`, p.Model)
	gauge := func(name, help string, v float64) { b = family(b, "sglang:"+name, "gauge", help, rank, v) }
	counter := func(name, help, labels string, v int64) {
		b = family(b, "sglang:"+name+"_total", "counter", help, labels, float64(v))
	}
	usage := float64(st.usedBlocks) / float64(st.blocks)
	gauge("num_running_reqs", "The number of running requests.", float64(st.running))
	gauge("num_queue_reqs", "The number of requests in the waiting queue.", float64(st.waiting))
	gauge("num_used_tokens", "The number of used tokens.", float64(st.usedBlocks*p.BlockSize))
	gauge("token_usage", "The token usage.", usage)
	gauge("max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", float64(p.KVTokens))
	gauge("cache_hit_rate", "The prefix cache hit rate.", ratio(float64(t.Cached), float64(t.Prompt)))
	gauge("spec_accept_length", "Mean acceptance length of speculative decoding (accepted drafts + bonus token per forward).", s.acceptLength(t))
	counter("prompt_tokens", "Number of prefill tokens processed.", l, t.Prompt)
	counter("generation_tokens", "Number of generation tokens processed.", l, t.Generated)
	counter("num_retracted_requests", "Number of retracted requests.", l, t.Preemptions)
	counter("num_aborted_requests", "Number of requests aborted.", l, t.Finished[ClientGone]+t.Finished[Aborted])
	counter("cached_tokens", "Number of cached prompt tokens by source (device/host/storage).",
		fmt.Sprintf(`{cache_source="device",engine_type="unified",model_name=%q}`, p.Model), t.Cached)
	return b
}

func (s *Server) acceptLength(t Totals) float64 {
	if s.draftTokens() == 0 {
		return 0
	}
	return ratio(float64(t.Generated), float64(t.Chunks))
}

func (s *Server) metricsLlama(b []byte, st status) []byte {
	t := st.totals
	counter := func(name, help string, v int64) {
		b = family(b, "llamacpp:"+name, "counter", help, "", float64(v))
	}
	counter("prompt_tokens_total", "Number of prompt tokens processed, excluding cached tokens", t.Prompt-t.Cached)
	counter("prompt_tokens_cached_total", "Number of prompt tokens reused from the cache", t.Cached)
	counter("tokens_predicted_total", "Number of generation tokens processed", t.Generated)
	counter("n_decode_total", "Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding", t.Chunks)
	b = family(b, "llamacpp:requests_processing", "gauge", "Number of requests processing", "", float64(st.running))
	return family(b, "llamacpp:requests_deferred", "gauge", "Number of requests deferred", "", float64(st.waiting))
}
