package proxy

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// kept is a record, and behind it its event_log, packed: the collector would have to go
// through what has pointers. It does not change.
type kept []byte

// pack packs a record, and the events of its stream in some six bytes each: three
// varints, the time since the event before, its tokens and its flag.
func pack(rec *stream.Record, log []stream.Event, sent stamp.Instant) kept {
	room := packRooms.Get().(*[]byte)
	defer packRooms.Put(room)
	b, before := rec.Pack((*room)[:0]), int64(0)
	for i := range log {
		e, ok := log[i].Logged(sent)
		if !ok {
			continue
		}
		b = binary.AppendVarint(b, e[0]-before)
		b = binary.AppendVarint(b, e[1])
		b = binary.AppendVarint(b, e[2])
		before = e[0]
	}
	if cap(b) <= packRoom {
		*room = b
	}
	return bytes.Clone(b)
}

// packRoom is the most memory that is kept to pack in, in bytes.
const packRoom = 64 << 10

var packRooms = sync.Pool{New: func() any { return new([]byte) }}

// record returns the record without its event_log.
func (k kept) record() *stream.Record {
	rec, _ := stream.Unpack(k)
	return rec
}

// whole returns the record with its event_log.
func (k kept) whole() *stream.Record {
	rec, b := stream.Unpack(k)
	for at := int64(0); len(b) > 0; {
		var e [3]int64
		for i := range e {
			v, n := binary.Varint(b)
			e[i], b = v, b[n:]
		}
		e[0] += at
		at = e[0]
		rec.EventLog = append(rec.EventLog, e)
	}
	return rec
}

// size is about what an entry holds in memory.
func (k kept) size() int64 { return 64 + int64(len(k)) }

// ring keeps the last records, bounded by number and by bytes. Puts take a lock
// for a few stores and never wait for a reader: a reader copies the entries, not the records.
type ring struct {
	epoch    string // tells a cursor of another process from ours
	maxCount int
	maxBytes int64

	mu    sync.Mutex
	items []kept // oldest first, from head
	head  int
	bytes int64
	seq   uint64 // of the newest
}

func newRing(epoch string, maxCount int, maxBytes int64) *ring {
	return &ring{epoch: epoch, maxCount: maxCount, maxBytes: maxBytes}
}

func (r *ring) put(k kept) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	r.items = append(r.items, k)
	r.bytes += k.size()
	for len(r.items)-r.head > 1 && (len(r.items)-r.head > r.maxCount || r.bytes > r.maxBytes) {
		r.bytes -= r.items[r.head].size()
		r.items[r.head] = nil
		r.head++
	}
	// Half of the slice is dead: move the living down, amortised over as many
	// puts.
	if r.head > len(r.items)/2 && r.head > 64 {
		n := copy(r.items, r.items[r.head:])
		clear(r.items[n:])
		r.items, r.head = r.items[:n], 0
	}
}

// since returns the records after a cursor, the cursor of the last one, and how
// many between were already overwritten. An empty cursor, or one of another
// process, means from the oldest.
func (r *ring) since(cursor string) (items []kept, next string, lost uint64) {
	after, ours := r.parse(cursor)
	r.mu.Lock()
	defer r.mu.Unlock()
	live := r.items[r.head:]
	if !ours || after > r.seq {
		after = 0
	}
	oldest := r.seq - uint64(len(live)) + 1
	if after+1 < oldest {
		if ours && after > 0 {
			lost = oldest - after - 1
		}
		after = oldest - 1
	}
	items = append(items, live[after+1-oldest:]...)
	return items, r.epoch + "." + strconv.FormatUint(r.seq, 10), lost
}

// parse reads EPOCH.SEQ.
func (r *ring) parse(cursor string) (seq uint64, ours bool) {
	epoch, n, ok := strings.Cut(cursor, ".")
	if !ok || epoch != r.epoch {
		return 0, false
	}
	seq, err := strconv.ParseUint(n, 10, 64)
	return seq, err == nil
}
