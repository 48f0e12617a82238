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

// The narrow scales are the first few, which every Loop uses whole.
const (
	narrowScales = 7
	narrowWindow = 768 // the widest
)

// narrowScale gives the scale that tries a lag, by the blocks it reaches into.
var narrowScale = func() (of [narrowWindow/blockBytes + 1]uint8) {
	for i := range narrowScales {
		for lag := scales[i].under + blockBytes; lag <= scales[i].window; lag += blockBytes {
			of[lag/blockBytes] = uint8(i)
		}
	}
	return of
}()

// narrowSteps gives the narrow scales that have an anchor at a boundary: their
// steps are one, two or three blocks.
var narrowSteps = func() (of [6]uint8) {
	for block := range of {
		for i := range narrowScales {
			if block*blockBytes%scales[i].step == 0 {
				of[block] |= 1 << i
			}
		}
	}
	return of
}()

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
	key   uint32 // the low half of the hash of the block that ends there; see calmKey
	at    int32  // from the beginning of the window
	scale uint8  // a wide one; 0: the lag tells which narrow scale it falls to
	fine  uint8  // set of the narrow scales that it serves
	next  uint8  // in the list: another anchor of the same bucket
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
	return x.bits[key>>(64-filterBits+6)]>>(key>>(64-filterBits)&63)&1 != 0
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

// Every boundary of a block is an anchor of the narrow scales, those of windows
// below wideWindow, or may be; the wide ones have few. All stay the same for
// several blocks, but that each block adds its own end.
const (
	wideWindow = 1024
	placedFor  = 1024 // bytes
)

// anchors are those that the block at work is compared with.
type anchors struct {
	list  []anchor // list[0] is none
	index *index   // nil while the text is short

	placedTo int // the blocks up to here find their anchors
	base     int // history.base when they were placed
	lowest   int // where the window of the earliest wide one begins

	// Where the block at work can match nothing but runs that are known.
	fineCovered uint8 // set of narrow scales
	wideCovered bool  // all wide scales
}

func (as *anchors) reset() {
	if as.list == nil {
		as.list = make([]anchor, 0, 1+narrowWindow/blockBytes)
	}
	as.list = append(as.list[:0], anchor{})
	as.placedTo = 0
}

func (as *anchors) add(x *index, key uint64, a anchor) {
	bit := key >> (64 - filterBits)
	x.bits[bit/64] |= 1 << (bit % 64)
	head := &x.heads[key>>(64-bucketBits)]
	a.key = uint32(key)
	a.next = *head
	*head = uint8(len(as.list))
	as.list = append(as.list, a)
}

// addAnchor adds the anchor at of a wide scale, unless its window lies in a calm
// run: then it would match within the same run only, which is known.
func (l *Loop) addAnchor(x *index, at, scaleIndex int) {
	h := &l.history
	if calm := h.calmBefore(at); calm < scales[scaleIndex].window {
		l.anchors.add(x, calmKey(h.tail(at), calm), anchor{at: int32(at - h.base), scale: uint8(scaleIndex)})
	}
}

// addFine adds the anchor at of the narrow scales.
func (l *Loop) addFine(x *index, at int) {
	h := &l.history
	calm := h.calmBefore(at)
	serves := narrowSteps[at/blockBytes%len(narrowSteps)]
	if at < narrowWindow {
		serves &= narrowUpTo(at)
	}
	if calm > 0 {
		serves &^= narrowUpTo(calm)
	}
	if serves != 0 {
		l.anchors.add(x, calmKey(h.tail(at), calm), anchor{at: int32(at - h.base), fine: serves})
	}
}

// narrowUpTo gives the narrow scales with a window no longer than size.
func narrowUpTo(size int) (set uint8) {
	for i := 0; i < narrowScales && scales[i].window <= size; i++ {
		set |= 1 << i
	}
	return set
}

// seek looks for runs that show at the positions in (from, to].
func (l *Loop) seek(from, to int) {
	h := &l.history
	block := h.at(from, to)
	hash := uint64(0)
	switch {
	case from < blockBytes:
		hash = hashOf(block)
	case from < wideWindow:
		hash = l.seekShort(from, to)
	default:
		l.placeAnchors(from)
		if l.cover(from, to) {
			hash = hashOf(block)
		} else {
			hash = l.scan(l.anchors.index, from, to)
		}
	}
	h.close(block, hash, l.runs.calmAt(to))
}

// seekShort is seek while the text is so short that it keeps no index.
func (l *Loop) seekShort(from, to int) uint64 {
	as := &l.anchors
	if l.cover(from, to) {
		return hashOf(l.history.at(from, to))
	}
	var x index
	as.list = as.list[:1]
	for at := max(from-narrowWindow, 0) + blockBytes; at <= from; at += blockBytes {
		l.addFine(&x, at)
	}
	return l.scan(&x, from, to)
}

// placeAnchors brings the index up to the positions behind from, which is the
// end of the block before.
func (l *Loop) placeAnchors(from int) {
	as := &l.anchors
	if from < as.placedTo && as.base == l.history.base {
		l.addFine(as.index, from)
		return
	}
	if as.index == nil {
		as.index = new(index)
	}
	*as.index = index{}
	as.list = as.list[:1]
	as.placedTo = (from/placedFor + 1) * placedFor
	as.base = l.history.base
	for at := from - narrowWindow + blockBytes; at <= from; at += blockBytes {
		l.addFine(as.index, at)
	}
	as.lowest = from
	for i := narrowScales; i < int(l.scales); i++ {
		sc := &scales[i]
		if sc.window > as.placedTo {
			break
		}
		at := l.firstAnchor(sc, from)
		as.lowest = min(as.lowest, at-sc.window)
		for ; at < as.placedTo-sc.under; at += sc.step {
			l.addAnchor(as.index, at, i)
		}
	}
}

