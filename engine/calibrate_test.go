package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// words are texts of varied words, the same beginning for the same seed.
func words(seed uint64, of []string) func(int) string {
	var made strings.Builder
	var ends []int // of each word
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(n int) string {
		for len(ends) < n {
			if made.Len() > 0 && len(of[0]) > 3 {
				made.WriteByte(' ')
			}
			made.WriteString(of[rng.IntN(len(of))])
			ends = append(ends, made.Len())
		}
		if n == 0 {
			return ""
		}
		return made.String()[:ends[n-1]]
	}
}

var (
	latin = strings.Fields("about afternoon between carefully despite every following government have important just kitchen " +
		"language many never ordinary perhaps question remember something through understanding very without yesterday " +
		"river stone bread light window paper silver garden mountain whisper")
	cjk = strings.Split("天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏", "")
)

// R14: the target is hit whatever the tokenizer does, in few probes, and never
// above the limit; a server that refuses a text which is above it is no end.
func TestR14Calibrate(t *testing.T) {
	wrapped := func(n int, per float64) func(string) int {
		return func(s string) int { return int(math.Ceil(float64(utf8.RuneCountInString(s))/per)) + n }
	}
	for _, tok := range []struct {
		name  string
		words []string
		count func(string) int
	}{
		{"ceil(chars/3.1)+37", latin, wrapped(37, 3.1)},
		{"chars/5.5", latin, func(s string) int { return int(float64(utf8.RuneCountInString(s)) / 5.5) }},
		{"a token a CJK character", cjk, utf8.RuneCountInString},
		{"a token a CJK character, and a template", cjk, wrapped(37, 1)},
		{"a template of 300 tokens", latin, wrapped(300, 4.2)},
		{"a token a byte", latin, func(s string) int { return len(s) }},
		{"text that gets denser by 3 %", latin, func(s string) int { n := float64(len(s)); return int(n/5 + n*n/2e8) }},
	} {
		for _, at := range []struct{ target, limit int }{
			{512, 0}, {1024, 0}, {2048, 0}, {8192, 0}, {16384, 20000}, {131072, 0}, {257024, 262144},
			{4095, 4095},     // the prefill row of a model's limit
			{262143, 262143}, // the same of a large one
			{3990, 4000},     // a limit inside the tolerance
		} {
			seeds := uint64(3)
			if at.target > 100_000 {
				seeds = 1 // long texts vary less
			}
			for seed := range seeds {
				probes := 0
				fit, err := Calibrate(t.Context(), at.target, at.limit, words(seed, tok.words), func(_ context.Context, s string) (int, error) {
					probes++
					n := tok.count(s)
					if at.limit > 0 && n > at.limit {
						return 0, fmt.Errorf("by a request: %w", &Error{Kind: Overflow})
					}
					return n, nil
				})
				if err != nil {
					t.Errorf("%s, %d of %d, seed %d: %v", tok.name, at.target, at.limit, seed, err)
					continue
				}
				tolerance := max(float64(at.target)*0.005, 16)
				if off := math.Abs(float64(fit.Tokens - at.target)); off > tolerance || at.limit > 0 && fit.Tokens > at.limit {
					t.Errorf("%s, %d of %d, seed %d: %d tokens", tok.name, at.target, at.limit, seed, fit.Tokens)
				}
				if fit.Probes != probes || probes > 4 {
					t.Errorf("%s, %d: %d probes, says %d, want at most 4", tok.name, at.target, probes, fit.Probes)
				}
				if got := tok.count(words(seed, tok.words)(fit.Units)); got != fit.Tokens {
					t.Errorf("%s, %d: %d units are %d tokens, says %d", tok.name, at.target, fit.Units, got, fit.Tokens)
				}
			}
		}
	}
}

// A server that counts anything, over its limit too, leaves the bounds to us: what
// is accepted lies within them, to the token.
func TestCalibrateKeepsItsBounds(t *testing.T) {
	hits := 0
	rapid.Check(t, func(t *rapid.T) {
		perUnit := rapid.IntRange(1, 40).Draw(t, "tokens a unit")
		wrapper := rapid.IntRange(0, 500).Draw(t, "wrapper")
		target := rapid.IntRange(600, 20_000).Draw(t, "target")
		limit := target + rapid.IntRange(-Tolerance(target), 20).Draw(t, "limit over target")
		text := func(n int) string { return strings.Repeat("x", n) }
		fit, err := Calibrate(context.Background(), target, limit, text, func(_ context.Context, s string) (int, error) {
			return wrapper + perUnit*len(s), nil
		})
		if err != nil {
			return // no multiple of perUnit may lie between the walls
		}
		hits++
		if n := fit.Tokens; n > limit || n < target-Tolerance(target) || n > target+Tolerance(target) {
			t.Fatalf("%d tokens accepted for a target of %d and a limit of %d", n, target, limit)
		}
	})
	if hits < 20 {
		t.Errorf("%d of 100 prompts were found, want at least 20 to judge by", hits)
	}
}

// The template's tokens are not taken for text.
func TestCalibrateSeparatesTheWrapper(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	fit, err := Calibrate(t.Context(), 10000, 0, text, func(_ context.Context, s string) (int, error) { return 500 + 2*len(s), nil })
	if err != nil || math.Abs(fit.Wrapper-500) > 1 || math.Abs(fit.PerUnit-2) > 0.01 {
		t.Errorf("%+v, %v, want a wrapper of 500 and 2 a unit", fit, err)
	}
}

func TestCalibrateFailures(t *testing.T) {
	broken := errors.New("connection refused")
	text := func(n int) string { return strings.Repeat("x", n) }
	for _, tc := range []struct {
		name          string
		target, limit int
		count         func(string) (int, error)
		want          string
	}{
		{"limit below the target", 8192, 4096, func(s string) (int, error) { return len(s), nil }, "a prompt of 8192 tokens cannot be made: the limit is 4096"},
		{"nothing asked for", 0, 0, func(s string) (int, error) { return len(s), nil }, "a prompt of 0 tokens cannot be made"},
		{"the count fails", 100, 0, func(string) (int, error) { return 0, broken }, "counting the tokens of 12 units: connection refused"},
		{"the count never grows", 1000, 0, func(string) (int, error) { return 7, nil }, "no prompt of 984 to 1016 tokens found in 4 probes: the nearest was"},
		{"the template alone is too long", 100, 0, func(s string) (int, error) { return 5000 + len(s), nil }, "no prompt of 84 to 116 tokens found"},
		{"units as large as books", 100, 0, func(s string) (int, error) { return 5000 * len(s), nil }, "no prompt of 84 to 116 tokens found"},
	} {
		_, err := Calibrate(t.Context(), tc.target, tc.limit, text, func(_ context.Context, s string) (int, error) { return tc.count(s) })
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
