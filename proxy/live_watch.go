package proxy

import (
	"sync/atomic"
	"time"

	"github.com/streamgauge/streamgauge/passive"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// watch tells the live page of one observed request. Its methods are called where
// the observer folds, and by its goroutine; learn comes before them.
type watch struct {
	live    *live
	account *passive.Stream // nil before the first generated event
	batch   passive.Batch
	bytes   int64 // of the request's body
	asked   atomic.Int32
}

// What a request asked for.
const (
	unread   = iota // nobody knows: the body went past unread
	streamed        // a stream
	whole           // a reply in one piece, which has no first token and no pace
)

// learn notes what the request's body told.
func (w *watch) learn(streams, ok bool) {
	switch {
	case streams:
		w.asked.Store(streamed)
	case ok:
		w.asked.Store(whole)
	}
}

// first notes a choice's first generated event.
func (w *watch) first(upstream string, at stamp.Instant) {
	if w.asked.Load() == whole {
		return
	}
	if w.account == nil {
		w.account = w.live.book.Stream(upstream)
	}
	w.account.Decodes(at)
}

// ttft notes the stream's first generated event.
func (w *watch) ttft(at stamp.Instant, d time.Duration) {
	if w.asked.Load() != whole {
		w.batch.First(at, int64(d))
	}
}

// event notes a generated event, tokens how many it had.
func (w *watch) event(at stamp.Instant) {
	if w.asked.Load() != whole {
		w.batch.Event(at)
	}
}

func (w *watch) tokens(at stamp.Instant, n int) {
	if w.asked.Load() != whole {
		w.batch.Tokens(at, n)
	}
}

// gap notes n tokens that took d.
func (w *watch) gap(at stamp.Instant, d time.Duration, n int) {
	if w.asked.Load() != whole {
		w.batch.Gap(at, int64(d)/int64(n), n)
	}
}

// flush shows what was noted.
func (w *watch) flush() { w.live.recent.Add(&w.batch) }

// drop ends the watching of a stream that is no longer observed.
func (w *watch) drop(at stamp.Instant) {
	if w.account != nil {
		w.account.Drop(at)
		w.account = nil
	}
}

// end books a finished stream; rec has its coordinates.
func (w *watch) end(rec *stream.Record, log []stream.Event, sent stamp.Instant, model string) {
	w.flush()
	if w.account != nil {
		w.account.End(passive.Reply{Record: rec, Log: log, Sent: sent, Model: model, RequestBytes: w.bytes,
			Whole: w.asked.Load() == unread && rec.Events == 1})
		w.account = nil
	}
	for _, l := range rec.Loops {
		w.live.loops.add(SeenLoop{At: time.Now(), ID: rec.ID, Model: model, Upstream: rec.Upstream, End: string(rec.End),
			Tokens: rec.Tokens, Loop: l, Acts: l.Acts()})
	}
}
