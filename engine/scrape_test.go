package engine

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func series(text string) []Series {
	s, _ := ParseExposition([]byte(text), wantedName)
	return s
}

// R20 a, b: what a vLLM server can keep.
func TestR20VLLMCapacity(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       int
		source     string
	}{
		{"a: blocks of a uniform model", `vllm:cache_config_info{block_size="16",num_gpu_blocks="21479"} 1`, 343664,
			"/metrics vllm:cache_config_info num_gpu_blocks 21479 × block_size 16 (holds for uniform models)"},
		{"b: a hybrid model says it itself", `vllm:cache_config_info{block_size="4",num_gpu_blocks="21479",kv_cache_size_tokens="1553140"} 1`, 1553140,
			"/metrics vllm:cache_config_info kv_cache_size_tokens"},
		{"two engines", `vllm:cache_config_info{engine="0",kv_cache_size_tokens="100"} 1
vllm:cache_config_info{engine="1",kv_cache_size_tokens="100"} 1`, 200, "/metrics vllm:cache_config_info kv_cache_size_tokens, sum of 2 engines"},
		{"one engine told by two processes", `vllm:cache_config_info{engine="0",kv_cache_size_tokens="100",pid="1"} 1
vllm:cache_config_info{engine="0",kv_cache_size_tokens="100",pid="2"} 1`, 100, "/metrics vllm:cache_config_info kv_cache_size_tokens"},
		{"None is none", `vllm:cache_config_info{block_size="16",num_gpu_blocks="None",kv_cache_size_tokens="None"} 1`, 0, ""},
		{"None, and blocks", `vllm:cache_config_info{block_size="16",num_gpu_blocks="2",kv_cache_size_tokens="None"} 1`, 32,
			"/metrics vllm:cache_config_info num_gpu_blocks 2 × block_size 16 (holds for uniform models)"},
		{"nonsense", `vllm:cache_config_info{kv_cache_size_tokens="-5"} 1`, 0, ""},
		{"another name", `vllm:cache_config_info_x{kv_cache_size_tokens="5"} 1`, 0, ""},
	} {
		got, source := vllmKV(series(tc.text))
		if got != tc.want || source != tc.source {
			t.Errorf("%s: %d from %q, want %d from %q", tc.name, got, source, tc.want, tc.source)
		}
	}
}

// R20 d: SGLang tells its capacity once a TP rank, and each DP rank has its own.
func TestR20SGLangCapacity(t *testing.T) {
	ranks := func(label string, n, value int, more string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "sglang:max_total_num_tokens{%s=%q%s} %d\n", label, fmt.Sprint(i), more, value)
		}
		return b.String()
	}
	var attention strings.Builder // DP attention: each DP rank is one TP rank
	for i := range 4 {
		fmt.Fprintf(&attention, "sglang:max_total_num_tokens{dp_rank=\"%d\",tp_rank=\"%d\"} 1000\n", i, i)
	}
	for _, tc := range []struct {
		name, text string
		want       int
	}{
		{"d: four TP ranks", ranks("tp_rank", 4, 6338048, ""), 6338048},
		{"d: eight DP ranks", ranks("dp_rank", 8, 1000, `,tp_rank="0"`), 8000},
		{"DP attention", attention.String(), 4000},
		{"ranks in any order, the lowest counts", "sglang:max_total_num_tokens{tp_rank=\"1\"} 5\nsglang:max_total_num_tokens{tp_rank=\"0\"} 7\n", 7},
		{"pipeline and expert ranks", ranks("pp_rank", 2, 9, `,moe_ep_rank="0"`) + ranks("pp_rank", 2, 9, `,moe_ep_rank="1"`), 9},
		{"none", "", 0},
	} {
		if got, source := sglangKV(series(tc.text)); got != tc.want || (source == "") != (tc.want == 0) {
			t.Errorf("%s: %d from %q, want %d", tc.name, got, source, tc.want)
		}
	}
}

// R20 c, and the other sums.
func TestSample(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name, text string
		dia        *dialect
		want       Sample
	}{
		{"R20c: two engines add up", `vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} 5
vllm:num_requests_waiting{engine="0"} 1
vllm:num_requests_waiting{engine="1"} 0
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.1
vllm:prompt_tokens_total{engine="0"} 10
vllm:prompt_tokens_total{engine="1"} 20
vllm:prompt_tokens_created{engine="1"} 1.7e9
vllm:spec_decode_num_draft_tokens_total 8
vllm:spec_decode_num_accepted_tokens_total 6
vllm:num_preemptions_total 2`, &vllmMetrics,
			Sample{Running: 8, Waiting: 1, KVUsage: 0.3, PromptTokens: 30, GenerationTokens: nan, Preemptions: 2, DraftTokens: 8, AcceptedTokens: 6, AcceptRate: nan}},
		{"vLLM before 0.9", `vllm:num_requests_running 1
vllm:gpu_cache_usage_perc 0.25`, &vllmMetrics,
			Sample{Running: 1, Waiting: nan, KVUsage: 0.25, PromptTokens: nan, GenerationTokens: nan, Preemptions: nan, DraftTokens: nan, AcceptedTokens: nan, AcceptRate: nan}},
		{"SGLang: TP ranks are one, DP ranks and streaming add up", `sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 2
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 2
sglang:num_running_reqs{dp_rank="1",tp_rank="0"} 3
sglang:generation_tokens_total{is_streaming="true"} 100
sglang:generation_tokens_total{is_streaming="false"} 11
sglang:spec_accept_rate{tp_rank="0"} 0.75
sglang:num_retracted_requests_total{tp_rank="0",pid="7"} 4
sglang:num_retracted_requests_total{tp_rank="1",pid="8"} 4`, &sglangMetrics,
			Sample{Running: 5, Waiting: nan, KVUsage: nan, PromptTokens: nan, GenerationTokens: 111, Preemptions: 4, DraftTokens: nan, AcceptedTokens: nan, AcceptRate: 0.75}},
		{"a rate of 0 means no speculation", `sglang:num_running_reqs 0
sglang:spec_accept_rate 0`, &sglangMetrics,
			Sample{Running: 0, Waiting: nan, KVUsage: nan, PromptTokens: nan, GenerationTokens: nan, Preemptions: nan, DraftTokens: nan, AcceptedTokens: nan, AcceptRate: nan}},
	} {
		got := tc.dia.sample(series(tc.text))
		if d := cmp.Diff(tc.want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-12)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}

