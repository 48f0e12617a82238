package stream

import (
	"maps"
	"testing"
)

func TestRedactNote(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"flag and value", "serve m --api-key abc123 --port 8000", "serve m --api-key <redacted> --port 8000"},
		{"flag with =", "serve m --hf-token=abc", "serve m --hf-token=<redacted>"},
		{"quoted value", `serve --api-key "a b" -x`, `serve --api-key <redacted> -x`},
		{"variable", "HF_TOKEN=abc vllm serve", "HF_TOKEN=<redacted> vllm serve"},
		{"JSON", `{"api_key": "abc", "n": 1}`, `{"api_key": <redacted>, "n": 1}`},
		{"header", "Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer <redacted>"},
		{"shape of a key", "use sk-abcdefghijkl now", "use <redacted> now"},
		{"userinfo", "http://me:pw@host/x", "http://<redacted>@host/x"},
		{"a flag with underscores", "serve --api_key hunter2 -x", "serve --api_key <redacted> -x"},
		{"already done", "serve --api-key <redacted> --port 1", "serve --api-key <redacted> --port 1"},
		{"numbers of tokens are no secret", "--num_speculative_tokens 15 --max-num-batched-tokens 8192", "--num_speculative_tokens 15 --max-num-batched-tokens 8192"},
		{"speculative config", `'{"method":"dflash","num_speculative_tokens":15}'`, `'{"method":"dflash","num_speculative_tokens":15}'`},
	} {
		got := RedactNote(tc.in)
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
		if again := RedactNote(got); again != got {
			t.Errorf("%s: a second time gives %q, want %q", tc.name, again, got)
		}
	}
}

// A note may be the secret itself.
func TestRedactNotesByName(t *testing.T) {
	in := map[string]string{"api_key": "hunter2", "HF-Token": "hunter2", "launch": "serve --api-key hunter2", "tokens": "512", "monkey": "no secret", "key": ""}
	want := map[string]string{"api_key": Redacted, "HF-Token": Redacted, "launch": "serve --api-key " + Redacted, "tokens": "512", "monkey": "no secret", "key": ""}
	if got := RedactNotes(in); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if in["api_key"] != "hunter2" {
		t.Error("the caller's notes were changed")
	}
	if RedactNotes(nil) == nil {
		t.Error("no notes gave nil, which is null in JSON")
	}
}
