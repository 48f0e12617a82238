package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/streamgauge/streamgauge/engine"
)

// A server is asked what it is before anything is sent to be measured.
func ExampleProbe() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"llama","owned_by":"vllm","max_model_len":8192}]}`)
		case "/metrics":
			fmt.Fprint(w, `vllm:cache_config_info{block_size="16",num_gpu_blocks="21479"} 1`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()

	info, err := engine.Probe(context.Background(), &engine.Target{URL: srv.URL}, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Kind, info.Model, info.MaxModelLen, info.KVTokens)
	fmt.Println(info.Fact("kv_tokens").Source)
	// Output:
	// vllm llama 8192 343664
	// /metrics vllm:cache_config_info num_gpu_blocks 21479 × block_size 16 (holds for uniform models)
}

func ExampleSwitches_Body() {
	body, err := engine.Defaults(engine.LlamaCPP, false).Body(engine.BodyInput{Model: "m", Prompt: "Hi", MaxTokens: 8})
	fmt.Println(string(body), err)
	// Output:
	// {"model":"m","messages":[{"content":"Hi","role":"user"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":8,"timings_per_token":true,"return_progress":true} <nil>
}

// A template of 40 tokens around words of 2 tokens each.
func ExampleCalibrate() {
	text := func(words int) string { return strings.Repeat("word ", words) }
	count := func(_ context.Context, text string) (int, error) { return 40 + 2*strings.Count(text, " "), nil }
	fit, err := engine.Calibrate(context.Background(), 8192, 0, text, count)
	fmt.Println(fit.Units, fit.Tokens, fit.Probes, err)
	// Output:
	// 4076 8192 3 <nil>
}

func ExampleRedactor() {
	r := engine.NewRedactor("hunter2-hunter2")
	fmt.Println(r.String("401: the key hunter2-hunter2 is wrong, see https://me:pw@h/?token=abc"))
	// Output:
	// 401: the key [redacted] is wrong, see https://[redacted]@h/?token=[redacted]
}
