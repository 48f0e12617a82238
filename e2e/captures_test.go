package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestToldReadsCaptures holds the reader that the other tests trust against
// captured responses whose counts are known from their requests. It needs no
// engine.
func TestToldReadsCaptures(t *testing.T) {
	for _, c := range []struct {
		file, finish  string
		prompt, final int
		counted, ids  int // by the last event
		text          string
	}{
		{"vllm/03-chat-continuous-usage-token-ids", "length", 7, 8, 8, 8, " the quick brown fox jumps over lazy dogs"},
		{"vllm/01-chat-usage", "length", 7, 12, 12, 0, " the quick brown fox jumps over lazy dogs the quick brown fox"},
		{"llamacpp/03-chat-timings", "length", 7, 8, 8, 0, " the quick brown fox jumps over lazy dogs"},
		{"llamacpp/05-completions-usage", "length", 7, 8, 8, 0, " the quick brown fox jumps over lazy dogs"},
		{"llamacpp/17-chat-n2", "length", 7, 8, 4, 0, " the the quick quick brown brown fox fox"},
		{"llamacpp/22-chat-not-streamed", "", 7, 4, 0, 0, ""},
	} {
		t.Run(c.file, func(t *testing.T) {
			said, err := os.ReadFile(filepath.Join("..", "testdata", c.file+".http"))
			if err != nil {
				t.Fatal(err)
			}
			asked := []byte("POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: one\r\nContent-Length: 2\r\n\r\n{}")
			now := time.Now()
			all, err := readTape(asked, said, []mark{{end: len(said), before: now, after: now}})
			if err != nil || len(all) != 1 {
				t.Fatalf("%d answers, %v; want one", len(all), err)
			}
			s := all[0]
			if s.id != "one" || !s.done || s.finish != c.finish || s.prompt != c.prompt || s.text != c.text {
				t.Errorf("id %q, done %v, finish %q, prompt %d, text %q; want one, true, %q, %d, %q",
					s.id, s.done, s.finish, s.prompt, s.text, c.finish, c.prompt, c.text)
			}
			if s.final == nil || *s.final != c.final {
				t.Errorf("final usage of %+v, want %d", s, c.final)
			}
			var last saying
			if n := len(s.events); n > 0 {
				last = s.events[n-1]
			}
			if last.counted != c.counted || last.ids != c.ids || last.chars != len(c.text) || (len(s.events) > 0 && last.after != now) {
				t.Errorf("the last event has %d counted, %d ids, %d characters; want %d, %d, %d", last.counted, last.ids, last.chars, c.counted, c.ids, len(c.text))
			}
			// A connection that was cut anywhere is read as far as it came.
			for cut := 0; cut < len(said); cut += 11 {
				part, err := readTape(asked, said[:cut], []mark{{end: len(said)}})
				if err != nil || len(part) != 1 {
					t.Fatalf("cut at %d: %d answers, %v", cut, len(part), err)
				}
				if n := len(part[0].events); n > len(s.events) || n > 0 && part[0].events[n-1].counted != s.events[n-1].counted {
					t.Fatalf("cut at %d: %d events that differ", cut, n)
				}
			}
		})
	}
}
