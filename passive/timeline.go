package passive

import (
	"sync"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// maxChanges bounds a timeline: 512 KB.
const maxChanges = 1 << 15

// change says how many sequences decode from an instant on. It is a whole number
// but where changes were merged.
type change struct {
	at stamp.Instant
	n  float32
}

// timeline is how many sequences were decoding at one upstream, back to the
// first token of the oldest open stream. The zero value is one on which nothing
// ever decoded.
type timeline struct {
	mu      sync.Mutex
	changes []change // by instant
	open    map[*Stream]struct{}
	max     int // at least 8; 0: maxChanges
}

// add changes the number by delta from an instant on. Instants come nearly in
// order: those of different connections are told some milliseconds out of turn,
// and the end of a stream that stalled long after it was. The lock is held.
func (t *timeline) add(at stamp.Instant, delta float32) {
	limit := t.max
	if limit == 0 {
		limit = maxChanges
	}
	if len(t.changes) >= limit {
		t.compact(limit)
	}
	i := len(t.changes)
	for i > 0 && t.changes[i-1].at > at {
		t.changes[i-1].n += delta
		i--
	}
	if i > 0 && t.changes[i-1].at == at {
		t.changes[i-1].n += delta
		return
	}
	n := delta
	if i > 0 {
		n += t.changes[i-1].n
	}
	t.changes = append(t.changes, change{})
	copy(t.changes[i+1:], t.changes[i:])
	t.changes[i] = change{at, n}
}

// compact makes room: it drops what no open stream reaches back to, and if that
// is not half, merges the older part.
func (t *timeline) compact(limit int) {
	last := len(t.changes) - 1
	oldest := t.changes[last].at
	for s := range t.open {
		oldest = min(oldest, s.first)
	}
	from := t.find(oldest)
	t.changes = append(t.changes[:0], t.changes[from:]...)
	if len(t.changes) > limit/2 {
		t.merge(limit / 4)
	}
}

// merge keeps the newest changes exactly and replaces those before by at most as
// many means, of equal length in time.
func (t *timeline) merge(keep int) {
	exact := len(t.changes) - keep
	old := t.changes[:exact]
	end := t.changes[exact].at
	width := end.Sub(old[0].at)/time.Duration(keep-1) + 1
	merged := old[:0]
	for i := 0; i < len(old); {
		begin := old[i].at
		sum := 0.0
		stop := begin
		for ; i < len(old) && old[i].at.Sub(begin) < width; i++ {
			next := end
			if i+1 < exact {
				next = old[i+1].at
			}
			sum += float64(old[i].n) * float64(next-old[i].at)
			stop = next
		}
		merged = append(merged, change{begin, float32(sum / float64(stop-begin))})
	}
	n := copy(t.changes[len(merged):], t.changes[exact:])
	t.changes = t.changes[:len(merged)+n]
}

// find returns the index of the change that holds at an instant; 0 for one
// before the first.
func (t *timeline) find(at stamp.Instant) int {
	lo, hi := 0, len(t.changes)
	for lo < hi {
		if mid := (lo + hi) / 2; t.changes[mid].at <= at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return max(lo-1, 0)
}

// during returns the number at each event of a log, whose instants do not go back;
// at least 1, since its stream was decoding. The lock is held.
func (t *timeline) during(log []stream.Event) []float32 {
	if len(log) == 0 {
		return nil
	}
	counts := make([]float32, len(log))
	c := t.changes
	i := t.find(log[0].At)
	for k := range log {
		at := log[k].At
		// In growing steps: between two events of one stream there are few changes,
		// or those of thousands of others.
		for step := 1; i+1 < len(c) && c[i+1].at <= at; step *= 2 {
			for i+step >= len(c) || c[i+step].at > at {
				step /= 2
			}
			i += step
		}
		counts[k] = 1
		if i < len(c) && c[i].at <= at {
			counts[k] = max(c[i].n, 1)
		}
	}
	return counts
}
