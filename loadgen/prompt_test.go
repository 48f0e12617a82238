package loadgen

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

func TestLexicon(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range lexicon {
		if seen[w] {
			t.Errorf("%q stands twice", w)
		}
		seen[w] = true
		if strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q needs more than a-z: tails go into JSON as they stand", w)
		}
	}
	if len(seen) < 1500 {
		t.Errorf("%d words, want at least 1500", len(seen))
	}
	if len(short) < 2*(saltWords+tailWords) {
		t.Errorf("%d words of five letters are no choice", len(short))
	}
}

func TestPromptShape(t *testing.T) {
	p := newPrompts(1, "", "the ask")
	head := p.head(500, 1024, genShared)
	if head != p.head(500, 1024, genShared) {
		t.Error("the same head differs")
	}
	other := p.head(500, 1024, genDistinct)
	if head[:30] == other[:30] {
		t.Errorf("two generations begin alike: %q", head[:30])
	}
	if a, b := len(strings.Fields(head)), len(strings.Fields(other)); a != b || a != saltWords+500 {
		t.Errorf("generations have %d and %d words, want %d", a, b, saltWords+500)
	}
	if a, b := letters(head[strings.Index(head, "\n"):]), letters(other[strings.Index(other, "\n"):]); a != b {
		t.Error("generations differ in more than salt and turn: their lengths would")
	}
	if a, b := p.tail(1024, 2, 0, 0, 0), p.tail(1024, 2, 0, 0, 1); a == b || len(a) != len(b) {
		t.Errorf("tails of two streams: %q, %q; want different ones of one length", a, b)
	}
	// On a real llama-server whose tokeniser knows none of the words, tails of
	// different words gave prompts of 493 to 530 tokens instead of 512.
	if a, b := letters(p.tail(1024, 2, 0, 0, 0)), letters(p.tail(4096, 8, 1, 7, 3)); a != b {
		t.Error("two tails differ in more than the order of their words: their lengths would")
	}
	if a, b := letters(head[:strings.Index(head, "\n")]), letters(other[:strings.Index(other, "\n")]); a != b {
		t.Error("two salts differ in more than the order of their words: their lengths would")
	}
	if q := newPrompts(2, "", "the ask"); q.head(500, 1024, genShared) == head {
		t.Error("another seed gives the same head")
	}
	if q := newPrompts(1, "x", "the ask"); q.head(500, 1024, genShared)[:30] == head[:30] {
		t.Error("another salt of the run gives the same salt")
	}
	if strings.Join(strings.Fields(p.head(300, 0, 5)), " ") == strings.Join(strings.Fields(p.head(301, 0, 5)), " ") {
		t.Error("a word more changes nothing")
	}
}

// letters sums the words of a text, whatever their order.
func letters(s string) (sum uint64) {
	for w := range strings.FieldsSeq(strings.ToLower(strings.ReplaceAll(s, ".", " "))) {
		h := uint64(14695981039346656037)
		for i := range len(w) {
			h = (h ^ uint64(w[i])) * 1099511628211
		}
		sum += h
	}
	return sum
}

