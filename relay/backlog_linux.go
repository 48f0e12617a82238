//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"slices"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

const (
	// patience is how long a read may wait to be observed: at ten tokens a second
	// some five of a stream are observed together.
	patience = 500 * time.Millisecond
	// crowd is the number of open streams from which on that is worth it. What
	// fewer need stays in the caches.
	crowd = 64
	// sheetRoom is how much is held back before it is observed in any case,
	// sheetReads in how many reads: more than some 14,000 tokens a second leave in
	// that time.
	sheetRoom  = 2 << 20
	sheetReads = 16 << 10
	// pageRoom is what a sheet grows by: to copy what grows would cost as much as
	// all else that holding back does.
	pageRoom = 64 << 10
	// firstReads is the number of reads that a sheet has room for at first.
	firstReads = 256
	// observeAtOnce is the number of reads observed between two looks at the
	// sockets when nothing was ready: some 20 µs. observeBetween is how many are
	// even when something may be.
	observeAtOnce  = 16
	observeBetween = 2
)

// backlog is what was forwarded and is not yet observed. Most of that is done when
// nothing else is ready. But where hundreds of streams take turns, each would find
// what its meter needs outside of the processor's caches. So what may wait is held
// back for a while, and then observed stream by stream: one sheet is written while
// the other is observed.
type backlog struct {
	sheets  [2]sheet
	writing int       // which of them is written
	turn    *Stream   // whose reads of the other one are being observed
	crowded bool      // reads may wait
	urgent  []*Stream // whose reads may not
	served  int       // of urgent
}

// sheet holds the reads of some time, in the order in which they came.
type sheet struct {
	since stamp.Instant // when the first of them came
	pages [][]byte      // what was read, up to each one's length
	page  int           // of pages: the one that is written
	size  int           // of what was read
	reads []read
	left  int // of reads, not yet observed
	next  int // of reads: where to look for the stream whose turn it is next
}

// keep copies data, which is shorter than a page.
func (w *sheet) keep(data []byte) []byte {
	for w.page < len(w.pages) && pageRoom-len(w.pages[w.page]) < len(data) {
		w.page++
	}
	if w.page == len(w.pages) {
		w.pages = append(w.pages, make([]byte, 0, pageRoom))
	}
	p := &w.pages[w.page]
	from := len(*p)
	*p = append(*p, data...)
	w.size += len(data)
	return (*p)[from:]
}

// clear makes it ready for other reads. It keeps its memory for a crowd only.
func (w *sheet) clear(crowded bool) {
	if !crowded && (len(w.pages) > 1 || cap(w.reads) > 2*firstReads) {
		clear(w.pages[1:])
		w.pages, w.reads = w.pages[:1], nil
	}
	for i := range w.pages {
		w.pages[i] = w.pages[i][:0]
	}
	w.reads, w.page, w.size, w.next = w.reads[:0], 0, 0, 0
}

// read is what was received at once of a stream, without its framing.
type read struct {
	s    *Stream // nil when it is observed
	data []byte
	at   stamp.Instant
	next int32 // of the sheet's reads, the stream's next one
	src  stamp.Source
}

// fits reports whether a read of n bytes finds room.
func (b *backlog) fits(n int) bool {
	w := &b.sheets[b.writing]
	return w.left == 0 || len(w.reads) < sheetReads && w.size+n <= sheetRoom
}

// hold keeps a copy of what was forwarded, to be observed later.
func (b *backlog) hold(s *Stream, data []byte, at stamp.Instant, src stamp.Source) {
	w, q := &b.sheets[b.writing], &s.unseen[b.writing]
	i := len(w.reads)
	if i == 0 {
		w.since = at
	}
	w.left++
	if i == cap(w.reads) {
		w.reads = slices.Grow(w.reads, max(i, firstReads))
	}
	w.reads = append(w.reads, read{s: s, data: w.keep(data), at: at, src: src})
	if q.n == 0 {
		q.first = i
	} else {
		w.reads[q.last].next = int32(i)
	}
	q.n, q.last = q.n+1, i
	if !b.crowded || s.when == Soon {
		b.urgent = append(b.urgent, s)
	}
	b.ripen(at)
}

// ripen begins to observe what is written if it has waited for long enough by now.
func (b *backlog) ripen(now stamp.Instant) {
	if left, some := b.remaining(now); some && left <= 0 && b.sheets[1-b.writing].left == 0 {
		b.change()
	}
}

// remaining is how much longer what is written may wait; ok is false if that is
// nothing.
func (b *backlog) remaining(now stamp.Instant) (d time.Duration, ok bool) {
	w := &b.sheets[b.writing]
	return patience - now.Sub(w.since), w.left > 0
}

// change begins to observe what is written. The other sheet is empty.
func (b *backlog) change() { b.writing = 1 - b.writing }

// due reports whether something is to be observed now.
func (b *backlog) due() bool { return len(b.urgent) > 0 || b.sheets[1-b.writing].left > 0 }

// share is how many reads are observed although something else may be ready, of
// which n have come at most since the last time: few, but as many as come when the
// sheet that is written is half full. It would else be full before the other is
// empty.
func (b *backlog) share(n int) int {
	w := &b.sheets[b.writing]
	if len(w.reads) > sheetReads/2 || w.size > sheetRoom/2 {
		return n
	}
	return min(n, observeBetween)
}

// observe tells the sinks of n reads, or some more; those that may not wait first.
func (b *backlog) observe(n int) {
	for n > 0 && b.served < len(b.urgent) {
		if b.settle(b.urgent[b.served]) {
			n--
		}
		b.served++
	}
	if b.served == len(b.urgent) {
		clear(b.urgent)
		b.urgent, b.served = b.urgent[:0], 0
	}
	i := 1 - b.writing
	r := &b.sheets[i]
	for n > 0 && r.left > 0 {
		if b.turn != nil && b.turn.unseen[i].n > 0 {
			b.take(b.turn, i)
			n--
		} else {
			b.turn = r.reads[r.next].s
			r.next++
		}
	}
}

// take observes a stream's first read in a sheet.
func (b *backlog) take(s *Stream, i int) {
	r, q := &b.sheets[i], &s.unseen[i]
	d := &r.reads[q.first]
	s.when = s.Sink.Observe(d.data, d.at, d.src)
	q.n, q.first = q.n-1, int(d.next)
	d.s = nil
	if r.left--; r.left > 0 {
		return
	}
	for i := range b.sheets {
		if w := &b.sheets[i]; w.left == 0 {
			w.clear(b.crowded) // the other one too, which a crowd may have left
		}
	}
}

// settle observes all of one stream, and reports whether there was something.
func (b *backlog) settle(s *Stream) (some bool) {
	for _, i := range [...]int{1 - b.writing, b.writing} {
		for s.unseen[i].n > 0 {
			b.take(s, i)
			some = true
		}
	}
	return some
}
