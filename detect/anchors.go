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
// the third (for periods from 96 bytes on; below, within 288 bytes). One scale
// an octave with anchors every half window may need all of the fourth.

// scale tries the lags in (under, window].
type scale struct {
	window int // whole blocks
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
	key   uint64 // hash of the block that ends there; see calmKey
	at    int32  // from the beginning of the window
	scale uint8
	next  uint8 // in the list: another anchor of the same bucket
}

// index finds anchors by their keys. Most text matches the last 64 bytes of no
// anchor, so most bytes cost one rolling hash and one bit, whatever the number
// of scales.
type index struct {
	bits  [1 << filterBits / 64]uint64 // set of the keys' first bits
	heads [1 << bucketBits]uint8       // in the list: first anchor by key
}

const (
	filterBits = 12
	bucketBits = 7
)

func (x *index) mayHold(key uint64) bool {
	bit := key >> (64 - filterBits)
	return x.bits[bit/64]>>(bit%64)&1 != 0
}

// Rules, zeros and the like would match every anchor that lies in another such
// stretch, at every byte. But two windows that reach back beyond a stretch of a
// short period can only be equal if they are as far into it. So within such a
// stretch, a calm run, the distance to its beginning is part of the key.
const (
	// Two runs of calm lags that share a block are one.
	calmLag = blockBytes / 2
	// From here on a calm run is known for certain: its first whole block ends
	// within 127 bytes, shows it within one lag more, and is over 33 later.
	calmBytes = 3 * blockBytes
)

func calmKey(tail uint64, calm int) uint64 {
	if calm < calmBytes {
		return tail
	}
	return tail + uint64(calm)*0x9E3779B97F4A7C15
}

// calmAt is how far into a calm run a position is, 0 if it is in none or less
// than a block into it.
func (rs runs) calmAt(pos int) int {
	for i := range rs {
		if r := &rs[i]; r.lag <= calmLag && r.end >= pos && pos-r.start >= blockBytes {
			return pos - r.start
		}
	}
	return 0
}

// calmSpan is the part of a block, counted from its beginning, that lies far
// enough in a calm run.
type calmSpan struct {
	start    int // of the run, negative
	from, to int
}

// calmIn gives the calm span of a block. There is no second one: it would begin
// in the block.
func (rs runs) calmIn(from, to int) calmSpan {
	for i := range rs {
		if r := &rs[i]; r.lag <= calmLag && to-r.start >= calmBytes && r.end > from {
			return calmSpan{r.start - from, r.start + calmBytes - from, min(r.end, to) - from}
		}
	}
	return calmSpan{from: blockBytes + 1}
}

func (c *calmSpan) key(tail uint64, pos int) uint64 {
	if pos < c.from || pos > c.to {
		return tail
	}
	return calmKey(tail, pos-c.start)
}

// The anchors of the wide scales stay the same for several blocks.
const (
	coarseWindow = 1024
	coarseBytes  = 512
)

// anchors are those that the block at work is compared with.
type anchors struct {
	list   []anchor // list[0] is none; the coarse ones come first
	coarse *index   // of the coarse ones; nil while the text is short

	coarseEnd  int // in the list
	coarseTo   int // the blocks up to here find their coarse anchors
	coarseBase int // history.base when they were placed
	lowest     int // where the window of the earliest of them begins
}

func (as *anchors) reset() {
	as.list = append(as.list[:0], anchor{})
	as.coarseEnd = 1
	as.coarseTo = 0
	if as.coarse != nil {
		*as.coarse = index{}
	}
}

func (as *anchors) add(x *index, a anchor) {
	bit := a.key >> (64 - filterBits)
	x.bits[bit/64] |= 1 << (bit % 64)
	head := &x.heads[a.key>>(64-bucketBits)]
	a.next = *head
	*head = uint8(len(as.list))
	as.list = append(as.list, a)
}

// addAnchor adds an anchor, unless its window lies in a calm run: then it would
// match within the same run only, which is known.
func (l *Loop) addAnchor(x *index, at, scaleIndex int) bool {
	h := &l.history
	calm := h.calmBefore(at)
	if calm >= scales[scaleIndex].window {
		return false
	}
	l.anchors.add(x, anchor{key: calmKey(h.tail(at), calm), at: int32(at - h.base), scale: uint8(scaleIndex)})
	return true
}

// seek looks for runs that show at the positions in (from, to].
func (l *Loop) seek(from, to int) {
	h := &l.history
	block := h.at(from, to)
	var x index
	if l.placeAnchors(&x, from, to) {
		clear(l.rolled)
		h.close(block, l.scan(&x, from, to), l.runs.calmAt(to))
	} else {
		h.close(block, hashOf(block), l.runs.calmAt(to))
	}
}

