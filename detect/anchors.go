package detect

import "math/bits"

// The search for periods (dyadic anchors).
//
// For each scale the hash of the last `window` bytes at some earlier boundary,
// the anchor, is compared with the hash of the last `window` bytes at every
// position that lies more than `under` and at most `window` bytes behind it.
// Equal texts always hash equal, so within a stretch of period p in
// (under, window] the position one period after an anchor is never missed; and
// since the window is no shorter than the period, no shorter lag matches there
// instead.
//
// Two scales an octave, and anchors every quarter of a window: the first anchor
// whose window lies within a stretch is at most 1.25 windows in, and a window is
// less than 1.5 periods, so a period is known after 2.875 cycles, in time for
// the third (for periods from 96 bytes on; below, within 288). One scale an octave with anchors every half window, the classic
// layout, may need all of the fourth.

// scale tries the lags in (under, window].
type scale struct {
	window int
	under  int
	step   int    // anchors stand at its multiples
	power  uint64 // hashBase to the window: the weight of the byte that leaves
}

// scales reach up to MaxPeriodBytes; a Loop uses those below its own limit.
var scales = makeScales()

func makeScales() []scale {
	var all []scale
	under := 0
	for window := blockBytes; under < MaxPeriodBytes; {
		step := max(window/4/blockBytes, 1) * blockBytes
		all = append(all, scale{window, under, step, hashPower(window)})
		under = window
		if power := window&(window-1) == 0; power && window > blockBytes {
			window += window / 2 // 192, 384, ...; 96 would be no whole blocks
		} else {
			window = 1 << bits.Len(uint(window))
		}
	}
	return all
}

// anchor is one boundary to compare a block with.
type anchor struct {
	tail  uint64 // hash of the block that ends there
	at    int
	scale int
}

// filter is a set of tail hashes. Most text matches the last 64 bytes of no
// anchor, so most bytes cost one rolling hash and one bit, whatever the number
// of scales.
type filter [1 << filterBits / 64]uint64

const filterBits = 12

func (f *filter) add(tail uint64) {
	bit := tail >> (64 - filterBits)
	f[bit/64] |= 1 << (bit % 64)
}

func (f *filter) mayHold(tail uint64) bool {
	bit := tail >> (64 - filterBits)
	return f[bit/64]>>(bit%64)&1 != 0
}

// seek looks for runs that show at the positions in (from, to].
func (l *Loop) seek(from, to int) {
	h := &l.history
	var f filter
	block := h.at(from, to)
	if !l.placeAnchors(&f, from, to) {
		h.close(block, hashOf(block))
		return
	}
	clear(l.rolled)
	gone := h.at(from-blockBytes, to-blockBytes)
	base, weight := hashBase, hashBaseBlock
	tail := h.tail(from)
	for i, c := range block {
		tail = tail*base + uint64(c) - uint64(gone[i])*weight
		if f.mayHold(tail) {
			l.compare(from, from+i+1, to, tail)
		}
	}
	h.close(block, tail)
}

// placeAnchors lists the anchors that positions in (from, to] may match, and
// reports whether there are any.
func (l *Loop) placeAnchors(f *filter, from, to int) bool {
	l.anchors = l.anchors[:0]
	for i := range l.scales {
		sc := &scales[i]
		if sc.window > from {
			break // no text is that long yet; wider scales even less
		}
		first := from + 1 - min(sc.window, l.limits.PeriodBytes)
		first = (max(first, sc.window) + sc.step - 1) / sc.step * sc.step
		for at := first; at < to-sc.under && at <= from; at += sc.step {
			if l.runs.cover(at-sc.window, to, sc.window) {
				continue
			}
			tail := l.history.tail(at)
			f.add(tail)
			l.anchors = append(l.anchors, anchor{tail, at, i})
		}
	}
	return len(l.anchors) > 0
}

// compare tries the position pos of the block (from, to] with every anchor whose
// last block has the same hash.
func (l *Loop) compare(from, pos, to int, tail uint64) {
	for i := range l.anchors {
		a := &l.anchors[i]
		lag := pos - a.at
		if a.tail != tail || lag <= scales[a.scale].under || lag > min(scales[a.scale].window, l.limits.PeriodBytes) {
			continue
		}
		if l.runs.explain(lag, pos) || l.windowHash(a.scale, from, pos) != l.history.window(a.at, a.scale) {
			continue
		}
		l.openRun(lag, pos, to)
	}
}

// rolled is how far the window hash of a scale has been rolled into the block.
type rolled struct {
	pos  int // 0: not begun
	hash uint64
}

// windowHash gives the hash of the last window of bytes at pos. It is rolled
// from the start of the block at most once per scale and block, which bounds
// the cost of text that matches anchors everywhere.
func (l *Loop) windowHash(scaleIndex, from, pos int) uint64 {
	r := &l.rolled[scaleIndex]
	sc := &scales[scaleIndex]
	if r.pos == 0 {
		*r = rolled{from, l.history.window(from, scaleIndex)}
	}
	in := l.history.at(r.pos, pos)
	out := l.history.at(r.pos-sc.window, pos-sc.window)
	for i, c := range in {
		r.hash = r.hash*hashBase + uint64(c) - uint64(out[i])*sc.power
	}
	r.pos = pos
	return r.hash
}
