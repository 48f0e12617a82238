package report

import "testing"

func TestRedact(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"flag and value", "serve m --api-key abc123 --port 8000", "serve m --api-key <redacted> --port 8000"},
		{"flag with =", "serve m --hf-token=abc", "serve m --hf-token=<redacted>"},
		{"quoted value", `serve --api-key "a b" -x`, `serve --api-key <redacted> -x`},
		{"variable", "HF_TOKEN=abc vllm serve", "HF_TOKEN=<redacted> vllm serve"},
		{"JSON", `{"api_key": "abc", "n": 1}`, `{"api_key": <redacted>, "n": 1}`},
		{"header", "Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer <redacted>"},
		{"shape of a key", "use sk-abcdefghijkl now", "use <redacted> now"},
		{"userinfo", "http://me:pw@host/x", "http://<redacted>@host/x"},
		{"already done", "serve --api-key <redacted> --port 1", "serve --api-key <redacted> --port 1"},
		{"numbers of tokens are no secret", "--num_speculative_tokens 15 --max-num-batched-tokens 8192", "--num_speculative_tokens 15 --max-num-batched-tokens 8192"},
		{"speculative config", `'{"method":"dflash","num_speculative_tokens":15}'`, `'{"method":"dflash","num_speculative_tokens":15}'`},
	} {
		if got := redact(tc.in); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}
