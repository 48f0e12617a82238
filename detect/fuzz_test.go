package detect

import (
	"strconv"
	"testing"
)

// expand reads data as a program that writes a text: literals, and copies of
// what stands a little before, over and over. Random bytes alone would never
// hold three cycles of anything.
func expand(data []byte, most int) []byte {
	var out []byte
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		c := data[0]
		data = data[1:]
		return int(c)
	}
	for len(data) > 0 && len(out) < most {
		switch op := next(); op % 8 {
		case 0: // a literal
			n := min(next()%32, len(data))
			out = append(out, data[:n]...)
			data = data[n:]
		case 1: // a rule
			c := byte(next())
			for n := next() * 4; n > 0; n-- {
				out = append(out, c)
			}
		case 2, 3, 4: // the last stretch again, and a part of it
			size := (next()<<uint(op%4) + next()%8) % (len(out) + 1)
			if size == 0 {
				continue
			}
			times, part := next()%8, next()
			cycle := append([]byte(nil), out[len(out)-size:]...)
			for ; times > 0 && len(out) < most; times-- {
				out = append(out, cycle...)
			}
			out = append(out, cycle[:part*size/256]...)
		case 5: // something earlier again
			if len(out) > 0 {
				at := (next()<<8 + next()) % len(out)
				out = append(out, out[at:min(len(out), at+next()*8)]...)
			}
		case 6: // one character, of one to four bytes
			out = append(out, string(rune([]int{'a', 'é', '漢', 0x1F642}[next()%4]))...)
		case 7: // an edit
			if len(out) > 0 {
				out[(next()<<8+next())%len(out)] = byte(next())
			}
		}
	}
	return out[:min(len(out), most)]
}

var fuzzLimits = []Limits{
	{},
	{Cycles: 3, Chars: 512, PeriodBytes: 1024},
	{Cycles: 4, Chars: 512, PeriodBytes: 1024, PeriodChars: 200},
	{Cycles: 5, Chars: 700, PeriodBytes: 1500},
	{Cycles: 3, Chars: 1024, PeriodBytes: 2048},
}

// checkOracle compares what the package says of text, cut into pieces of each of
// the sizes, with what the oracle says.
func checkOracle(t *testing.T, limits Limits, text []byte, sizes ...int) {
	t.Helper()
	l := newLoop(t, limits)
	limits = limits.withDefaults()
	confirmed, confirms := oracle(text, limits.Cycles, limits.Chars, limits.PeriodBytes, limits.PeriodChars)
	suspected, suspects := oracle(text, suspectCycles, suspectChars, limits.PeriodBytes, limits.PeriodChars)
	for _, size := range sizes {
		got := judge(t, l, string(text), size)
		if v, ok := got[Confirmed]; ok != confirms || v.finding() != confirmed {
			t.Errorf("limits %+v, pieces of %d, text %s:\n got confirmed %v %+v\nwant confirmed %v %+v", limits, size, quoted(text), ok, v.finding(), confirms, confirmed)
		}
		v, ok := got[Suspected]
		if !ok && suspects && overtaken(got, suspected.at) {
			continue
		}
		if ok != suspects || v.finding() != suspected {
			t.Errorf("limits %+v, pieces of %d, text %s:\n got suspected %v %+v\nwant suspected %v %+v", limits, size, quoted(text), ok, v.finding(), suspects, suspected)
		}
	}
}

// overtaken reports whether a higher level was reached before the offset, or in
// the same block.
func overtaken(kinds map[Kind]Verdict, at Extent) bool {
	for kind, v := range kinds {
		if kind > Suspected && v.ConfirmedAt.Bytes <= at.Bytes+blockBytes {
			return true
		}
	}
	return false
}

func quoted(text []byte) string {
	if len(text) > 400 {
		return strconv.Quote(string(text[:400])) + "..."
	}
	return strconv.Quote(string(text))
}

func FuzzOracle(f *testing.F) {
	f.Add([]byte{0, 4, 'd', 'u', 'c', 't', 2, 1, 0, 7, 0, 3, 7, 0, 7, 255}, uint8(7), uint8(0))
	f.Add([]byte{6, 2, 6, 3, 6, 1, 4, 1, 2, 7, 100, 4, 30, 0, 7, 9, 4, 120, 0, 7, 200}, uint8(1), uint8(1))
	f.Add([]byte{1, '-', 60, 0, 9, 'w', 'o', 'r', 'd', 's', ' ', 'a', 'r', 'e', 3, 40, 1, 7, 0, 1, 1, '=', 100, 3, 200, 1, 6, 30}, uint8(31), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, size, limits uint8) {
		text := expand(data, 6000)
		checkOracle(t, fuzzLimits[int(limits)%len(fuzzLimits)], text, int(size))
	})
}
