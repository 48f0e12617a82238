package detect

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var pieceSizes = []int{1, 3, 7, 31, 64, 256, 901, 0}

// verdictsOf feeds text in pieces whose sizes are taken in turn (0: all the
// rest), and gives every verdict.
func verdictsOf(l *Loop, text string, sizes ...int) []Verdict {
	l.Reset()
	for i := 0; text != ""; i++ {
		n := sizes[i%len(sizes)]
		if n == 0 || n > len(text) {
			n = len(text)
		}
		l.FeedString(text[:n])
		text = text[n:]
	}
	l.Finish()
	return slices.Clone(l.Verdicts())
}

// drawText makes a text that is likely to hold a rule or to miss it narrowly.
func drawText(t *rapid.T) string {
	alphabet := rapid.SampledFrom([]string{"ab", "ab ", latin, "资料商店结论", "aé漢🙂", " \n\tx", "0123456789"}).Draw(t, "alphabet")
	stretch := func(name string, most int) string {
		return randomLetters(rapid.Uint64Range(0, 99).Draw(t, name+" seed"), rapid.IntRange(0, most).Draw(t, name+" length"), alphabet)
	}
	var b strings.Builder
	b.WriteString(stretch("lead", 300))
	for range rapid.IntRange(1, 3).Draw(t, "loops") {
		cycle := drawCycle(t, stretch)
		runes := []rune(cycle)
		if rapid.Bool().Draw(t, "lead ends like the cycle") && len(runes) > 0 {
			b.WriteString(string(runes[rapid.IntRange(0, len(runes)).Draw(t, "tail"):]))
		}
		for n := rapid.IntRange(1, 9).Draw(t, "times"); n > 0 && b.Len() < 5000; n-- {
			b.WriteString(cycle)
		}
		b.WriteString(string(runes[:rapid.IntRange(0, len(runes)).Draw(t, "part")]))
		b.WriteString(stretch("after", 20))
	}
	return b.String()
}

func drawCycle(t *rapid.T, stretch func(string, int) string) string {
	a, b := stretch("a", 400), stretch("b", 40)
	switch rapid.IntRange(0, 5).Draw(t, "shape") {
	case 0:
		return a
	case 1: // a short loop, and something else
		return strings.Repeat(b, rapid.IntRange(1, 30).Draw(t, "inner")) + a
	case 2: // blocks in pairs
		return strings.NewReplacer("1", a, "2", b).Replace("11122212")
	case 3: // nested cubes
		return strings.Repeat(strings.Repeat(b, 3)+"y", 3) + "z"
	case 4: // calm runs of one or two periods, of all lengths
		var s strings.Builder
		for range rapid.IntRange(1, 4).Draw(t, "calm runs") {
			period := stretch("calm", 40)
			n := rapid.IntRange(0, 400).Draw(t, "calm length") / max(1, len(period))
			s.WriteString(strings.Repeat(period, n) + b)
		}
		return s.String()
	default: // a rule within
		return a + strings.Repeat("-", rapid.IntRange(1, 600).Draw(t, "rule")) + b
	}
}

func TestVerdictsAreExactAndInvariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		limits := rapid.SampledFrom(fuzzLimits).Draw(t, "limits")
		l, err := New(limits)
		if err != nil {
			t.Fatal(err)
		}
		limits = limits.withDefaults()
		whole := verdictsOf(l, text, 0)
		want, holds := oracle([]byte(text), limits.Cycles, limits.Chars, limits.PeriodBytes, limits.PeriodChars)
		if v, ok := reached(whole, Confirmed); ok != holds || v.finding() != want {
			t.Fatalf("confirmed %v %+v, want %v %+v", ok, v.finding(), holds, want)
		}
		if limits.PeriodBytes > len(text) { // else the limit in bytes, which the definition does not know, may decide
			chars, holds := oracleChars(text, limits.Cycles, limits.Chars, limits.PeriodChars)
			if v, ok := reached(whole, Confirmed); ok != holds || v.finding() != chars {
				t.Fatalf("confirmed %v %+v, by code points %v %+v", ok, v.finding(), holds, chars)
			}
		}
		for _, size := range pieceSizes {
			if diff := cmp.Diff(whole, verdictsOf(l, text, size)); diff != "" {
				t.Fatalf("pieces of %d change the verdicts (-whole +pieces):\n%s", size, diff)
			}
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 200), 1, 8).Draw(t, "sizes")
		if diff := cmp.Diff(whole, verdictsOf(l, text, sizes...)); diff != "" {
			t.Fatalf("pieces of %v change the verdicts (-whole +pieces):\n%s", sizes, diff)
		}
	})
}

// The corpus, cut in every way: all verdicts, near and counter too, are those of
// the whole text.
func TestCorpusInvariance(t *testing.T) {
	stride := 1
	if raceEnabled || testing.Short() {
		stride = 12
	}
	l := newLoop(t, Limits{})
	n := 0
	readCorpus(t, func(s *stream) {
		if n++; n%stride != 0 {
			return
		}
		for name, text := range s.texts() {
			whole := verdictsOf(l, text, 0)
			for _, size := range pieceSizes {
				if diff := cmp.Diff(whole, verdictsOf(l, text, size)); diff != "" {
					t.Errorf("%s, %s: pieces of %d change the verdicts (-whole +pieces):\n%s", s.ID, name, size, diff)
				}
			}
		}
	})
}

// Text that waits is no text less: what is asked between two pieces counts it,
// asking changes nothing, and a verdict comes with the piece that completes its
// block.
func TestWaitingText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		size := rapid.IntRange(1, 70).Draw(t, "size")
		l, err := New(Limits{Chars: minChars})
		if err != nil {
			t.Fatal(err)
		}
		asked, _ := New(Limits{Chars: minChars})
		single, _ := New(Limits{Chars: minChars})
		for at := 0; at < len(text); at += size {
			piece := text[at:min(at+size, len(text))]
			rose := false
			for i := range len(piece) {
				rose = single.FeedString(piece[i:i+1]) || rose
			}
			if l.FeedString(piece) != rose || asked.FeedString(piece) != rose {
				t.Fatalf("piece at %d: not the same rise as byte by byte, %v", at, rose)
			}
			fed := asked.Fed()
			if want := (Extent{int64(at + len(piece)), int64(leads([]byte(text[:at+len(piece)])))}); fed != want {
				t.Fatalf("fed %v, want %v", fed, want)
			}
		}
		got, gotLive := asked.Candidate()
		want, wantLive := l.Candidate()
		if got != want || gotLive != wantLive {
			t.Fatalf("candidate %v %v, want %v %v", got, gotLive, want, wantLive)
		}
		for _, l := range []*Loop{l, asked, single} {
			l.Finish()
		}
		if d := cmp.Diff(asked.Verdicts(), single.Verdicts()); d != "" {
			t.Fatalf("asked - byte by byte +:\n%s", d)
		}
		if d := cmp.Diff(l.Verdicts(), single.Verdicts()); d != "" {
			t.Fatalf("pieces - byte by byte +:\n%s", d)
		}
	})
}
