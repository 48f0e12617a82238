package stream

import (
	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stamp"
)

// Edges say which part of a stream a window holds. The window is [Open, Close):
// an event belongs to it if its instant does.
type Edges struct {
	Open, Close stamp.Instant
	// From and To bound the slot's time that is this stream's, waits included:
	// usually from the end of the slot's stream before it to its own end. They
	// give Window.CleanNS of a stream that is not cut. Zero stands for Open
	// and for the stream's last event.
	From, To stamp.Instant
	// Onset is the index of the event in which a loop begins, as LoopOnset and
	// Candidate tell it; null when there is none.
	Onset Null[int]
}

// WindowOf returns the part of a stream that lies in a measuring window.
//
// A stream that is cut at an onset counts from its first event in the window,
// whose tokens do not count, to its last before the onset: CleanTokens tokens
// in CleanNS. One whose loop began before the window counts nothing, one that is
// not cut counts as a whole; so does one whose loop began behind the window.
func WindowOf(log []Event, e Edges) Window {
	if i := e.Onset.V; e.Onset.OK && (i >= len(log) || log[i].At >= e.Close) {
		e.Onset.OK = false
	}
	w := Window{Trimmed: e.Onset.OK}
	var first, last, clean stamp.Instant
	var firstTokens float64
	for i := range log {
		ev := &log[i]
		if ev.Flags&SameEvent != 0 || ev.At < e.Open || ev.At >= e.Close {
			continue
		}
		tokens := float64(ev.Tokens)
		if w.Events == 0 {
			first, firstTokens = ev.At, tokens
		}
		w.Events++
		w.Tokens += tokens
		last = ev.At
		if !e.Onset.OK || i < e.Onset.V {
			w.CleanTokens += tokens
			clean = ev.At
		}
	}
	if w.Events > 0 {
		w.FirstTokens = firstTokens
		w.FirstNS, w.LastNS = Some(int64(first-e.Open)), Some(int64(last-e.Open))
	}
	switch {
	case !w.Trimmed:
		from, to := max(e.From, e.Open), e.To
		if to == 0 {
			to = last
		}
		w.CleanNS = max(int64(min(to, e.Close)-from), 0)
	case clean == 0: // the loop began before the window
		w.CleanTokens = 0
	default:
		w.CleanTokens -= firstTokens
		w.CleanNS = int64(clean - first)
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
