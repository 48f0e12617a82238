package passive

import (
	"sync"
	"time"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

const (
	recentSeconds = 300 // of token counts
	slotSeconds   = 10  // of one part of the distributions
	recentSlots   = recentSeconds / slotSeconds
	// settleSeconds at the end are not shown: what their tokens were is told up
	// to one and a half later.
	settleSeconds = 2
	// rateSeconds is what the rate of the moment is a mean of.
	rateSeconds = 10
)

// Recent holds the last five minutes of all streams: tokens by the second, and
// distributions in parts of ten seconds, so that what is old falls out. Everything is
// filed under the instant at which it happened, however late it is told. The
// zero value is empty. It is safe for concurrent use.
type Recent struct {
	mu      sync.Mutex
	seconds [recentSeconds]second
	slots   [recentSlots]slot
}

// second is the tokens of one second of the clock.
type second struct {
	at     int64 // seconds of the clock that instants are of
	tokens int64 // known
	events int64 // generated events whose tokens are not known yet
}

type slot struct {
	at        int64 // in units of slotSeconds
	ttft, tbt hist.H
}

// Batch collects what one stream has to tell, so that Recent's lock is taken
// once for many events. The zero value is empty.
type Batch struct {
	seconds []second
	gaps    []gap
	ttft    int64
	ttftAt  stamp.Instant
}

type gap struct {
	at  stamp.Instant
	per int64 // ns a token
	n   int64 // tokens
}

// First notes the first generated event of a stream, and its time to first token
// in nanoseconds.
func (b *Batch) First(at stamp.Instant, ttft int64) { b.ttftAt, b.ttft = at, ttft }

// Event notes a generated event, whose tokens are not known yet.
func (b *Batch) Event(at stamp.Instant) { b.second(at).events++ }

// Tokens notes how many tokens an event had that was noted before.
func (b *Batch) Tokens(at stamp.Instant, n int) {
	s := b.second(at)
	s.events--
	s.tokens += int64(n)
}

// Gap notes n tokens that came at an instant, per nanoseconds apart.
func (b *Batch) Gap(at stamp.Instant, per int64, n int) {
	b.gaps = append(b.gaps, gap{at, per, int64(n)})
}

func (b *Batch) second(at stamp.Instant) *second {
	sec := int64(at) / int64(time.Second)
	for i := len(b.seconds) - 1; i >= 0 && i >= len(b.seconds)-2; i-- {
		if b.seconds[i].at == sec {
			return &b.seconds[i]
		}
	}
	b.seconds = append(b.seconds, second{at: sec})
	return &b.seconds[len(b.seconds)-1]
}

// Add files a batch and empties it.
func (r *Recent) Add(b *Batch) {
	if len(b.seconds) == 0 && len(b.gaps) == 0 && b.ttftAt == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range b.seconds {
		if to := r.second(s.at); to != nil {
			to.tokens += s.tokens
			to.events += s.events
		}
	}
	for _, g := range b.gaps {
		if s := r.slot(g.at); s != nil {
			s.tbt.RecordN(g.per, g.n)
		}
	}
	if b.ttftAt != 0 {
		if s := r.slot(b.ttftAt); s != nil {
			s.ttft.Record(b.ttft)
		}
	}
	b.seconds, b.gaps, b.ttftAt = b.seconds[:0], b.gaps[:0], 0
}

// second returns the place of a second, emptied if it held an older one; nil if
// it holds a newer one.
func (r *Recent) second(at int64) *second {
	s := &r.seconds[at%recentSeconds]
	if s.at > at {
		return nil
	}
	if s.at < at {
		*s = second{at: at}
	}
	return s
}

func (r *Recent) slot(at stamp.Instant) *slot {
	unit := int64(at) / int64(slotSeconds*time.Second)
	s := &r.slots[unit%recentSlots]
	if s.at > unit {
		return nil
	}
	if s.at < unit {
		s.at = unit
		s.ttft.Reset()
		s.tbt.Reset()
	}
	return s
}

// LastMinutes is what Recent holds at a moment.
type LastMinutes struct {
	// TokS is the mean of the last ten seconds that are complete. GuessedTokS
	// is what of it counts events, a token each, because their streams have not
	// told their tokens yet.
	TokS        float64 `json:"tok_s"`
	GuessedTokS float64 `json:"guessed_tok_s"`
	// Seconds are the tokens of each second, oldest first; the last one is
	// complete.
	Seconds []int64 `json:"seconds"`
	// TTFT and TBT (time per token, a sample a token) are of the whole time,
	// the lists are their parts of SlotS seconds, oldest first.
	TTFT      matrix.Quantiles `json:"ttft"`
	TBT       matrix.Quantiles `json:"tbt"`
	SlotS     int              `json:"slot_s"`
	TTFTSlots []Slot           `json:"ttft_slots"`
	TBTSlots  []Slot           `json:"tbt_slots"`
}

// Slot is a part of a distribution over time; its quantiles are null where it
// has too few samples to have one.
type Slot struct {
	N   int64                `json:"n"`
	P50 stream.Null[float64] `json:"p50_ms"`
	P90 stream.Null[float64] `json:"p90_ms"`
	P99 stream.Null[float64] `json:"p99_ms"`
}

// Last returns the minutes before now.
func (r *Recent) Last(now stamp.Instant) LastMinutes {
	m := LastMinutes{Seconds: make([]int64, 0, recentSeconds), SlotS: slotSeconds}
	r.mu.Lock()
	defer r.mu.Unlock()
	end := int64(now)/int64(time.Second) - settleSeconds // the first second not shown
	var tokens, events int64
	for at := end - recentSeconds + settleSeconds + 1; at < end; at++ {
		s := r.seconds[((at%recentSeconds)+recentSeconds)%recentSeconds]
		if s.at != at {
			s = second{}
		}
		m.Seconds = append(m.Seconds, s.tokens+s.events)
		if at >= end-rateSeconds {
			tokens += s.tokens + s.events
			events += s.events
		}
	}
	m.TokS, m.GuessedTokS = float64(tokens)/rateSeconds, float64(events)/rateSeconds

	var ttft, tbt hist.H
	unit := int64(now) / int64(slotSeconds*time.Second)
	for at := unit - recentSlots + 1; at <= unit; at++ {
		s := &r.slots[((at%recentSlots)+recentSlots)%recentSlots]
		if s.at != at {
			s = &slot{}
		}
		m.TTFTSlots, m.TBTSlots = append(m.TTFTSlots, slotOf(&s.ttft)), append(m.TBTSlots, slotOf(&s.tbt))
		ttft.Merge(&s.ttft)
		tbt.Merge(&s.tbt)
	}
	m.TTFT, m.TBT = told(&ttft), told(&tbt)
	return m
}

// told is QuantilesOf without the quantiles that so few samples cannot have: the
// ninth of ten, the 99th of a hundred.
func told(h *hist.H) matrix.Quantiles {
	q := matrix.QuantilesOf(h)
	if q.N < 10 {
		q.P90 = stream.Null[float64]{}
	}
	if q.N < 100 {
		q.P99 = stream.Null[float64]{}
	}
	return q
}

func slotOf(h *hist.H) Slot {
	q := told(h)
	return Slot{N: q.N, P50: q.P50, P90: q.P90, P99: q.P99}
}
