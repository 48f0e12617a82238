package sim

import (
	"strings"
	"testing"
	"time"
)

func TestLoopsLookAsTold(t *testing.T) {
	p := plain()
	p.Loops = []LoopRule{{Concurrency: 1, Share: 1, OnsetMin: time.Second, OnsetMax: 2 * time.Second, PeriodMin: 12, PeriodMax: 20, Faster: 2}}
	inBubble(t, p, Options{Seed: 3}, func(b *bench) {
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 50, 1500, "a", ""), nil)
		r := b.srv.Truth().Requests()[0]
		text := a.text(t, 0)
		if r.LoopToken < 100 || r.LoopToken > 201 {
			t.Errorf("onset at token %d, want 1 s to 2 s of 10 ms", r.LoopToken)
		}
		if got := p.Tokenizer.count(text[:r.LoopChars]); got != r.LoopToken {
			t.Errorf("%d tokens before the loop in the text, the truth says %d", got, r.LoopToken)
		}
		loop := text[r.LoopChars:]
		if n := len(loop) / r.LoopPeriod; n < 20 || strings.Repeat(loop[:r.LoopPeriod], n) != loop[:n*r.LoopPeriod] {
			t.Errorf("%d cycles of %d characters expected in %.80q…", n, r.LoopPeriod, loop)
		}
		last := r.Emits[len(r.Emits)-2]
		if last.Tokens != 2 || r.Emits[10].Tokens != 1 {
			t.Errorf("tokens per chunk %d in the loop and %d before, want 2 and 1", last.Tokens, r.Emits[10].Tokens)
		}
	})
}

func TestSameSeedSameText(t *testing.T) {
	p := plain()
	p.EOS = Lengths{Median: 40, Sigma: 0.5}
	texts := func(seed uint64) (out []string) {
		inBubble(t, p, Options{Seed: seed}, func(b *bench) {
			for _, a := range b.together([]string{chatBody(p, 50, 500, "a", ""), chatBody(p, 50, 500, "b", ""), chatBody(p, 50, 500, "a", "")}, nil) {
				out = append(out, a.text(t, 0))
			}
		})
		return out
	}
	x, y, z := texts(1), texts(1), texts(2)
	if x[1] != y[1] {
		t.Error("the same seed and prompt gave two texts")
	}
	// Which of two equal prompts came first is not told, their texts are.
	if !(x[0] == y[0] && x[2] == y[2] || x[0] == y[2] && x[2] == y[0]) || x[0] == x[2] {
		t.Error("equal prompts: want the same two different texts in each run")
	}
	if x[1] == z[1] {
		t.Error("another seed gave the same text")
	}
}

func TestLoopOnsetIsCapped(t *testing.T) {
	p := plain()
	p.Loops = []LoopRule{{Share: 1, OnsetMin: 100 * time.Second, OnsetMax: 101 * time.Second, PeriodMin: 12, PeriodMax: 12}}
	inBubble(t, p, Options{}, func(b *bench) {
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 4096, "a", ""), nil)
		if r := b.srv.Truth().Requests()[0]; r.LoopToken != maxOnset || r.LoopChars < 0 {
			t.Errorf("onset at token %d, want %d", r.LoopToken, maxOnset)
		}
	})
}

func TestLoopDoesNotBeginEarly(t *testing.T) {
	for seed := range uint64(500) {
		p := newProse(seed)
		p.loop(40, 12)
		var b strings.Builder
		for range 64 {
			b.WriteString(vocabulary[p.next()])
		}
		text := b.String()
		onset := 0
		for i, q := 0, newProse(seed); i < 40; i++ {
			onset += len(vocabulary[q.next()])
		}
		if text[onset-1] == text[onset+p.cycle-1] || text[onset:onset+p.cycle] != text[onset+p.cycle:onset+2*p.cycle] {
			t.Fatalf("seed %d: onset %d, cycle %d in %q", seed, onset, p.cycle, text)
		}
	}
}
