package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNamesForATerminal: a name with control characters is not listed, and a
// version shows none; both are printed by every report.
func TestNamesForATerminal(t *testing.T) {
	target := serve(t, routes{
		"GET /v1/models": models(`{"id":"a\u001b[2J","owned_by":"vllm"},{"id":"b","owned_by":"vllm"}`),
		"GET /version":   says(200, `{"version":"1\u001b[2J"}`),
	})
	info, err := Probe(t.Context(), target, "")
	if err != nil {
		t.Fatal(err)
	}
	if info.Model != "b" || len(info.Models) != 1 || info.Version != "1 [2J" || info.Fact("version").Value != "1 [2J" {
		t.Errorf("model %q of %q, version %q (%+v); want b alone and no escape", info.Model, info.Models, info.Version, info.Fact("version"))
	}
}

func TestProbeRealServers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		routes routes
		want   Info
	}{
		{"vLLM 0.32.0", realVLLM, Info{
			Kind: VLLM, Version: "0.32.0", Models: []string{"tiny"}, Model: "tiny",
			MaxModelLen: 8192, KVTokens: 1048576, HasMetrics: true, HasTokenize: true,
			Facts: []Fact{
				{"engine", "vllm", "/v1/models owned_by vllm"},
				{"model", "tiny", "/v1/models, the only one"},
				{"version", "0.32.0", "/version"},
				{"kv_tokens", "1048576", "/metrics vllm:cache_config_info kv_cache_size_tokens"},
				{"tokenize", "yes", "POST /tokenize"},
				{"max_model_len", "8192", "/v1/models max_model_len of tiny"},
				{"gauges", "yes", "/metrics"},
			},
		}},
		{"SGLang 0.5.23", realSGLang, Info{
			Kind: SGLang, Version: "0.5.23", Models: []string{"tiny"}, Model: "tiny",
			MaxModelLen: 8192, KVTokens: 131072, MaxRunning: 128, HasMetrics: true, HasTokenize: true, CanAbort: true,
			Facts: []Fact{
				{"engine", "sglang", "/v1/models owned_by sglang"},
				{"model", "tiny", "/v1/models, the only one"},
				{"version", "0.5.23", "/server_info"},
				{"kv_tokens", "131072", "/server_info max_total_num_tokens"},
				{"max_running", "128", "/server_info effective_max_running_requests_per_dp, all DP ranks"},
				{"tokenize", "yes", "POST /tokenize"},
				{"abort", "yes", "POST /abort_request is part of SGLang"},
				{"max_model_len", "8192", "/v1/models max_model_len of tiny"},
				{"gauges", "yes", "/metrics"},
			},
		}},
		{"llama.cpp b10434", realLlamaCPP, Info{
			Kind: LlamaCPP, Version: "b1-7e4c0a9", Models: []string{"models/tiny-loop.gguf"}, Model: "models/tiny-loop.gguf",
			MaxModelLen: 8192, KVTokens: 65536, MaxRunning: 8, SlotContext: 8192, HasMetrics: true, HasTokenize: true,
			Facts: []Fact{
				{"engine", "llamacpp", "/v1/models owned_by llamacpp"},
				{"model", "models/tiny-loop.gguf", "/v1/models, the only one"},
				{"version", "b1-7e4c0a9", "/props build_info"},
				{"slot_context", "8192", "/props default_generation_settings.n_ctx"},
				{"max_model_len", "8192", "/props n_ctx of a slot"},
				{"max_running", "8", "/props total_slots"},
				{"kv_tokens", "65536", "/props total_slots 8 × n_ctx 8192 (slots set by number)"},
				{"tokenize", "yes", "POST /tokenize"},
				{"gauges", "yes", "/metrics"},
			},
		}},
	} {
		got, err := Probe(t.Context(), serve(t, tc.routes), "")
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}

// Gateways and forks put anything into owned_by.
func TestIdentifyWithoutOwner(t *testing.T) {
	anyone := routes{"GET /v1/models": models(`{"id":"m","owned_by":"acme"}`)}
	for _, tc := range []struct {
		name   string
		routes routes
		want   Kind
	}{
		{"llama.cpp by /props", realLlamaCPP.with(anyone), LlamaCPP},
		{"SGLang by /server_info", realSGLang.with(anyone), SGLang},
		{"older SGLang by /get_server_info", anyone.with(routes{"GET /get_server_info": "sglang/server_info"}), SGLang},
		{"vLLM by names and /version", realVLLM.with(anyone), VLLM},
		{"vLLM in dev mode", anyone.with(routes{"GET /server_info": says(200, `{"vllm_config":{}}`)}), VLLM},
		{"vLLM's metric names alone are some fork's", anyone.with(routes{"GET /metrics": "vllm/metrics"}), Unknown},
		{"/version alone is TensorRT-LLM's too", anyone.with(routes{"GET /version": says(200, `{"version":"1.2.1"}`)}), Unknown},
		{"JSON metrics are no exposition", anyone.with(routes{"GET /metrics": says(200, `[]`)}), Unknown},
		{"nothing to go by", anyone, Unknown},
	} {
		got, err := Probe(t.Context(), serve(t, tc.routes), "")
		if err != nil || got.Kind != tc.want {
			t.Errorf("%s: %s, %v, want %s", tc.name, got.Kind, err, tc.want)
		}
	}
}

