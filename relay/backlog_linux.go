//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
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
	// sheetReads in how many reads.
	sheetRoom  = 1 << 20
	sheetReads = 8 << 10
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
	data  []byte
	reads []read
	left  int // of reads, not yet observed
	next  int // of reads: where to look for the stream whose turn it is next
}

// read is what was received at once of a stream, without its framing.
type read struct {
	s        *Stream // nil when it is observed
	next     int     // of the sheet's reads, the stream's next one
	from, to int     // of the sheet's data
	at       stamp.Instant
	src      stamp.Source
}

// fits reports whether a read of n bytes finds room.
func (b *backlog) fits(n int) bool {
	w := &b.sheets[b.writing]
	return w.left == 0 || len(w.reads) < sheetReads && len(w.data)+n <= sheetRoom
}

// hold keeps a copy of what was forwarded, to be observed later.
func (b *backlog) hold(s *Stream, data []byte, at stamp.Instant, src stamp.Source) {
	w, q := &b.sheets[b.writing], &s.unseen[b.writing]
	i, from := len(w.reads), len(w.data)
	if i == 0 {
		w.since = at
	}
	w.data = append(w.data, data...)
	w.left++
	w.reads = append(w.reads, read{s: s, from: from, to: len(w.data), at: at, src: src})
	if q.n == 0 {
		q.first = i
	} else {
		w.reads[q.last].next = i
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
	if len(w.reads) > sheetReads/2 || len(w.data) > sheetRoom/2 {
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
	s.when = s.Sink.Observe(r.data[d.from:d.to], d.at, d.src)
	q.n, q.first = q.n-1, d.next
	d.s = nil
	if r.left--; r.left == 0 {
		r.data, r.reads, r.next = r.data[:0], r.reads[:0], 0
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