// TestR21 holds the prompts of the cells together: with distinct contexts no two
// requests of a cell share their first 64 characters, with a shared one all do,
// and the engine's cache misses it once.
func TestR21(t *testing.T) {
	p := profile(t, "plain")
	p.CacheReport = true
	t.Run("shared: one miss, the cold prime", func(t *testing.T) {
		bubble(t, p, sim.Options{}, func(r *rig) {
			r.run(Config{Contexts: []int{2048}, Concurrency: []int{4, 8}, Duration: 2 * time.Second, Settle: time.Second, PrefillSamples: 1})
			cold := 0
			for _, q := range r.srv.Truth().Requests() {
				if q.Stream && q.Prompt > 2000 && q.Prompt < 2100 && q.Cached < q.Prompt/2 {
					cold++
				}
			}
			if cold != 1 {
				t.Errorf("%d cold prompts of the context, want the prime alone", cold)
			}
		})
	})
	t.Run("distinct: each slot's prime misses, its streams do not", func(t *testing.T) {
		bubble(t, p, sim.Options{}, func(r *rig) {
			out := r.run(Config{Contexts: []int{2048}, Concurrency: []int{4}, Prefix: Distinct, Duration: 2 * time.Second, Settle: time.Second, PrefillSamples: 1})
			cold := 0
			for _, q := range r.srv.Truth().Requests() {
				if q.Stream && q.Prompt > 2000 && q.Prompt < 2100 && q.Cached < q.Prompt/2 {
					cold++
				}
			}
			if cold != 1+4 {
				t.Errorf("%d cold prompts of the context, want the prefill sample and 4 primes", cold)
			}
			if c := cellOf(t, out, matrix.Decode, 2048, 4); c.Status != matrix.Valid {
				t.Errorf("%s (%s), want valid", c.Status, c.Message)
			}
		})
	})
	t.Run("a second run with the seed finds a warm cache, and says so", func(t *testing.T) {
		bubble(t, p, sim.Options{}, func(r *rig) {
			cfg := Config{Contexts: []int{2048}, Concurrency: []int{1}, Duration: time.Second, Settle: time.Second}
			first := r.run(cfg)
			second := r.run(cfg)
			if a, b := first.Header.Config.BodySHA256, second.Header.Config.BodySHA256; a != b || len(a) != 64 {
				t.Errorf("body hashes %q and %q, want the same", a, b)
			}
			c := cellOf(t, second, matrix.Prefill, 2048, 1)
			if !warned(c, "prefill_cached") || c.Completed.V != 3 {
				t.Errorf("warnings %v, %d cold samples; want prefill_cached and 3", c.Warnings, c.Completed.V)
			}
			cfg.Salt = "another"
			if c := cellOf(t, r.run(cfg), matrix.Prefill, 2048, 1); warned(c, "prefill_cached") || c.Streams != 3 {
				t.Errorf("with a salt of its own: %v, %d samples; want 3 cold ones", c.Warnings, c.Streams)
			}
		})
	})
}

// TestPromptLengths is R14's first half: whatever the tokenizer, the prompt hits
// its length by the server's own count.
func TestPromptLengths(t *testing.T) {
	for _, c := range []struct {
		name      string
		tokenizer sim.Tokenizer
		dialect   sim.Dialect
	}{
		{"words", sim.Tokenizer{}, sim.VLLM},
		{"fine, and a long wrapper", sim.Tokenizer{CharsPerToken: 3.1, Extra: 37}, sim.VLLM},
		{"coarse", sim.Tokenizer{CharsPerToken: 5.5}, sim.SGLang},
		{"llama.cpp counts its own way", sim.Tokenizer{CharsPerToken: 4}, sim.LlamaCPP},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := profile(t, "plain")
			p.Tokenizer, p.Dialect = c.tokenizer, c.dialect
			bubble(t, p, sim.Options{}, func(r *rig) {
				out := r.run(Config{Contexts: []int{1024, 8192}, Concurrency: []int{2}, Duration: time.Second, Settle: time.Second, MaxTokens: 512, KVRule: matrix.KVOff})
				for _, rec := range r.file().Records {
					if rec.End != stream.Completed {
						continue // cut before the server told its count
					}
					target := rec.Context
					if target == p.MaxModelLen {
						target--
					}
					if d := rec.PromptTokens.V - target; d > engine.Tolerance(target) || -d > engine.Tolerance(target) || rec.PromptTokens.V >= p.MaxModelLen {
						t.Errorf("%s: prompt of %d tokens, want %d ± %d and below %d", rec.ID, rec.PromptTokens.V, target, engine.Tolerance(target), p.MaxModelLen)
					}
				}
				if c := cellOf(t, out, matrix.Prefill, p.MaxModelLen, 1); c.Status != matrix.Valid {
					t.Errorf("prefill row of the limit: %s (%s)", c.Status, c.Message)
				}
			})
		})
	}
}

