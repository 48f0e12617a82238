package detect

import (
	"strings"
	"testing"
)

// thueMorse has no cube: nothing in it comes three times in a row.
func thueMorse(size int) string {
	b := []byte{'a'}
	for len(b) < size {
		for _, c := range b[:len(b):len(b)] {
			b = append(b, 'a'+'b'-c)
		}
	}
	return string(b[:size])
}

// nestedCubes is ((x^3 y)^3 z)^3 and so on.
func nestedCubes(levels int) string {
	text := "x"
	for i := range levels {
		text = strings.Repeat(text, 3) + string(rune('a'+i))
	}
	return text
}

// TestAdversarial holds the texts that break detectors. Each is compared with the
// oracle, and named after what it breaks.
func TestAdversarial(t *testing.T) {
	a, b := randomLetters(20, 90, latin), randomLetters(21, 130, latin)
	pairs := strings.NewReplacer("1", a, "2", b).Replace("11122212")
	mid := randomLetters(22, 1000, latin)
	long := randomLetters(23, 2500, latin)
	inner := randomLetters(24, 200, latin) + strings.Repeat("-", 900) + randomLetters(25, 150, latin)
	small := Limits{PeriodBytes: 1024}

	for _, c := range []struct {
		name   string
		limits Limits
		text   string
		want   Kind // the highest of suspected and confirmed
	}{
		{"Fibonacci word: cubes at every scale that never go on", Limits{}, fibonacciWord(12_000), Suspected},
		{"Thue-Morse word: hashes modulo a power of two collide", Limits{}, thueMorse(12_000), None},
		{"nested cubes", Limits{}, nestedCubes(8), Suspected},
		{"nested cubes, four times", Limits{}, strings.Repeat(nestedCubes(7)[:3000], 4), Confirmed},
		{"block pairs: the last occurrence is never one period back", Limits{}, strings.Repeat(pairs, 5), Confirmed},
		{"a rule over every 256th offset", Limits{}, strings.Repeat(randomLetters(26, 56, latin)+strings.Repeat("=", 200), 20), Confirmed},
		{"three cycles and a byte", Limits{}, strings.Repeat(long, 3) + long[:1], Suspected},
		{"four cycles less a byte", Limits{}, strings.Repeat(long, 4)[:9999] + "#", Suspected},
		{"a rule over every anchor: its multiples hide the cycle", Limits{}, mid[:100] + strings.Repeat(mid[100:296]+strings.Repeat("-", 3900), 5), Confirmed},
		{"a long inner rule", Limits{}, strings.Repeat(inner, 6), Confirmed},
		{"a short period poses as a long one", Limits{}, strings.Repeat(strings.Repeat("ab", 160)+"c", 20), Confirmed},
		{"a multiple of a short run's period goes on when the run ends", Limits{}, strings.Repeat("ab", 300) + strings.Repeat(strings.Repeat("ab", 40)+"a", 80), Confirmed},
		{"the lead's tail is the cycle's", Limits{}, "#" + mid[600:] + strings.Repeat(mid, 5), Confirmed},
		{"4096 in the middle of a character", Limits{}, strings.Repeat("é", 4095) + "è", Suspected},
		{"4096 in the middle of a character and of a block", Limits{}, "#" + strings.Repeat("é", 4095) + "è, and on", Suspected},
		{"4096 at the end of a character", Limits{}, strings.Repeat("é", 4096) + "è", Confirmed},
		{"the onset in the middle of a character", Limits{}, "è" + strings.Repeat("é", 5000), Confirmed},
		{"characters of all widths", Limits{}, strings.Repeat("aé漢🙂", 1500), Confirmed},
		{"p = P", small, strings.Repeat(randomLetters(27, 1024, latin), 5), Confirmed},
		{"p = P + 1", small, strings.Repeat(randomLetters(28, 1025, latin), 9), None},
		{"P not a power of two", Limits{PeriodBytes: 1100}, "##" + strings.Repeat(randomLetters(29, 1100, latin), 5), Confirmed},
		{"P in bytes, less in characters", small, strings.Repeat(randomLetters(30, 400, "资料商店结论检查"), 12), None},
		{"an onset beyond 4 P", small, proseText(9001) + strings.Repeat(mid, 5), Confirmed},
		{"two loops back to back", Limits{}, strings.Repeat(mid, 3) + strings.Repeat(long, 4), Confirmed},
		{"a loop and a clean end", Limits{}, strings.Repeat(mid, 6) + proseText(3000), Confirmed},
		{"one character for ever, and one less", Limits{}, strings.Repeat("0", 4095) + "1", Suspected},
		{"white space within", Limits{}, strings.Repeat("word"+strings.Repeat(" ", 700), 8), Confirmed},
		{"white space with a period, then text with it", Limits{}, strings.Repeat(" ", 900) + strings.Repeat(strings.Repeat(" ", 30)+"x", 200), Confirmed},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkOracle(t, c.limits, []byte(c.text), 1, 3, 7, 31, 64, 256, 901, 0)
			got := judge(t, newLoop(t, c.limits), c.text, 0)
			level := None
			for _, kind := range []Kind{Suspected, Confirmed} {
				if _, ok := got[kind]; ok {
					level = kind
				}
			}
			if level != c.want {
				t.Errorf("got %v, want %v", level, c.want)
			}
		})
	}
}

func TestEmptyFragments(t *testing.T) {
	l := newLoop(t, Limits{})
	for range 1100 {
		if l.Feed(nil) || l.FeedString("") {
			t.Fatal("the level rose on nothing")
		}
		l.FeedString("duct")
	}
	if v := l.Verdict(); v.Kind != Confirmed || v.ConfirmedAt.Chars != 4096 {
		t.Errorf("got %+v", v)
	}
}

func TestOneFragmentOf10MB(t *testing.T) {
	lead := proseText(10 << 20)
	cycle := randomLetters(31, 20_000, latin)
	l := newLoop(t, Limits{})
	if !l.FeedString(lead+"#"+strings.Repeat(cycle, 5)) || l.Level() != Confirmed {
		t.Fatalf("got %+v", l.Verdict())
	}
	v := l.Verdict()
	if want := int64(len(lead) + 1); v.Onset.Bytes != want || v.Period.Bytes != 20_000 || v.ConfirmedAt.Bytes != want+80_000 {
		t.Errorf("got %+v, want onset %d", v, want)
	}
}
