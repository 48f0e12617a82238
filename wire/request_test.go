package wire

import (
	"strings"
	"testing"
)

func TestRequestFacts(t *testing.T) {
	for _, c := range []struct {
		name, body        string
		model             string
		stream, usage, ok bool
	}{
		{"chat", `{"model":"m","messages":[{"role":"user","content":"x \"stream\":true } ]"}],"stream":true}`, "m", true, false, true},
		{"usage asked for", `{"stream_options":{"include_usage":true},"model":"m","stream":true}`, "m", true, true, true},
		{"usage declined", `{"stream_options":{"include_usage":false,"x":1},"stream":true}`, "", true, false, true},
		{"stream_options null", ` { "stream" : true , "stream_options" : null } `, "", true, false, true},
		{"the last of two keys wins, as in most parsers", `{"stream":true,"stream":false,"model":"a","model":"b"}`, "b", false, false, true},
		{"escaped model", `{"model":"org\/m\u0041"}`, "org/mA", false, false, true},
		{"model of another type", `{"model":["m"]}`, "", false, false, true},
		{"nested members are not ours", `{"extra":{"model":"x","stream":true}}`, "", false, false, true},
		{"empty object", `{}`, "", false, false, true},
		{"stream as a text is no stream", `{"stream":"true"}`, "", false, false, true},
		{"backslashes before a quote", `{"a":"\\\\","b":"\\\"","model":"m"}`, "m", false, false, true},
		{"array", `[{"model":"m"}]`, "", false, false, false},
		{"cut", `{"model":"m","messages":[`, "m", false, false, false},
		{"tail", `{"model":"m"}{`, "m", false, false, false},
		{"no colon", `{"model" "m"}`, "", false, false, false},
		{"nothing", ``, "", false, false, false},
	} {
		model, stream, usage, ok := RequestFacts(Chat, []byte(c.body))
		if model != c.model || stream != c.stream || usage != c.usage || ok != c.ok {
			t.Errorf("%s: got %q %v %v %v, want %q %v %v %v", c.name, model, stream, usage, ok, c.model, c.stream, c.usage, c.ok)
		}
	}
}

func BenchmarkRequestFacts(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("the quick brown fox \\n", 1<<20/22) + `"}],"stream":true}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, stream, _, ok := RequestFacts(Chat, body); !stream || !ok {
			b.Fatal("not understood")
		}
	}
}

// What /api/chat and /api/generate do when stream is not named.
func TestRequestFactsOfOllama(t *testing.T) {
	for _, c := range []struct {
		name, body string
		stream, ok bool
	}{
		{"not named", `{"model":"m"}`, true, true},
		{"asked for", `{"model":"m","stream":true}`, true, true},
		{"declined", `{"model":"m","stream":false}`, false, true},
		{"null is the default", `{"model":"m","stream":null}`, true, true},
	} {
		if _, stream, _, ok := RequestFacts(Ollama, []byte(c.body)); stream != c.stream || ok != c.ok {
			t.Errorf("%s: got %v %v, want %v %v", c.name, stream, ok, c.stream, c.ok)
		}
	}
}