// firstAnchor is the earliest anchor of a scale that a position behind from may
// match, and whose window the text holds.
func (l *Loop) firstAnchor(sc *scale, from int) int {
	at := max(from+1-min(sc.window, l.limits.PeriodBytes), sc.window)
	return (at + sc.step - 1) / sc.step * sc.step
}

// cover notes the scales at whose anchors the block (from, to] can match nothing
// but runs that are known, and reports whether all are such.
func (l *Loop) cover(from, to int) bool {
	as := &l.anchors
	as.fineCovered, as.wideCovered = 0, false
	if len(l.runs) == 0 {
		return false
	}
	all := true
	if from >= wideWindow {
		as.wideCovered = l.runs.cover(as.lowest, to, wideWindow)
		all = as.wideCovered
	}
	for i := range narrowScales {
		sc := &scales[i]
		if sc.window > from {
			break // no anchor yet
		}
		if l.runs.cover(l.firstAnchor(sc, from)-sc.window, to, sc.window) {
			as.fineCovered |= 1 << i
		} else {
			all = false
		}
	}
	return all
}

// scan rolls the hash of the last 64 bytes through the block and looks it up. It
// gives the hash at the end.
func (l *Loop) scan(x *index, from, to int) uint64 {
	h := &l.history
	block := h.at(from, to)
	if calm := l.runs.calmIn(from, to); len(block) < blockBytes || calm.from <= blockBytes {
		return l.scanCalm(x, from, to, &calm)
	}
	gone := h.at(from-blockBytes, to-blockBytes)
	tail := h.tail(from)
	base, square := hashBase, hashBase*hashBase
	fourth := square * square
	// Four bytes a turn: the chain from one hash to the next is what takes time,
	// and then the multiplications, so that what leaves is looked up.
	for i := 0; i+4 <= len(block) && i+4 <= len(gone); i += 4 {
		in, out := block[i:i+4:i+4], gone[i:i+4:i+4]
		first := uint64(in[0]) - hashGone[out[0]]
		both := first*base + uint64(in[1]) - hashGone[out[1]]
		third := uint64(in[2]) - hashGone[out[2]]
		rest := third*base + uint64(in[3]) - hashGone[out[3]]
		one := tail*base + first
		two := tail*square + both
		three := two*base + third
		tail = tail*fourth + both*square + rest
		if x.mayHold(one) {
			l.compare(x, from, from+i+1, to, one)
		}
		if x.mayHold(two) {
			l.compare(x, from, from+i+2, to, two)
		}
		if x.mayHold(three) {
			l.compare(x, from, from+i+3, to, three)
		}
		if x.mayHold(tail) {
			l.compare(x, from, from+i+4, to, tail)
		}
	}
	return tail
}

// scanCalm is scan of a block that a calm run is in, and of one that is short.
func (l *Loop) scanCalm(x *index, from, to int, calm *calmSpan) uint64 {
	h := &l.history
	block := h.at(from, to)
	gone := h.at(from-blockBytes, to-blockBytes)[:len(block)]
	tail := h.tail(from)
	base, square := hashBase, hashBase*hashBase
	i := 0
	for ; i+1 < len(block); i += 2 {
		first := uint64(block[i]) - hashGone[gone[i]]
		second := uint64(block[i+1]) - hashGone[gone[i+1]]
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
		tail = tail*base + uint64(block[i]) - hashGone[gone[i]]
		l.compare(x, from, to, to, calm.key(tail, i+1))
	}
	return tail
}

// compare tries the position pos of the block (from, to] with every anchor of
// the same key.
func (l *Loop) compare(x *index, from, pos, to int, key uint64) {
	h, as := &l.history, &l.anchors
	calm := l.runs.calmAt(pos)
	for i := x.heads[key>>(64-bucketBits)]; i != 0; i = as.list[i].next {
		a := &as.list[i]
		at := h.base + int(a.at)
		lag := pos - at
		if a.key != uint32(key) || lag > l.limits.PeriodBytes {
			continue
		}
		scaleIndex := int(a.scale)
		if scaleIndex == 0 {
			if lag > narrowWindow {
				continue
			}
			scaleIndex = int(narrowScale[(lag+blockBytes-1)/blockBytes])
			if (a.fine&^as.fineCovered)>>scaleIndex&1 == 0 {
				continue
			}
		} else if as.wideCovered {
			continue
		}
		sc := &scales[scaleIndex]
		if lag <= sc.under || lag > sc.window {
			continue
		}
		if there := h.calmBefore(at); calm != there && calm > 0 && there > 0 {
			continue
		}
		if !h.alike(pos, at, sc.window) || l.runs.explain(lag, pos) {
			continue
		}
		// The narrow windows are sooner compared than hashed.
		if sc.window < wideWindow || l.windowHash(scaleIndex, from, pos) == h.window(at, scaleIndex) {
			l.openRun(lag, sc.window, pos, to)
		}
	}
}

// rolled is how far the window hash of a scale has been rolled.
type rolled struct {
	pos  int // 0: not begun
	hash uint64
}

// windowHash gives the hash of the last window of bytes at pos. It is rolled
// from the start of the block at most once per scale and block, which bounds
// the cost of text that matches anchors everywhere.
func (l *Loop) windowHash(scaleIndex, from, pos int) uint64 {
	if l.rolled == nil {
		l.rolled = make([]rolled, l.scales)
	}
	r := &l.rolled[scaleIndex]
	sc := &scales[scaleIndex]
	if r.pos < from {
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
