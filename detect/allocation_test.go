//go:build !race

package detect

import (
	"strings"
	"testing"
)

// TestMemory holds a channel to 4 P + 4 KiB, whatever the text, and to 2 KiB
// before the first 1,024 bytes.
func TestMemory(t *testing.T) {
	texts := map[string]string{
		"prose":         proseText(700_000),
		"code":          codeText(700_000),
		"CJK":           cjkText(700_000),
		"Fibonacci":     fibonacciWord(700_000),
		"one character": strings.Repeat("a", 700_000),
		"white space":   strings.Repeat(" \n", 350_000),
		"three copies":  strings.Repeat(randomLetters(40, 30_000, latin), 3) + proseText(100_000),
		"short runs":    strings.Repeat(strings.Repeat("ab", 800)+randomLetters(41, 500, latin), 300),
	}
	for _, period := range []int{0, 64 << 10, 100_000, 128 << 10, 1 << 20} {
		l := newLoop(t, Limits{PeriodBytes: period})
		most := 4*l.limits.PeriodBytes + 4<<10
		for name, text := range texts {
			l.Reset()
			peak := 0
			for i := 0; i < len(text); i += 50 {
				l.FeedString(text[i:min(i+50, len(text))])
				peak = max(peak, l.Memory())
			}
			if peak > most {
				t.Errorf("P = %d, %s: %d bytes, want at most %d", l.limits.PeriodBytes, name, peak, most)
			}
		}
		t.Logf("P = %d: %d bytes at full size, %d allowed", l.limits.PeriodBytes, l.Memory(), most)
	}
	for name, text := range texts {
		l := newLoop(t, Limits{})
		for i := 0; i < 1023; i += 11 {
			l.FeedString(text[i:min(i+11, 1023)])
		}
		if got := l.Memory(); got > 2<<10 {
			t.Errorf("%s: %d bytes after 1,023 bytes of text, want at most %d", name, got, 2<<10)
		}
	}
}

// TestAllocations: the window grows a few times and a verdict allocates; nothing
// else does.
func TestAllocations(t *testing.T) {
	for name, text := range map[string]string{
		"prose":       proseText(400_000),
		"code":        codeText(400_000),
		"CJK":         cjkText(400_000),
		"Fibonacci":   fibonacciWord(400_000),
		"white space": strings.Repeat(" \n", 200_000),
		"loop":        strings.Repeat("I will check again. ", 20_000),
		"counter":     strings.Repeat("Step 1: look. Step 2: look again, and tell. ", 9000),
	} {
		for _, size := range []int{1, 4, 900} {
			l := newLoop(t, Limits{})
			l.FeedString(text[:300_000])
			rest := []byte(text[300_000:])
			at := 0
			allocs := testing.AllocsPerRun(100, func() {
				l.Feed(rest[at : at+size])
				at += size
			})
			if allocs != 0 {
				t.Errorf("%s, pieces of %d: %v allocations a fragment", name, size, allocs)
			}
		}
	}
}

// A pooled state allocates nothing for a stream that gives no verdict.
func TestAllocationsPooled(t *testing.T) {
	l := newLoop(t, Limits{})
	text := proseText(300_000)
	if allocs := testing.AllocsPerRun(5, func() {
		l.Reset()
		l.FeedString(text)
		l.Finish()
	}); allocs != 0 {
		t.Errorf("%v allocations a stream", allocs)
	}
}
