package loadgen

import (
	"slices"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// life is one stream of a slot, kept from its end until its cell is folded.
type life struct {
	rec  *stream.Record
	log  []stream.Event // its generated events; its lane's until detach, then ours
	sent stamp.Instant
	end  stamp.Instant // of the stream; for one we ended, when we did

	// onset indexes the first event that belongs to a loop; clean when there is
	// none, 0 when the loop has no known beginning.
	onset   int
	retired bool // by an acting verdict; a mere candidate at the close is not
}

// clean is the onset of a stream without a loop.
const clean = int(^uint(0) >> 1)

// detach copies the log out of the lane's memory, before the lane runs another
// stream. The last stream of a lane needs no copy: the lane ends with it.
func (l *life) detach() { l.log = slices.Clone(l.log) }

// tokens sums the events [from, to).
func (l *life) tokens(from, to int) float64 {
	var n float64
	for i := from; i < to; i++ {
		n += float64(l.log[i].Tokens)
	}
	return n
}

// firstToken is the instant of the first generated event, 0 without one.
func (l *life) firstToken() stamp.Instant {
	if len(l.log) == 0 {
		return 0
	}
	return l.log[0].At
}

// before is the number of events earlier than at.
func (l *life) before(at stamp.Instant) int {
	n, _ := slices.BinarySearchFunc(l.log, at, func(e stream.Event, at stamp.Instant) int {
		if e.At < at {
			return -1
		}
		return 1
	})
	return n
}

// counts says what was assumed of streams that tell no counts per event.
type counts struct {
	scaled    int     // streams cut short, counted by perEvent
	perEvent  float64 // tokens per event of the completed streams; 0: none told
	estimated int     // streams counted at one token an event, for want of anything better
}

// settleCounts counts the streams that were cut short before the server told
// their total (docs/measuring.md, "Token counts"): events times the tokens per
// event of the cell's completed streams, else 1 per event.
func settleCounts(lives []*life) counts {
	var tokens, events float64
	for _, l := range lives {
		if l.rec.TokensFrom == stream.FromUsageFinal && l.rec.End == stream.Completed {
			tokens += float64(l.rec.Tokens)
			events += float64(len(l.log))
		}
	}
	var c counts
	if events > 0 {
		c.perEvent = tokens / events
	}
	for _, l := range lives {
		switch {
		case l.rec.TokensFrom != stream.FromEstimate || len(l.log) == 0:
		case c.perEvent == 0 || l.rec.End == stream.Completed:
			c.estimated++
		default:
			c.scaled++
			l.rec.TokensFrom = stream.FromUsageFinal
			l.rec.Tokens = int(c.perEvent*float64(len(l.log)) + .5)
			stream.Spread(l.log, l.rec.Tokens)
		}
	}
	return c
}

// mostDecoding is the largest number of streams that were between their first
// token and their end at the same time, up to the instant until.
func mostDecoding(lives []*life, until stamp.Instant) int {
	type edge struct {
		at stamp.Instant
		by int
	}
	var edges []edge
	for _, l := range lives {
		if at := l.firstToken(); at != 0 && at < until {
			edges = append(edges, edge{at, 1}, edge{max(l.end, at), -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if a.at != b.at {
			return int(min(max(a.at-b.at, -1), 1))
		}
		return a.by - b.by // an end frees its place for a start at the same instant
	})
	most, now := 0, 0
	for _, e := range edges {
		if e.at >= until {
			break
		}
		now += e.by
		most = max(most, now)
	}
	return most
}
