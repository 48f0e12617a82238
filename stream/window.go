package stream

import (
	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stamp"
)

// Edges say which part of a stream counts. The window is [Open, Close): an event
// belongs to it if its instant does.
type Edges struct {
	Open, Close stamp.Instant
	// Onset is the index of the event in which a loop begins, as LoopOnset and
	// Candidate tell it; null when there is none. WindowOf does not look at it.
	Onset Null[int]
}

// WindowOf returns the part of a stream that lies in a measuring window, loops
// included. The clean part is not filled in: it depends on the other streams of
// the slot, on when the one before ended and whether that looped.
func WindowOf(log []Event, e Edges) Window {
	var w Window
	for i := range log {
		ev := &log[i]
		if ev.Flags&SameEvent != 0 || ev.At < e.Open || ev.At >= e.Close {
			continue
		}
		if w.Events == 0 {
			w.FirstTokens, w.FirstNS = float64(ev.Tokens), Some(int64(ev.At-e.Open))
		}
		w.Events++
		w.Tokens += float64(ev.Tokens)
		w.LastNS = Some(int64(ev.At - e.Open))
	}
	return w
}

// GapsIn records, into h, the times between events of one choice that do not
// share an instant and both lie in the window, up to the onset.
func GapsIn(log []Event, e Edges, h *hist.H) {
	var before [4]stamp.Instant // by choice; further ones are rare
	var more map[uint16]stamp.Instant
	for i := range log {
		ev := &log[i]
		if ev.Flags&SameEvent != 0 || ev.At < e.Open || ev.At >= e.Close {
			continue
		}
		if e.Onset.OK && i >= e.Onset.V {
			return
		}
		last := more[ev.Choice]
		if int(ev.Choice) < len(before) {
			last = before[ev.Choice]
		}
		if last != 0 && ev.At > last {
			h.Record(int64(ev.At - last))
		}
		if int(ev.Choice) < len(before) {
			before[ev.Choice] = ev.At
			continue
		}
		if more == nil {
			more = make(map[uint16]stamp.Instant)
		}
		more[ev.Choice] = ev.At
	}
}

// Logged is the event as an entry of a record's event_log. ok is false for one that is
// no event of its own.
func (e *Event) Logged(sent stamp.Instant) (entry [3]int64, ok bool) {
	return [3]int64{int64(e.At - sent), int64(e.Tokens), int64(e.Flags & Coalesced)}, e.Flags&SameEvent == 0
}

// EventLog is the event_log of a stream's record, once that is finished: LogOf's
// inverse.
func EventLog(log []Event, sent stamp.Instant) [][3]int64 {
	out := make([][3]int64, 0, len(log))
	for i := range log {
		if entry, ok := log[i].Logged(sent); ok {
			out = append(out, entry)
		}
	}
	return out
}

// LogOf rebuilds the log of a record that carries its events. sent is the
// instant that its offsets are relative to, on the clock that the window edges
// are on. Choices and channels are not in a record: all events are choice 0.
func LogOf(r *Record, sent stamp.Instant) []Event {
	log := make([]Event, len(r.EventLog))
	for i, e := range r.EventLog {
		log[i] = Event{At: sent + stamp.Instant(e[0]), Tokens: int32(e[1])}
		if e[2] != 0 {
			log[i].Flags = Coalesced
		}
	}
	return log
}

// OnsetIn returns the index of the first event of log after instant at, for
// Edges.Onset where an onset is known as the instant of the last event before
// it; len(log) when there is none.
func OnsetIn(log []Event, at stamp.Instant) int {
	for i := range log {
		if log[i].At > at {
			return i
		}
	}
	return len(log)
}
