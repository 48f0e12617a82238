package sim

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSeedBudgets: one KV budget a file refuses exactly the cells that the
// published runs refused.
func TestSeedBudgets(t *testing.T) {
	refused := 0
	for _, name := range seedNames {
		s, err := LoadSeed(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.KVTokens%p.BlockSize != 0 || p.KVTokens < p.MaxModelLen {
			t.Errorf("%s: %d KV tokens in blocks of %d for a context of %d", name, p.KVTokens, p.BlockSize, p.MaxModelLen)
		}
		for _, r := range s.Rows {
			if r.Phase != "decode" {
				continue
			}
			over := r.Concurrency*(r.Context+s.MaxOutput) > p.KVTokens
			if want := r.Status == "over_capacity"; over != want {
				t.Errorf("%s %d × %d: over capacity %t, want %t", name, r.Context, r.Concurrency, over, want)
			}
			if over {
				refused++
			}
			// The load generator's prompts miss their length by up to 0.5 %.
			miss := r.Concurrency * r.Context / 200
			if need := r.Concurrency * (r.Context + s.MaxOutput); need-miss <= p.KVTokens && need+miss > p.KVTokens {
				t.Errorf("%s %d × %d: half a percent of its prompt decides", name, r.Context, r.Concurrency)
			}
		}
	}
	if refused != 46 {
		t.Errorf("%d cells refused in all files, want 46", refused)
	}
}

// cellRun is what a trivial client counts: C streams of one context, restarted
// when they end, and a window that opens settle after all have begun.
type cellRun struct {
	tokens int
	ttft   time.Duration // median of the burst
}

const windowLength = 30 * time.Second

func runCell(t *testing.T, p Profile, context, concurrency, maxTokens int, settle time.Duration) cellRun {
	type seen struct {
		at     time.Time
		tokens int
	}
	var run cellRun
	inBubble(t, p, Options{}, func(b *bench) {
		body := func(tail string, most int) string {
			common := chatBody(p, context-16, most, "salt", "")
			return strings.Replace(common, `"}],`, " "+tail+` "}],`, 1)
		}
		more := `"stream_options":{"include_usage":true,"continuous_usage_stats":true},`
		with := func(s string) string { return strings.Replace(s, `"stream":true,`, `"stream":true,`+more, 1) }
		b.do("POST", "/v1/chat/completions", body("prime", 1), nil)
		start := time.Now()
		stop := start.Add(settle + windowLength + 5*time.Second)
		logs := make([][]seen, concurrency)
		ttfts := make([]time.Duration, concurrency)
		done := make(chan struct{})
		for i := range concurrency {
			go func() {
				defer func() { done <- struct{}{} }()
				for n := 0; time.Now().Before(stop); n++ {
					last := 0
					sent := time.Now()
					a := b.do("POST", "/v1/chat/completions", with(body(fmt.Sprintf("%d %d", i, n), maxTokens)), func(e event) bool {
						k := completionTokens(e.data)
						if k > last {
							if last == 0 && n == 0 {
								ttfts[i] = e.at.Sub(sent)
							}
							logs[i] = append(logs[i], seen{e.at, k - last})
							last = k
						}
						return !e.at.Before(stop)
					})
					if a.status != 200 {
						t.Errorf("status %d: %s", a.status, a.body)
						return
					}
				}
			}()
		}
		for range concurrency {
			<-done
		}
		slices.Sort(ttfts)
		run.ttft = ttfts[len(ttfts)/2]
		open := start.Add(slices.Max(ttfts) + settle)
		for _, l := range logs {
			for _, s := range l {
				if !s.at.Before(open) && s.at.Before(open.Add(windowLength)) {
					run.tokens += s.tokens
				}
			}
		}
	})
	return run
}

// completionTokens finds the count in a chunk without decoding it all.
func completionTokens(data string) int {
	i := strings.LastIndex(data, `"completion_tokens":`)
	if i < 0 {
		return 0
	}
	n := 0
	for _, c := range []byte(data[i+len(`"completion_tokens":`):]) {
		if !digit(c) {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

func checkCell(t *testing.T, name string, r SeedRow) {
	t.Helper()
	p, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	got := runCell(t, p, r.Context, r.Concurrency, 4096, 4*time.Second)
	// One chunk a stream may fall on either side of the window's edges.
	slack := max(0.005*float64(*r.OutputTokens), float64(r.Concurrency*slices.Max(p.withDefaults().Chunks)))
	if d := math.Abs(float64(got.tokens - *r.OutputTokens)); d > slack {
		t.Errorf("%d tokens in the window, published %d", got.tokens, *r.OutputTokens)
	}
	if want := millis(*r.TTFTms); got.ttft != want {
		t.Errorf("TTFT %v, published %v", got.ttft, want)
	}
}

// TestSeedCells replays a handful of published cells, under the race detector
// too; TestSeedMatrices has them all.
func TestSeedCells(t *testing.T) {
	for _, c := range []struct {
		name                 string
		context, concurrency int
	}{
		{"gemma-4-e2b-sglang", 8192, 1},  // completes one reply
		{"gemma-4-e2b-sglang", 16384, 4}, // four that complete a reply each
		{"gemma-4-e2b-sglang", 125952, 8},
		{"laguna-xs-vllm", 8192, 2},
		{"laguna-xs-vllm", 257024, 4},
		{"gemma-4-12b-vllm", 257024, 1}, // 382 tokens in the whole window
	} {
		t.Run(fmt.Sprintf("%s-%d-%d", c.name, c.context, c.concurrency), func(t *testing.T) {
			t.Parallel()
			s, err := LoadSeed(c.name)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range s.Rows {
				if r.Phase == "decode" && r.Context == c.context && r.Concurrency == c.concurrency {
					checkCell(t, c.name, r)
					return
				}
			}
			t.Error("no such row")
		})
	}
}

// TestSeedMatrices replays every valid decode cell of the three files.
func TestSeedMatrices(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("54 cells, 2 million tokens: not in -short, not under the race detector")
	}
	cells := 0
	for _, name := range seedNames {
		s, err := LoadSeed(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.Rows {
			if r.Phase != "decode" || r.Status != "valid" {
				continue
			}
			cells++
			t.Run(fmt.Sprintf("%s-%d-%d", name, r.Context, r.Concurrency), func(t *testing.T) {
				t.Parallel()
				checkCell(t, name, r)
			})
		}
	}
	if cells != 54 {
		t.Errorf("%d valid cells, want 54", cells)
	}
}

// TestSeedPrefill: a cold prompt takes the published time.
func TestSeedPrefill(t *testing.T) {
	for _, name := range seedNames {
		s, err := LoadSeed(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.Rows {
			if r.Phase != "prefill" {
				continue
			}
			inBubble(t, p, Options{}, func(b *bench) {
				start := time.Now()
				prompt := min(r.Context, p.MaxModelLen-1) // the limit's row leaves room for a token
				a := b.do("POST", "/v1/chat/completions", chatBody(p, prompt, 1, "cold", ""), nil)
				if a.status != 200 {
					t.Fatalf("status %d: %s", a.status, a.body)
				}
				got, want := a.events[0].at.Sub(start), millis(*r.TTFTms)
				if d := (got - want).Abs(); float64(d) > 0.001*float64(want) {
					t.Errorf("%s prefill of %d: %v, published %v", name, r.Context, got, want)
				}
			})
		}
	}
}

// TestSeedLoops: streams of a published looped cell loop, those of a valid
// one do not.
func TestSeedLoops(t *testing.T) {
	p, err := Lookup("laguna-xs-vllm")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		concurrency int
		loops       bool
	}{{1, true}, {2, false}, {4, true}} {
		inBubble(t, p, Options{}, func(b *bench) {
			var bodies []string
			for i := range c.concurrency {
				bodies = append(bodies, chatBody(p, 16384, 4096, fmt.Sprint("s", i), ""))
			}
			b.together(bodies, nil)
			for _, r := range b.srv.Truth().Requests() {
				if got := r.LoopChars >= 0; got != c.loops {
					t.Errorf("16384 × %d: a stream loops: %t, want %t", c.concurrency, got, c.loops)
				}
				if c.loops && r.Tokens < r.LoopToken+900 {
					t.Errorf("16384 × %d: %d tokens after the onset: too few for 4096 characters", c.concurrency, r.Tokens-r.LoopToken)
				}
			}
		})
	}
}

// TestSeedFilesAreTheData guards the copies: a row that is missing or a number
// that is edited would go unseen otherwise.
func TestSeedFilesAreTheData(t *testing.T) {
	rows, sum := 0, 0
	for _, name := range seedNames {
		s, err := LoadSeed(name)
		if err != nil {
			t.Fatal(err)
		}
		rows += len(s.Rows)
		for _, r := range s.Rows {
			if r.OutputTokens != nil {
				sum += *r.OutputTokens
			}
		}
		b, err := seedFiles.ReadFile("seeds/" + name + ".json")
		if err != nil || !bytes.Contains(b, []byte(`"launch"`)) {
			t.Errorf("%s: no launch line, error %v", name, err)
		}
	}
	if rows != 156 || sum == 0 {
		t.Errorf("%d rows, %d output tokens; want 156 rows", rows, sum)
	}
}
