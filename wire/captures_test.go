package wire

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// captures returns the bodies in testdata by their file name.
func captures(t testing.TB) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	for _, ext := range []string{"sse", "json", "ndjson"} {
		files, err := filepath.Glob("testdata/*/*." + ext)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			p, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out[strings.TrimPrefix(filepath.ToSlash(f), "testdata/")] = p
		}
	}
	if len(out) < 60 {
		t.Fatalf("%d captures in testdata, want at least 60", len(out))
	}
	return out
}

// dialectOf returns the dialect of a capture, which its name tells where it is
// not chat or completions.
func dialectOf(name string) Dialect {
	switch {
	case strings.Contains(name, "messages.sse"):
		return Messages
	case strings.Contains(name, "responses.sse"):
		return Responses
	case strings.Contains(name, "ollama"):
		return Ollama
	}
	return Chat
}

func pieces(body []byte, cuts []int) (out []string) {
	start := 0
	for _, c := range cuts {
		out = append(out, string(body[start:c]))
		start = c
	}
	return append(out, string(body[start:]))
}

// However a body is cut into reads, its events are the same.
func TestCapturesSplitAnywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, body := range captures(t) {
		dialect := dialectOf(name)
		whole, dec := decodeAs(t, dialect, 0, string(body))
		if dec.Blind() != "" {
			t.Errorf("%s: blind: %s", name, dec.Blind())
		}
		single, _ := decodeAs(t, dialect, 0, strings.Split(string(body), "")...)
		if d := diff(single, whole); d != "" {
			t.Errorf("%s: byte by byte - whole +:\n%s", name, d)
		}
		for range 10 {
			var cuts []int
			for i := 0; i < len(body); i += 1 + rng.IntN(300) {
				cuts = append(cuts, i)
			}
			cut, _ := decodeAs(t, dialect, 0, pieces(body, cuts)...)
			if d := diff(cut, whole); d != "" {
				t.Errorf("%s: random cuts - whole +:\n%s", name, d)
				break
			}
		}
	}
}

// Every data line of a capture is understood; the number of its events is that
// of its data lines, and the text is what a plain search finds.
func TestCapturesAreUnderstood(t *testing.T) {
	for name, body := range captures(t) {
		events, _ := decodeAs(t, dialectOf(name), 0, string(body))
		want := bytes.Count(body, []byte("data: "))
		switch {
		case strings.HasSuffix(name, ".json"):
			want = 1
		case strings.HasSuffix(name, ".ndjson"):
			want = bytes.Count(body, []byte("\n"))
		}
		if len(events) != want {
			t.Errorf("%s: %d events, want %d", name, len(events), want)
		}
		for i, ev := range events {
			if ev.Kind == Malformed {
				t.Errorf("%s: event %d is malformed", name, i)
			}
			if ev.Kind == Data && len(ev.Choices) == 0 && !ev.Usage.Has && dialectOf(name) == Chat {
				t.Errorf("%s: event %d says nothing", name, i)
			}
		}
		if strings.HasSuffix(name, ".json") {
			wantKind := Failure
			switch {
			case strings.Contains(name, "ollama"):
				wantKind = Done
			case strings.Contains(name, "nonstream"):
				wantKind = Data
			}
			if len(events) == 1 && events[0].Kind != wantKind {
				t.Errorf("%s: kind %d, want %d", name, events[0].Kind, wantKind)
			}
			if len(events) == 1 && wantKind == Failure && events[0].Error.Message == "" {
				t.Errorf("%s: no message", name)
			}
		}
	}
}

// What some captures must say, told by hand from their bytes.
func TestCapturesByHand(t *testing.T) {
	all := captures(t)
	for _, c := range []struct {
		file       string
		text       string // content of choice 0
		finish     string
		completion int // the greatest completion_tokens told
		ids        int // sum of token_ids
		logprobs   int // sum of entries
		done       bool
	}{
		{"vllm/15-anthropic-messages.sse", " the quick brown fox", "length", 4, 0, 0, true},
		{"vllm/16-responses.sse", " the quick brown fox", "length", 4, 0, 0, true},
		{"llamacpp/15-anthropic-messages.sse", " the quick brown fox", "length", 4, 0, 0, true},
		{"llamacpp/16-responses.sse", " the quick brown fox", "stop", 4, 0, 0, true}, // what it says at the limit
		{"sglang/15-anthropic-messages.sse", " the quick brown fox", "length", 4, 0, 0, true},
		{"sglang/16-responses.sse", " the quick", "length", 2, 0, 0, true},
		{"sglang/17-ollama-chat.ndjson", " the quick brown fox jumps", "stop", None, 0, 0, true}, // six were asked for
		{"sglang/18-ollama-generate.ndjson", " the quick brown fox jumps", "stop", None, 0, 0, true},
		{"sglang/19-ollama-chat-nonstream.json", " the quick brown fox", "stop", 4, 0, 0, true},
		{"vllm/01-chat-usage.sse", " the quick brown fox jumps over", "length", 6, 0, 0, true},
		{"vllm/03-chat-continuous-usage-token-ids.sse", " the quick brown fox", "length", 4, 4, 0, true},
		{"vllm/05-completions-usage.sse", " the quick brown fox", "length", 4, 0, 0, true},
		{"vllm/08-chat-logprobs.sse", " the quick brown", "length", 3, 0, 3, true},
		{"llamacpp/01-chat-usage.sse", " the quick brown fox jumps over lazy dogs the quick", "length", 10, 0, 0, true},
		{"llamacpp/08-chat-logprobs.sse", " the quick brown", "length", 3, 0, 3, true},
		{"sglang/01-chat-usage.sse", " the quick brown fox jumps over", "length", 6, 0, 0, true},
	} {
		events, _ := decodeAs(t, dialectOf(c.file), 0, string(all[c.file]))
		var text, finish string
		completion, ids, logprobs, done := None, 0, 0, false
		for _, ev := range events {
			done = done || ev.Kind == Done
			completion = max(completion, ev.Usage.CompletionTokens)
			for _, ch := range ev.Choices {
				for _, p := range ch.Parts {
					text += string(p.Text)
				}
				if ch.Finish != nil {
					finish = string(ch.Finish)
				}
				ids += max(ch.TokenIDs, 0)
				logprobs += max(ch.Logprobs, 0)
			}
		}
		if text != c.text || finish != c.finish || completion != c.completion || ids != c.ids || logprobs != c.logprobs || done != c.done {
			t.Errorf("%s: got %q %q %d %d %d %v, want %q %q %d %d %d %v", c.file, text, finish, completion, ids, logprobs, done, c.text, c.finish, c.completion, c.ids, c.logprobs, c.done)
		}
	}
}