func TestChooseModel(t *testing.T) {
	const (
		base = `{"id":"base","owned_by":"vllm","max_model_len":4096}`
		lora = `{"id":"lora","owned_by":"vllm","parent":"base","max_model_len":null}`
	)
	for _, tc := range []struct {
		name   string
		routes routes
		model  string
		want   string // the model, or with ! the end of the error
		maxLen int
	}{
		{"the only one", routes{"GET /v1/models": models(base)}, "", "base", 4096},
		{"one of several", routes{"GET /v1/models": models(base, lora)}, "base", "base", 4096},
		{"an adapter has the length of its base", routes{"GET /v1/models": models(base, lora)}, "lora", "lora", 4096},
		{"an adapter that is its own parent", routes{"GET /v1/models": models(`{"id":"x","parent":"x"}`)}, "x", "x", 0},
		{"several, none chosen", routes{"GET /v1/models": models(base, lora)}, "", "!serves 2 models, choose one with --model: base, lora", 0},
		{"wrong one", routes{"GET /v1/models": models(base, lora)}, "other", `!does not serve the model "other"; it serves: base, lora`, 0},
		{"wrong one where any name is answered", realLlamaCPP, "other", `!does not serve the model "other"; it serves: models/tiny-loop.gguf`, 0},
		{"alias", realLlamaCPP.with(routes{"GET /v1/models": models(`{"id":"a","aliases":["b"],"owned_by":"llamacpp"}`)}), "b", "b", 8192},
		{"none at all", routes{"GET /v1/models": models()}, "", "!serves no model", 0},
	} {
		target := serve(t, tc.routes)
		got, err := Probe(t.Context(), target, tc.model)
		if sentence, bad := strings.CutPrefix(tc.want, "!"); bad {
			if want := target.URL + " " + sentence; err == nil || err.Error() != want || !Is(err, NoModel) {
				t.Errorf("%s: %v, want %q", tc.name, err, want)
			}
			continue
		}
		if err != nil || got.Model != tc.want || got.MaxModelLen != tc.maxLen {
			t.Errorf("%s: %q with %d tokens, %v, want %q with %d", tc.name, got.Model, got.MaxModelLen, err, tc.want, tc.maxLen)
		}
	}
}

// SGLang's limits are told per DP rank.
func TestSGLangDataParallel(t *testing.T) {
	states := func(n string) string {
		return `{"version":"0.5.23","dp_size":4,"max_running_requests":64,"max_total_num_tokens":1000,"internal_states":[` + n + `]}`
	}
	const state = `{"effective_max_running_requests_per_dp":16}`
	for _, tc := range []struct {
		name        string
		info        string
		kv, running int
	}{
		{"a state for each rank", states(state + "," + state + "," + state + "," + state), 4000, 64},
		{"one state for all ranks", states(state), 4000, 64},
		{"no states: as configured", states(""), 4000, 64},
		{"running not limited", `{"dp_size":1,"max_total_num_tokens":1000,"max_running_requests":null}`, 1000, 0},
	} {
		got, err := Probe(t.Context(), serve(t, routes{
			"GET /v1/models":   models(`{"id":"m","owned_by":"sglang"}`),
			"GET /server_info": says(200, tc.info),
		}), "")
		if err != nil || got.KVTokens != tc.kv || got.MaxRunning != tc.running {
			t.Errorf("%s: kv %d, running %d, %v, want %d, %d", tc.name, got.KVTokens, got.MaxRunning, err, tc.kv, tc.running)
		}
	}
	// An admin key may protect /server_info; /v1/loads answers all the same.
	got, err := Probe(t.Context(), serve(t, routes{
		"GET /v1/models":   models(`{"id":"m","owned_by":"sglang"}`),
		"GET /server_info": says(401, ``),
		"GET /v1/loads":    says(200, `{"version":"1","loads":[{"max_total_num_tokens":10,"max_running_requests":2},{"max_total_num_tokens":20,"max_running_requests":3}]}`),
	}), "")
	if want := "/v1/loads max_total_num_tokens, sum of 2 DP ranks"; err != nil || got.KVTokens != 30 || got.MaxRunning != 5 || got.Fact("kv_tokens").Source != want {
		t.Errorf("/v1/loads: kv %d from %q, running %d, %v, want 30 from %q, 5", got.KVTokens, got.Fact("kv_tokens").Source, got.MaxRunning, err, want)
	}
}

func TestVLLMDevModeTellsMaxRunning(t *testing.T) {
	got, err := Probe(t.Context(), serve(t, realVLLM.with(routes{
		"GET /server_info": says(200, `{"vllm_config":{"scheduler_config":{"max_num_seqs":128}}}`),
	})), "")
	if err != nil || got.MaxRunning != 128 {
		t.Errorf("max_running = %d, %v, want 128", got.MaxRunning, err)
	}
}

// docs/measuring.md, "KV capacity", llama.cpp.
func TestLlamaCPPUnifiedCache(t *testing.T) {
	for _, tc := range []struct {
		name           string
		slots, context int
		want           int
	}{
		{"slots set by number", 8, 8192, 65536},
		{"one slot", 1, 8192, 8192},
		{"as many as automatic ones: unified, or not known to be otherwise", 4, 8192, 8192},
		{"number of slots unknown", 0, 8192, 8192},
		{"context unknown", 8, 0, 0},
	} {
		got, source := llamacppKV(tc.slots, tc.context)
		if got != tc.want || (source == "") != (tc.want == 0) {
			t.Errorf("%s: %d from %q, want %d", tc.name, got, source, tc.want)
		}
	}
}

// A router behind one port wants the model's name with /props.
func TestLlamaCPPRouter(t *testing.T) {
	r := routes{"GET /v1/models": models(`{"id":"a b","owned_by":"llamacpp"}`, `{"id":"c","owned_by":"llamacpp"}`)}
	r["GET /props"] = routerProps
	got, err := Probe(t.Context(), serve(t, r), "a b")
	if err != nil || got.SlotContext != 8192 || got.MaxRunning != 8 {
		t.Errorf("slots %d × %d, %v, want 8 × 8192", got.MaxRunning, got.SlotContext, err)
	}
}
