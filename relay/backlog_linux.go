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
)

// backlog is what was forwarded and is not yet observed. That is done when nothing
// else is ready. But where hundreds of streams take turns, each would find what its
// meter needs outside of the processor's caches. So what may wait is held back for a
// while, and then observed stream by stream: one sheet is written while the other is
// observed.
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
	w.data = append(w.data, data...)
	w.left++
	w.reads = append(w.reads, read{s: s, from: from, to: len(w.data), at: at, src: src})
	if q.n == 0 {
		q.first = i
	} else {
		w.reads[q.last].next = i
	}
	q.n, q.last = q.n+1, i
	if !b.crowded || !s.patient {
		b.urgent = append(b.urgent, s)
	}
}

// ripe reports whether something is to be observed now.
func (b *backlog) ripe() bool {
	if len(b.urgent) > 0 || b.sheets[1-b.writing].left > 0 {
		return true
	}
	w := &b.sheets[b.writing]
	if n := len(w.reads); n == 0 || w.reads[n-1].at.Sub(w.reads[0].at) < patience {
		return false
	}
	return b.change()
}

// wait is how much longer the oldest read may wait; ok is false if there is none.
func (b *backlog) wait(now stamp.Instant) (d time.Duration, ok bool) {
	w := &b.sheets[b.writing]
	if w.left == 0 {
		return 0, false
	}
	return patience - now.Sub(w.reads[0].at), true
}

// change begins to observe what is written, the other sheet being empty; false if
// that is nothing.
func (b *backlog) change() bool {
	if b.sheets[b.writing].left == 0 {
		return false
	}
	b.writing = 1 - b.writing
	return true
}

// observe tells the sinks of n reads, or some more.
func (b *backlog) observe(n int) {
	for ; n > 0 && b.served < len(b.urgent); n-- {
		b.settle(b.urgent[b.served])
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
			b.first(b.turn, i)
			n--
		} else {
			b.turn = r.reads[r.next].s
			r.next++
		}
	}
}

// first observes the first read of a stream in a sheet.
func (b *backlog) first(s *Stream, i int) {
	r, q := &b.sheets[i], &s.unseen[i]
	d := &r.reads[q.first]
	s.patient = s.Sink.Observe(r.data[d.from:d.to], d.at, d.src)
	q.n, q.first = q.n-1, d.next
	d.s = nil
	if r.left--; r.left == 0 {
		r.data, r.reads, r.next = r.data[:0], r.reads[:0], 0
	}
}

// settle observes all of one stream.
func (b *backlog) settle(s *Stream) {
	for _, i := range []int{1 - b.writing, b.writing} {
		for s.unseen[i].n > 0 {
			b.first(s, i)
		}
	}
}
