package detect

import "unicode/utf8"

// The oracles search exhaustively, one period after another, and share nothing
// with the package but the definition.

// finding is what a rule holds for first.
type finding struct {
	onset, period, at Extent
}

// oracle finds the first offset at which the rule holds, over all bytes: any
// text, valid or not. It shares nothing with another goroutine, and the race
// detector would slow its inner loop down tenfold.
//
//go:norace
func oracle(text []byte, cycles, chars, periodBytes, periodChars int) (finding, bool) {
	count := make([]int, len(text)+1) // characters that begin before i
	for i, c := range text {
		count[i+1] = count[i]
		if c&0xC0 != 0x80 {
			count[i+1]++
		}
	}
	boundary := func(n int) bool { return n == len(text) || text[n]&0xC0 != 0x80 }
	best, found := finding{}, false
	for p := 1; p <= min(periodBytes, len(text)/cycles); p++ {
		start := 0  // of the maximal stretch of period p that ends at n
		white := -1 // a start whose cycle is all white space
		least := max(2*p, chars)
		for n := p + 1; n <= len(text); n++ {
			if text[n-1] != text[n-1-p] {
				start = n - p
			}
			if n-start < least || start == white || !boundary(n) {
				continue
			}
			on := start
			for on < n && !boundary(on) {
				on++
			}
			if on+p > n {
				continue
			}
			cycle := count[on+p] - count[on]
			if cycle == 0 || cycle > periodChars || count[n]-count[on] < max(cycles*cycle, chars) {
				continue
			}
			if allWhite(text[on : on+p]) {
				white = start
				continue
			}
			f := finding{Extent{int64(on), int64(count[on])}, Extent{int64(p), int64(cycle)}, Extent{int64(n), int64(count[n])}}
			// Periods come in rising order, so at equal offsets the first stands.
			if !found || f.at.Chars < best.at.Chars {
				best, found = f, true
			}
			break
		}
	}
	return best, found
}

// oracleChars is the definition in its own words, over code points; for valid
// text only.
//
//go:norace
func oracleChars(text string, cycles, chars, periodChars int) (finding, bool) {
	var runes []rune
	var offsets []int
	for i, r := range text {
		runes = append(runes, r)
		offsets = append(offsets, i)
	}
	offsets = append(offsets, len(text))
	best, found := finding{}, false
	for p := 1; p <= min(periodChars, len(runes)/cycles); p++ {
		start, white := 0, -1
		for n := p; n <= len(runes); n++ {
			if n > p && runes[n-1] != runes[n-1-p] {
				start = n - p
			}
			if n-start < max(cycles*p, chars) || start == white {
				continue
			}
			if allWhite([]byte(string(runes[start : start+p]))) {
				white = start
				continue
			}
			if !found || n < int(best.at.Chars) {
				found = true
				best = finding{
					Extent{int64(offsets[start]), int64(start)},
					Extent{int64(offsets[start+p] - offsets[start]), int64(p)},
					Extent{int64(offsets[n]), int64(n)},
				}
			}
			break
		}
	}
	return best, found
}

func allWhite(text []byte) bool {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r >= 0x09 && r <= 0x0d, r >= 0x1c && r <= 0x20, r == 0x85, r == 0xa0, r == 0x1680, r >= 0x2000 && r <= 0x200a,
			r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		default:
			return false
		}
		text = text[n:]
	}
	return true
}

func (v Verdict) finding() finding { return finding{v.Onset, v.Period, v.ConfirmedAt} }
