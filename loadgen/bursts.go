package loadgen

import (
	"fmt"
	"slices"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
)

// A burst is at least so many generated events of one instant, behind a pause of
// over so many times the stream's median time between events, those that share an
// instant included. An engine sends an event a step: who releases them by the
// bunch holds them back before.
const (
	burstEvents = 8
	burstPause  = 10
)

// maxBursts is the share of events in bursts beyond which a cell is warned: one
// lost segment makes a burst, too.
const maxBursts = 0.1

// bursts is what came in bunches.
type bursts struct {
	events, in int           // all in the window, and those in bursts
	most       int           // events of the largest burst
	pause      time.Duration // longest in front of one
}

// warn says so on the cell.
func (b bursts) warn(c *matrix.Cell) {
	if float64(b.in) <= maxBursts*float64(b.events) {
		return
	}
	c.Warn("bursts", fmt.Sprintf(
		"%.0f %% of the events came in bursts, up to %d at one instant, behind pauses of up to %.3g ms: the server, or something on the way, holds events back, and the times between them are not those of the engine",
		100*float64(b.in)/float64(b.events), b.most, float64(b.pause)/1e6))
}

// bursts looks for them in the window.
func (w window) bursts(lives []*life) bursts {
	var b bursts
	for _, l := range lives {
		b.add(l, l.before(w.open), l.before(w.end))
	}
	return b
}

// add looks at the events [from, to) of a stream.
func (b *bursts) add(l *life, from, to int) {
	b.events += to - from
	log := l.log[from:to]
	limit := time.Duration(-1) // unknown: most streams have no bunch at all
	for i := 0; i < len(log); {
		j := i + 1
		for j < len(log) && log[j].At == log[i].At {
			j++
		}
		if n := j - i; n >= burstEvents && i > 0 {
			if limit < 0 {
				limit = burstPause * medianSpacing(l, from, to)
			}
			if pause := log[i].At.Sub(log[i-1].At); pause > limit {
				b.in += n
				b.most, b.pause = max(b.most, n), max(b.pause, pause)
			}
		}
		i = j
	}
}

// medianSpacing is the median time between two successive events of [from, to).
func medianSpacing(l *life, from, to int) time.Duration {
	all := make([]time.Duration, 0, to-from)
	for i := from + 1; i < to; i++ {
		all = append(all, l.log[i].At.Sub(l.log[i-1].At))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