// scan rolls the hash of the last 64 bytes through the block and looks it up. It
// gives the hash at the end.
func (l *Loop) scan(x *index, from, to int) uint64 {
	h := &l.history
	block := h.at(from, to)
	gone := h.at(from-blockBytes, to-blockBytes)[:len(block)]
	calm := l.runs.calmIn(from, to)
	tail := h.tail(from)
	base, weight := hashBase, hashBaseBlock
	square := base * base
	i := 0
	// Two bytes a turn: the chain from one hash to the next is what takes time.
	for ; i+1 < len(block); i += 2 {
		first := uint64(block[i]) - uint64(gone[i])*weight
		second := uint64(block[i+1]) - uint64(gone[i+1])*weight
		between := tail*base + first
		tail = tail*square + first*base + second
		if key := calm.key(between, i+1); x.mayHold(key) {
			l.compare(x, from, from+i+1, to, key)
		}
		if key := calm.key(tail, i+2); x.mayHold(key) {
			l.compare(x, from, from+i+2, to, key)
		}
	}
	if i < len(block) {
		tail = tail*base + uint64(block[i]) - uint64(gone[i])*weight
		l.compare(x, from, to, to, calm.key(tail, i+1))
	}
	return tail
}

// placeAnchors lists the anchors that positions in (from, to] may match, and
// reports whether there are any.
func (l *Loop) placeAnchors(x *index, from, to int) (some bool) {
	as := &l.anchors
	if from >= coarseWindow {
		l.placeCoarse(from)
		if some = !l.runs.cover(as.lowest, to, coarseWindow); some {
			*x = *as.coarse
		}
	}
	as.list = as.list[:as.coarseEnd]
	for i := range l.scales {
		sc := &scales[i]
		if sc.window > from || sc.window >= coarseWindow {
			break // the text is not that long yet, or the anchor is a coarse one
		}
		at := l.firstAnchor(sc, from)
		if l.runs.cover(at-sc.window, to, sc.window) {
			continue
		}
		for ; at < to-sc.under && at <= from; at += sc.step {
			some = l.addAnchor(x, at, i) || some
		}
	}
	return some
}

// firstAnchor is the earliest anchor of a scale that a position behind from may
// match, and whose window the text holds.
func (l *Loop) firstAnchor(sc *scale, from int) int {
	at := max(from+1-min(sc.window, l.limits.PeriodBytes), sc.window)
	return (at + sc.step - 1) / sc.step * sc.step
}

// placeCoarse places the anchors of the wide scales for the blocks from from on.
func (l *Loop) placeCoarse(from int) {
	as := &l.anchors
	if from < as.coarseTo && as.coarseBase == l.history.base {
		return
	}
	if as.coarse == nil {
		as.coarse = new(index)
	}
	*as.coarse = index{}
	as.list = as.list[:1]
	as.coarseTo = (from/coarseBytes + 1) * coarseBytes
	as.coarseBase = l.history.base
	as.lowest = from
	for i := range l.scales {
		sc := &scales[i]
		if sc.window < coarseWindow {
			continue
		}
		if sc.window > as.coarseTo {
			break
		}
		at := l.firstAnchor(sc, from)
		as.lowest = min(as.lowest, at-sc.window)
		for ; at < as.coarseTo-sc.under; at += sc.step {
			l.addAnchor(as.coarse, at, i)
		}
	}
	as.coarseEnd = len(as.list)
}

// compare tries the position pos of the block (from, to] with every anchor of
// the same key.
func (l *Loop) compare(x *index, from, pos, to int, key uint64) {
	h := &l.history
	calm := l.runs.calmAt(pos)
	for i := x.heads[key>>(64-bucketBits)]; i != 0; i = l.anchors.list[i].next {
		a := &l.anchors.list[i]
		sc := &scales[a.scale]
		at := h.base + int(a.at)
		lag := pos - at
		if a.key != key || lag <= sc.under || lag > min(sc.window, l.limits.PeriodBytes) {
			continue
		}
		if there := h.calmBefore(at); calm != there && calm > 0 && there > 0 {
			continue
		}
		if !h.alike(pos, at, sc.window) || l.runs.explain(lag, pos) {
			continue
		}
		// The narrow windows are sooner compared than hashed.
		if sc.window < coarseWindow || l.windowHash(int(a.scale), from, pos) == h.window(at, int(a.scale)) {
			l.openRun(lag, sc.window, pos, to)
		}
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
	if l.rolled == nil {
		l.rolled = make([]rolled, len(l.scales))
	}
	r := &l.rolled[scaleIndex]
	sc := &scales[scaleIndex]
	if r.pos == 0 {
		*r = rolled{from, l.history.window(from, scaleIndex)}
	}
	in := l.history.at(r.pos, pos)
	out := l.history.at(r.pos-sc.window, pos-sc.window)[:len(in)]
	hash, base := r.hash, hashBase
	square := base * base
	i := 0
	for ; i+1 < len(in); i += 2 {
		first := uint64(in[i]) - uint64(out[i])*sc.power
		second := uint64(in[i+1]) - uint64(out[i+1])*sc.power
		hash = hash*square + first*base + second
	}
	if i < len(in) {
		hash = hash*base + uint64(in[i]) - uint64(out[i])*sc.power
	}
	*r = rolled{pos, hash}
	return hash
}