func TestScrapeRealServers(t *testing.T) {
	nan := math.NaN()
	absent := says(404, `{"detail":"Not Found"}`)
	for _, tc := range []struct {
		name   string
		routes routes
		kind   Kind
		source string
		want   Sample
	}{
		{"vLLM", realVLLM, VLLM, "/metrics",
			Sample{Running: 0, Waiting: 0, KVUsage: 0, PromptTokens: 102, GenerationTokens: 172, Preemptions: 0, DraftTokens: nan, AcceptedTokens: nan, AcceptRate: nan}},
		{"SGLang", realSGLang, SGLang, "/metrics",
			Sample{Running: 0, Waiting: 0, KVUsage: 0, PromptTokens: 136, GenerationTokens: 168, Preemptions: nan, DraftTokens: nan, AcceptedTokens: nan, AcceptRate: nan}},
		{"SGLang without --enable-metrics", realSGLang.with(routes{"GET /metrics": absent}), SGLang, "/v1/loads",
			Sample{Running: 0, Waiting: 0, KVUsage: 0, PromptTokens: nan, GenerationTokens: nan, Preemptions: nan, DraftTokens: nan, AcceptedTokens: nan, AcceptRate: nan}},
		{"llama.cpp", realLlamaCPP, LlamaCPP, "/metrics",
			Sample{Running: 0, Waiting: 0, KVUsage: nan, PromptTokens: 4132, GenerationTokens: 487, Preemptions: nan, DraftTokens: 0, AcceptedTokens: 0, AcceptRate: nan}},
		{"llama.cpp without --metrics", realLlamaCPP.with(routes{"GET /metrics": says(501, `{"error":{"code":501,"message":"This server does not support metrics endpoint. Start it with --metrics"}}`)}), LlamaCPP, "/slots",
			Sample{Running: 0, Waiting: nan, KVUsage: nan, PromptTokens: nan, GenerationTokens: nan, Preemptions: nan, DraftTokens: nan, AcceptedTokens: nan, AcceptRate: nan}},
		{"unknown, with vLLM's names", realVLLM, Unknown, "/metrics",
			Sample{Running: 0, Waiting: 0, KVUsage: 0, PromptTokens: 102, GenerationTokens: 172, Preemptions: 0, DraftTokens: nan, AcceptedTokens: nan, AcceptRate: nan}},
	} {
		s := NewScraper(serve(t, tc.routes), tc.kind)
		for range 2 { // the second knows where to look
			got, err := s.Scrape(t.Context())
			if d := cmp.Diff(tc.want, got, cmpopts.EquateNaNs()); err != nil || d != "" || s.Source() != tc.source {
				t.Errorf("%s: from %s, want %s, %v (-want +got):\n%s", tc.name, s.Source(), tc.source, err, d)
			}
		}
		s.Close()
	}
}

func TestScrapeFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		routes routes
		kind   Kind
		want   string
	}{
		{"no metrics at all", routes{}, VLLM, "/metrics is not there (404: Not Found)"},
		{"another's metrics", realLlamaCPP, VLLM, "the server's /metrics does not have vllm:num_requests_running"},
		{"nobody's metrics", routes{"GET /metrics": says(200, "go_goroutines 5\n")}, Unknown, "the server's /metrics has no running gauge of an engine we know"},
		{"a page", routes{"GET /metrics": says(200, "<html>")}, Unknown, "answered with an HTML page"},
	} {
		s := NewScraper(serve(t, tc.routes), tc.kind)
		got, err := s.Scrape(t.Context())
		if err == nil || !strings.Contains(err.Error(), tc.want) || !math.IsNaN(got.Running) {
			t.Errorf("%s: running %v, %v, want NaN, %q", tc.name, got.Running, err, tc.want)
		}
		s.Close()
	}
}

// The scraper keeps one connection, so that it does not show in the server's
// accept queue beside the streams; and credentials stay with the server.
func TestScraperConnectionAndCredentials(t *testing.T) {
	var mu sync.Mutex
	conns, auth := map[string]bool{}, ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		conns[r.RemoteAddr], auth = true, r.Header.Get("Authorization")
		mu.Unlock()
		fmt.Fprint(w, "vllm:num_requests_running 1\n")
	}))
	defer srv.Close()
	other := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	for _, tc := range []struct {
		name   string
		target Target
		auth   string
	}{
		{"on the server", Target{URL: srv.URL, Key: "k"}, "Bearer k"},
		{"on the server, said so", Target{URL: srv.URL, MetricsURL: srv.URL, Key: "k"}, "Bearer k"},
		{"elsewhere", Target{URL: other, MetricsURL: srv.URL + "/metrics", Key: "k"}, ""},
	} {
		clear(conns)
		s := NewScraper(&tc.target, VLLM)
		for range 5 {
			if _, err := s.Scrape(t.Context()); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
		s.Close()
		if len(conns) != 1 || auth != tc.auth {
			t.Errorf("%s: %d connections, Authorization %q, want 1, %q", tc.name, len(conns), auth, tc.auth)
		}
	}
}
