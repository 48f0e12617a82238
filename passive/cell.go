package passive

import (
	"slices"
	"sync"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// group is the cells of one model at one upstream.
type group struct {
	mu    sync.Mutex
	cells [contextBuckets][decodeBuckets]*cell
}

// cell is what fell into one (context, decoding).
type cell struct {
	known, guessed sums    // by whether the tokens per event are known
	byRatio        float64 // tokens whose context bucket comes from the request's size
	ttft, gaps     hist.H
}

// sums is Σ tokens and Σ time of one kind of stream in a cell. The times are
// float64, of which the weighted one outgrows an int64 in hours.
type sums struct {
	tokens, ns float64
	weighted   float64 // Σ number decoding · time
	streams    int64
}

func (s *sums) add(o sums) {
	s.tokens += o.tokens
	s.ns += o.ns
	s.weighted += o.weighted
	s.streams += o.streams
}

// cell returns a cell, made if needed. The lock is held.
func (g *group) cell(context int, decoding float64) *cell {
	at := &g.cells[context][roundedBucket(decoding)]
	if *at == nil {
		*at = &cell{}
	}
	return *at
}

// book folds a reply into its cells and returns the tokens left out as loops. counts
// is the number decoding at each event; nil where none was counted.
func (g *group) book(r *Reply, context int, byRatio bool, counts []float32) (looped int64) {
	known := tokensKnown(r)
	until, loops := onset(r)
	var last []stamp.Instant // of each choice
	var parts [decodeBuckets]sums
	begun := false

	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range r.Log {
		e := &r.Log[i]
		if e.Flags&stream.SameEvent != 0 {
			continue
		}
		n := 1.0
		if counts != nil {
			n = float64(counts[i])
		}
		c := g.cell(context, n)
		if !begun {
			begun = true
			if r.Record.TTFTNS.OK {
				c.ttft.Record(r.Record.TTFTNS.V)
			}
		}
		if loops && e.At > until {
			looped += int64(e.Tokens)
			continue
		}
		last = grown(last, int(e.Choice))
		before := last[e.Choice]
		last[e.Choice] = e.At
		if before == 0 {
			continue // its tokens took the time to first token
		}
		p := &parts[roundedBucket(n)]
		gap := float64(e.At - before)
		p.tokens += float64(e.Tokens)
		p.ns += gap
		p.weighted += n * gap
		p.streams = 1
		if e.At > before {
			c.gaps.Record(int64(e.At - before))
		}
	}
	for bucket := range parts {
		p := parts[bucket]
		if p.streams == 0 {
			continue
		}
		c := g.cells[context][bucket]
		if known {
			c.known.add(p)
		} else {
			c.guessed.add(p)
		}
		if byRatio {
			c.byRatio += p.tokens
		}
	}
	return looped
}

// onset returns the instant of the last event before the earliest loop that
// retires a stream; 0 where the stream began with one, or where nobody knows.
func onset(r *Reply) (until stamp.Instant, loops bool) {
	for _, l := range r.Record.Loops {
		if !l.Acts() {
			continue
		}
		at := stamp.Instant(0)
		if l.OnsetNS.OK {
			at = r.Sent + stamp.Instant(l.OnsetNS.V)
		}
		if !loops || at < until {
			until, loops = at, true
		}
	}
	return until, loops
}

// tokensKnown reports whether the tokens of each event are known, see the
// package's doc.
func tokensKnown(r *Reply) bool {
	rec := r.Record
	switch rec.TokensFrom {
	case stream.FromEstimate:
		return false
	case stream.FromUsageFinal:
		return rec.End == stream.Completed && near(rec.GeneratedEvents, rec.Tokens)
	}
	if slices.Contains(rec.Flags, "log_full") {
		return true // the log is a part of it
	}
	sum := 0
	for i := range r.Log {
		sum += int(r.Log[i].Tokens)
	}
	return near(sum, rec.Tokens)
}

// near reports whether two counts of a stream's tokens are one but for the end
// of the text.
func near(a, b int) bool {
	d := max(a, b) - min(a, b)
	return d <= 1 || d*100 <= b
}

func hidden(rec *stream.Record) bool { return slices.Contains(rec.Flags, "hidden_reasoning") }