// TestSameSeedSameBodies compares what went over the wire in two runs.
func TestSameSeedSameBodies(t *testing.T) {
	bodies := func(seed uint64) (ids []string) {
		bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
			r.run(Config{Contexts: []int{512}, Concurrency: []int{2}, Duration: time.Second, Settle: time.Second, Seed: seed})
			rr, err := newRunner(Config{Seed: seed}.withDefaults(), r.deps)
			if err != nil {
				t.Fatal(err)
			}
			rr.switches = engine.Defaults(engine.SGLang, false)
			tm, err := rr.template(rr.prompts.head(100, 512, genShared), 64, false)
			if err != nil {
				t.Fatal(err)
			}
			body := string(tm.append(nil, rr.prompts.tail(512, 2, 0, 1, 0), "the-id"))
			want, err := rr.switches.Body(rr.bodyInput(rr.prompts.head(100, 512, genShared)+rr.prompts.tail(512, 2, 0, 1, 0)+rr.cfg.Ask, 64, "the-id", false))
			if err != nil || body != string(want) {
				t.Errorf("the template gives\n%s\nwant\n%s (%v)", body, want, err)
			}
			ids = append(ids, body)
			for _, rec := range r.file().Records {
				ids = append(ids, rec.ID)
			}
			ids = append(ids, r.file().Header.Config.BodySHA256)
		})
		return ids
	}
	a, b, c := bodies(7), bodies(7), bodies(8)
	if strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Errorf("one seed, two sets of bodies:\n%v\n%v", a, b)
	}
	if a[len(a)-1] == c[len(c)-1] || a[0] == c[0] {
		t.Error("two seeds, the same bodies")
	}
}

func warned(c matrix.Cell, code string) bool {
	for _, w := range c.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

// deafTokenizer counts no tokens in messages.
type deafTokenizer struct {
	next  http.RoundTripper
	asked atomic.Int32
}

func (d *deafTokenizer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/tokenize" {
		return d.next.RoundTrip(r)
	}
	d.asked.Add(1)
	resp := &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"count":0,"max_model_len":32768,"tokens":[]}`)),
	}
	return resp, r.Body.Close()
}

// TestTokenizerThatCountsNothing: a /tokenize that finds no tokens in messages is
// not believed, and not asked again; the usage of one-token requests makes the
// prompts instead, also the one at the model's limit.
func TestTokenizerThatCountsNothing(t *testing.T) {
	for _, first := range []int{0, 1024} { // counted after the header, and before it
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
				deaf := &deafTokenizer{next: r.deps.Target.Transport}
				r.deps.Target.Transport = deaf
				cfg := Config{Contexts: []int{first, 2048}, Concurrency: []int{2}, Duration: 2 * time.Second, Settle: time.Second}
				out := r.run(cfg)
				for _, c := range out.Cells {
					want(t, c, matrix.Valid, "", "")
					if target := c.Context; target > 0 && (c.PromptTokens.V > target+engine.Tolerance(target) || c.PromptTokens.V < target-engine.Tolerance(target)) {
						t.Errorf("%s %d: prompts of %d tokens", c.Phase, c.Context, c.PromptTokens.V)
					}
				}
				if last := out.Cells[len(out.Cells)-1]; last.Phase != matrix.Prefill || last.Context != 32768 || last.PromptTokens.V >= 32768 {
					t.Errorf("the last row is %s %d with %d tokens, want that of the limit, and not over it", last.Phase, last.Context, last.PromptTokens.V)
				}
				if n := deaf.asked.Load(); n != 2 {
					t.Errorf("/tokenize was asked %d times, want two: by the probe, and for one prompt", n)
				}
				var said []string
				for _, w := range out.Header.Warnings {
					said = append(said, w.Code)
				}
				for _, n := range r.file().Notes {
					said = append(said, n.Code)
				}
				if n := strings.Count(strings.Join(said, " "), "tokenize"); n != 1 {
					t.Errorf("warnings and notes %v, want one about the tokenizer", said)
				}
			})
		})
	}
}
