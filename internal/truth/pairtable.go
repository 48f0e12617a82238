package main

import (
	"fmt"
	"io"
	"math"

	"github.com/streamgauge/streamgauge/matrix"
)

// Bars of the pair: how far a reading's error through the proxy may be from the
// direct one's.
const (
	pairTotal = .005 // of the true total
	pairTime  = .2   // ms, of TTFT and gap p50
)

const pairFormat = "%-22s %-10s %10s %9s %9s %9s %9s %9s %9s %9s %9s  %s\n"

func printPairLegend(w io.Writer) { fmt.Fprintf(w, pairLegend, 100*pairTotal, pairTime) }

func printPairHeader(w io.Writer) {
	fmt.Fprintf(w, pairFormat, "cell", "way", "tok/s", "off %", "TTFT ms", "off", "there", "back", "gap p50", "off", "missing", "against direct")
}

const pairLegend = `
off: less the same figure by the emitter's log, median of the rounds. TTFT: of the burst; of short streams, of those sent in the window.
there: from loadgen's sending to the request's leaving for the emitter; back: from the first token's leaving the emitter to its stamp.
A stream's TTFT is off by there and back together. A TTFT begins on a connection that is up, but a forwarded one's there holds the proxy's
connecting: the emitter closes every connection, so the proxy sets one up for each request. Only back has the bar of TTFT.
bars: total within %g %% of direct, TTFT and gap p50 within %g ms, no record missing.
`

// medians of one way's rounds.
type medians struct {
	total, totalOff, ttft, ttftOff, there, back, gap, gapOff float64
	missing                                                  int
	bad                                                      matrix.Status // of a round that was not valid
}

func mediansOf(rounds []reading) medians {
	of := func(value func(*reading) float64) float64 {
		var v []float64
		for i := range rounds {
			v = append(v, value(&rounds[i]))
		}
		return median(v)
	}
	m := medians{
		total:    of(func(r *reading) float64 { return r.total.got }),
		totalOff: of(func(r *reading) float64 { return r.total.off() / r.total.want }),
		ttft:     of(func(r *reading) float64 { return r.ttft.got }),
		ttftOff:  of(func(r *reading) float64 { return r.ttft.off() }),
		there:    of(func(r *reading) float64 { return r.there }),
		back:     of(func(r *reading) float64 { return r.back }),
		gap:      of(func(r *reading) float64 { return r.gap.got }),
		gapOff:   of(func(r *reading) float64 { return r.gap.off() }),
	}
	for _, r := range rounds {
		m.missing += r.missing
		if r.status != matrix.Valid {
			m.bad = r.status
		}
	}
	return m
}

// verdicts are the bars of a way through the proxy, each with what it came to.
// Of a TTFT it is the part behind there: see the legend.
func verdicts(m, straight medians) (said string, missed int) {
	judge := func(name string, off, bar float64, format string) {
		word := "met"
		if !(math.Abs(off) <= bar) { // NaN is a miss
			word = "OVER"
			missed++
		}
		said += fmt.Sprintf("%s "+format+" %s; ", name, off, word)
	}
	judge("total %", 100*(m.totalOff-straight.totalOff), 100*pairTotal, "%+.3f")
	judge("TTFT", m.back-straight.back, pairTime, "%+.3f")
	judge("gap", m.gapOff-straight.gapOff, pairTime, "%+.3f")
	if m.missing > 0 {
		said += fmt.Sprintf("%d records MISSING; ", m.missing)
		missed++
	}
	return said, missed
}

// printPair writes a cell's rows and returns how many bars they miss.
func printPair(out io.Writer, c cell, readings [ways][]reading) (missed int) {
	straight := mediansOf(readings[direct])
	for w := direct; w < ways; w++ {
		m := mediansOf(readings[w])
		said, over := "", 0
		if w != direct {
			said, over = verdicts(m, straight)
		}
		if m.bad != "" {
			said += fmt.Sprintf("status %s; ", m.bad)
			over++
		}
		missed += over
		n := func(format string, v float64) string { return fmt.Sprintf(format, v) }
		fmt.Fprintf(out, pairFormat, c, w, n("%.1f", m.total), n("%+.3f", 100*m.totalOff), n("%.3f", m.ttft), n("%+.3f", m.ttftOff),
			n("%.3f", m.there), n("%.3f", m.back), n("%.3f", m.gap), n("%+.3f", m.gapOff), n("%.0f", float64(m.missing)), said)
	}
	return missed
}
