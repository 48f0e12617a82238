package engine

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// dialect is where a family of metrics keeps each value of a Sample. The prefix
// names the dialect of the metrics, not the engine: forks and other servers
// reuse vLLM's names.
type dialect struct {
	running, waiting, prompt, generation string
	usage                                []string // newest name first
	preemptions, draft, accepted         string
	acceptRate                           string   // gauge
	info                                 []string // other names that Probe reads
	ranks                                []string // labels of ranks that all tell the same value
}

// Names and their history: docs of vLLM 0.32 (usage/metrics), SGLang 0.5.23
// (observability/metrics_collector.py), llama.cpp tools/server/README.md; the
// captures in testdata hold all but the speculative ones.
var (
	vllmMetrics = dialect{
		running:     "vllm:num_requests_running",
		waiting:     "vllm:num_requests_waiting",
		usage:       []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}, // renamed in 0.9
		prompt:      "vllm:prompt_tokens_total",
		generation:  "vllm:generation_tokens_total",
		preemptions: "vllm:num_preemptions_total",
		draft:       "vllm:spec_decode_num_draft_tokens_total",
		accepted:    "vllm:spec_decode_num_accepted_tokens_total",
		info:        []string{"vllm:cache_config_info"},
	}
	sglangMetrics = dialect{
		running:     "sglang:num_running_reqs",
		waiting:     "sglang:num_queue_reqs",
		usage:       []string{"sglang:token_usage"},
		prompt:      "sglang:prompt_tokens_total",
		generation:  "sglang:generation_tokens_total",
		preemptions: "sglang:num_retracted_requests_total",
		acceptRate:  "sglang:spec_accept_rate",
		info:        []string{"sglang:max_total_num_tokens"},
		ranks:       []string{"tp_rank", "pp_rank", "moe_ep_rank", "pid"},
	}
	llamacppMetrics = dialect{
		running:    "llamacpp:requests_processing",
		waiting:    "llamacpp:requests_deferred",
		prompt:     "llamacpp:prompt_tokens_total",
		generation: "llamacpp:tokens_predicted_total",
		draft:      "llamacpp:spec_decode_num_draft_tokens_total",
		accepted:   "llamacpp:spec_decode_num_accepted_tokens_total",
	}
	dialects = []*dialect{&vllmMetrics, &sglangMetrics, &llamacppMetrics}
)

func (d *dialect) names() []string {
	out := append([]string{d.running, d.waiting, d.prompt, d.generation, d.preemptions, d.draft, d.accepted, d.acceptRate}, d.usage...)
	out = append(out, d.info...)
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// wanted holds every name of every dialect.
var wanted = func() map[string]bool {
	m := map[string]bool{}
	for _, d := range dialects {
		for _, n := range d.names() {
			m[n] = true
		}
	}
	return m
}()

func wantedName(name []byte) bool { return wanted[string(name)] }

// dialectOf returns the dialect whose running gauge is there, nil if none.
func dialectOf(all []Series) *dialect {
	for _, d := range dialects {
		if slices.ContainsFunc(all, func(s Series) bool { return s.Name == d.running }) {
			return d
		}
	}
	return nil
}

// sample folds series into a Sample.
func (d *dialect) sample(all []Series) Sample {
	s := Unknowns()
	s.Running = d.sum(all, d.running)
	s.Waiting = d.sum(all, d.waiting)
	s.PromptTokens = d.sum(all, d.prompt)
	s.GenerationTokens = d.sum(all, d.generation)
	s.Preemptions = d.sum(all, d.preemptions)
	s.DraftTokens = d.sum(all, d.draft)
	s.AcceptedTokens = d.sum(all, d.accepted)
	for _, name := range d.usage {
		if ranks := d.ranksOf(all, name); len(ranks) > 0 {
			s.KVUsage = mean(ranks)
			break
		}
	}
	// SGLang shows 0 where it does not speculate at all.
	if rates := d.ranksOf(all, d.acceptRate); mean(rates) > 0 {
		s.AcceptRate = mean(rates)
	}
	return s
}

// sum adds the values of one name over everything that has its own: engines,
// DP ranks, streaming or not. Ranks that share their work (tensor, pipeline,
// expert parallel) tell the same value each; one of them counts.
func (d *dialect) sum(all []Series, name string) float64 {
	ranks := d.ranksOf(all, name)
	if len(ranks) == 0 {
		return math.NaN()
	}
	total := 0.0
	for _, v := range ranks {
		total += v
	}
	return total
}

// ranksOf returns one value for each group of series of that name which differ
// only in the labels of d.ranks: that of the lowest rank.
func (d *dialect) ranksOf(all []Series, name string) []float64 {
	var out []float64
	var lowest [][]int
	at := map[string]int{}
	for i := range all {
		s := &all[i]
		if s.Name != name || name == "" {
			continue
		}
		var key strings.Builder
		rank := make([]int, len(d.ranks))
		for _, l := range s.Labels {
			if r := slices.Index(d.ranks, l.Name); r >= 0 {
				rank[r], _ = strconv.Atoi(l.Value)
				continue
			}
			key.WriteString(l.Name)
			key.WriteByte(0)
			key.WriteString(l.Value)
			key.WriteByte(0)
		}
		j, seen := at[key.String()]
		switch {
		case !seen:
			at[key.String()] = len(out)
			out, lowest = append(out, s.Value), append(lowest, rank)
		case slices.Compare(rank, lowest[j]) < 0:
			out[j], lowest[j] = s.Value, rank
		}
	}
	return out
}

func mean(vs []float64) float64 {
	if len(vs) == 0 {
		return math.NaN()
	}
	total := 0.0
	for _, v := range vs {
		total += v
	}
	return total / float64(len(vs))
}
