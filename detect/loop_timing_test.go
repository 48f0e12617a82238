package detect

import (
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// madeText draws size bytes of words from an alphabet, each word once more as
// it is in the list: varied enough to hold no long repetition.
func madeText(seed uint64, size int, words []string, stop string) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for b.Len() < size {
		for n := 4 + r.IntN(14); n > 0; n-- {
			b.WriteString(words[r.IntN(len(words))])
		}
		b.WriteString(stop)
	}
	return b.String()[:size]
}

// madeWords makes count words of 1 to most letters drawn from letters.
func madeWords(seed uint64, count, most int, letters, end string) []string {
	r := rand.New(rand.NewPCG(seed, 2))
	runes := []rune(letters)
	words := make([]string, count)
	for i := range words {
		for n := 1 + r.IntN(most); n > 0; n-- {
			words[i] += string(runes[r.IntN(len(runes))])
		}
		words[i] += end
	}
	return words
}

func proseText(size int) string {
	return madeText(1, size, madeWords(1, 3000, 11, "etaoinshrdlucmfwygpbvk", " "), ".\n\n")
}

func cjkText(size int) string {
	const characters = "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长"
	text := madeText(2, size, madeWords(2, 3000, 4, characters, ""), "。\n")
	return strings.ToValidUTF8(text, "")
}

// codeText has the short repeats and the shared lines that source code has.
func codeText(size int) string {
	names := madeWords(3, 400, 8, "abcdefghijklmnoprstuvw", "")
	r := rand.New(rand.NewPCG(3, 3))
	name := func() string { return names[r.IntN(len(names))] }
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "func %s(%s int, %s string) (%s, error) {\n", name(), name(), name(), name())
		for n := 1 + r.IntN(9); n > 0; n-- {
			fmt.Fprintf(&b, "\t%s := %s(%s, %d)\n\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"%s: %%w\", err)\n\t}\n", name(), name(), name(), r.IntN(100), name())
		}
		b.WriteString("\treturn nil, nil\n}\n\n")
	}
	return b.String()[:size]
}

// fibonacciWord is the text richest in repetitions that never go on.
func fibonacciWord(size int) string {
	a, b := "a", "ab"
	for len(b) < size {
		a, b = b, b+a
	}
	return b[:size]
}

// rulesText matches itself nearly everywhere, and for as long as a rule goes on.
func rulesText(size int) string {
	r := rand.New(rand.NewPCG(4, 4))
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%s%d\n", strings.Repeat("-", 100+r.IntN(900)), r.IntN(100_000))
	}
	return b.String()[:size]
}

func zerosText(size int) string {
	r := rand.New(rand.NewPCG(5, 5))
	var b strings.Builder
	for b.Len() < size {
		value := 0
		if r.IntN(33) == 0 {
			value = r.IntN(256)
		}
		fmt.Fprintf(&b, "0x%02x, ", value)
	}
	return b.String()[:size]
}

// identityMatrix has a row of zeros in each row, a little later each time.
func identityMatrix(size int) string {
	var b strings.Builder
	for row := 0; b.Len() < size; row = (row + 1) % 256 {
		fmt.Fprintf(&b, "%s1 %s\n", strings.Repeat("0 ", row), strings.Repeat("0 ", 255-row))
	}
	return b.String()[:size]
}

// instantsText is what a ground-truth emitter sends: the nanoseconds at which
// each event leaves, once a token, k tokens an event.
func instantsText(size, k int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		b.WriteString(strings.Repeat(fmt.Sprintf("@%d ", 1796026385123456789+int64(i*k)*10_000_000+int64(i*7919%90_001)), k))
	}
	return b.String()[:size]
}

func BenchmarkFeed(b *testing.B) {
	const size = 256 << 10
	for _, c := range []struct {
		name, text string
		piece      int
	}{
		{"prose", proseText(size), 901},
		{"code", codeText(size), 901},
		{"cjk", cjkText(size), 901},
		{"fragments_of_4", proseText(size), 4},
		{"instants", instantsText(size, 1), 21},
		{"instants_by_four", instantsText(size, 4), 84},
		{"one_cycle_for_ever", strings.Repeat("I will now check the answer again. ", size/35+1)[:size], 901},
		{"fibonacci", fibonacciWord(size), 901},
		{"white_space", strings.Repeat("\n    ", size/5), 901},
		{"rules_and_numbers", rulesText(size), 901},
		{"zeros_with_noise", zerosText(size), 901},
		{"identity_matrix", identityMatrix(size), 901},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkFeed(b, []byte(c.text), c.piece) })
	}
}

// benchmarkFeed tells the cost of a byte beside that of a checksum over the same
// bytes. Machines differ and are seldom idle, so the two take turns, each stretch
// of the text is timed by itself, and its fastest turn counts.
func benchmarkFeed(b *testing.B, text []byte, piece int) {
	l := newLoop(b, Limits{})
	feed := func(stretch []byte) {
		for len(stretch) > 0 {
			n := min(piece, len(stretch))
			l.Feed(stretch[:n])
			stretch = stretch[n:]
		}
	}
	feed(text) // the window grows once
	table := crc64.MakeTable(crc64.ECMA)
	const size = 8 << 10
	feeds, sums := newStopwatch(len(text)/size), newStopwatch(len(text)/size)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		l.Reset()
		for i := range feeds {
			stretch := text[i*size : (i+1)*size]
			feeds.time(i, func() { feed(stretch) })
			sums.time(i, func() { checksum = crc64.Checksum(stretch, table) })
		}
	}
	b.ReportMetric(float64(feeds.total().Nanoseconds())/float64(len(feeds)*size), "ns/byte")
	b.ReportMetric(float64(feeds.total())/float64(sums.total()), "x_crc64")
}

// stopwatch holds the shortest time of each stretch.
type stopwatch []time.Duration

func newStopwatch(n int) stopwatch { return slices.Repeat(stopwatch{time.Hour}, n) }

func (s stopwatch) time(i int, work func()) {
	start := time.Now()
	work()
	s[i] = min(s[i], time.Since(start))
}

func (s stopwatch) total() (sum time.Duration) {
	for _, shortest := range s {
		sum += shortest
	}
	return sum
}

var checksum uint64 // keeps the sums from being optimised away
