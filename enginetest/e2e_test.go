package enginetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/enginetest/tinymodel"
)

// answer is a chat stream folded together.
type answer struct {
	text   string
	finish string
	events int
	usage  struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

func ask(t *testing.T, s *Server, prompt string, maxTokens int) (a answer) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": s.Model, "stream": true, "max_tokens": maxTokens,
		"stream_options": map[string]any{"include_usage": true},
		"messages":       []any{map[string]any{"role": "user", "content": prompt}},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}
	resp, err := client.Post(s.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c struct {
			Choices []struct {
				Delta  struct{ Content string }
				Finish string `json:"finish_reason"`
			}
			Usage json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, ch := range c.Choices {
			a.text += ch.Delta.Content
			a.finish += ch.Finish
			if ch.Delta.Content != "" {
				a.events++
			}
		}
		if len(c.Usage) > 0 {
			if err := json.Unmarshal(c.Usage, &a.usage); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestEngines holds each engine to what the tiny model promises, which is what
// all other end-to-end tests rest on.
func TestEngines(t *testing.T) {
	kinds := []Kind{LlamaCPP, VLLM}
	// SGLang is for who asks: go run ./enginetest/cmd/engines with sglang -- …
	if os.Getenv(SGLang.URLVar()) != "" {
		kinds = append(kinds, SGLang)
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			s := Run(t, kind, Options{})
			if s.PID != 0 {
				t.Logf("%s %s: ready after %s", kind, s.Engine.Version, s.StartTime.Round(10*time.Millisecond))
			}
			testBehaviours(t, s)
			testCounters(t, s)
		})
	}
}

func testBehaviours(t *testing.T, s *Server) {
	words := func(ws []string) string { return " " + strings.Join(ws, " ") }
	cycle := func(ws []string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(" " + ws[i%len(ws)])
		}
		return b.String()
	}
	for _, c := range []struct {
		mode   string
		max    int
		want   string
		finish string
		tokens int
	}{
		{"loop", 50, cycle(tinymodel.LoopWords, 50), "length", 50},
		{"stutter", 20, cycle([]string{tinymodel.StutterWord}, 20), "length", 20},
		{"longloop", 150, cycle(tinymodel.LongLoopWords, 150), "length", 150},
		{"emoji", 40, strings.Repeat(tinymodel.EmojiText, 4), "length", 40},
		// The token that ends the stream counts.
		{"story", 500, words(tinymodel.StoryWords), "stop", 101},
	} {
		a := ask(t, s, "please "+c.mode, c.max)
		if a.text != c.want {
			t.Errorf("%s: got %q, want %q", c.mode, a.text, c.want)
		}
		if a.finish != c.finish || a.usage.Completion != c.tokens {
			t.Errorf("%s: finished with %q after %d tokens, want %q after %d", c.mode, a.finish, a.usage.Completion, c.finish, c.tokens)
		}
	}

	// Prompts of a wanted length, to the token, and text that does not repeat.
	for i, n := range []int{512, 2048} {
		a := ask(t, s, tinymodel.Prompt(rand.New(rand.NewPCG(1, uint64(i))), n, ""), 300)
		if a.usage.Prompt != n || a.usage.Completion != 300 || a.finish != "length" {
			t.Errorf("endless: usage %+v, finish %q, want %d and 300 tokens", a.usage, a.finish, n)
		}
		checkVaried(t, a.text, 300)
	}
	a := ask(t, s, tinymodel.Prompt(rand.New(rand.NewPCG(1, 9)), 512, "drift"), 3000)
	loop := cycle(tinymodel.LoopWords, 8*40)
	if at := strings.Index(a.text, loop); at < 0 {
		t.Errorf("drift: no loop in %d tokens", a.usage.Completion)
	} else if strings.Count(a.text[:at], " ") < 2 {
		t.Errorf("drift: the loop starts at once: %.60q", a.text)
	}
}

func checkVaried(t *testing.T, text string, n int) {
	t.Helper()
	known := map[string]bool{}
	for _, w := range tinymodel.RandomWords {
		known[w] = true
	}
	// No run of four words comes twice: with 40 words at the least, a repeat by
	// chance has odds of 1 in 50 in 300 words, so two are allowed.
	words, seen, repeats := strings.Fields(text), map[string]bool{}, 0
	for i, w := range words {
		if !known[w] {
			t.Errorf("endless: word %d is %q", i, w)
		}
		if i >= 4 {
			run := strings.Join(words[i-4:i], " ")
			if seen[run] {
				repeats++
			}
			seen[run] = true
		}
	}
	if len(words) != n || repeats > 2 {
		t.Errorf("endless: %d words, %d runs of four repeated; want %d and none: %q", len(words), repeats, n, text)
	}
}

// testCounters checks that the engine's own counter is where MetricsURL says and
// moves by what a stream's usage claims.
func testCounters(t *testing.T, s *Server) {
	before := generated(t, s)
	a := ask(t, s, "please story", 500)
	if got := generated(t, s) - before; got != float64(a.usage.Completion) {
		t.Errorf("the counter moved by %v, usage says %d tokens", got, a.usage.Completion)
	}
}

var counter = regexp.MustCompile(`(?m)^(?:(?:vllm|sglang):generation_tokens_total|llamacpp:tokens_predicted_total)(?:\{[^}]*\})? (\S+)$`)

func generated(t *testing.T, s *Server) float64 {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(s.MetricsURL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	sum, rows := 0.0, counter.FindAllSubmatch(b.Bytes(), -1)
	for _, m := range rows {
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += v
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no counter of generated tokens", s.MetricsURL)
	}
	return sum
}
