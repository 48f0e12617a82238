package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/internal/yard"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// figure is a number as loadgen reports it and by the emitter's log.
type figure struct{ got, want float64 }

func (f figure) off() float64 { return f.got - f.want }

// reading is one run of a cell.
type reading struct {
	status  matrix.Status
	total   figure  // tok/s
	ttft    figure  // ms, median over the burst, or of a cell of short streams over those sent in the window
	gap     figure  // ms, median
	there   float64 // ms, median from the request's leaving loadgen to its leaving for the emitter
	back    float64 // ms, median from the emitter's first token to ours
	missing int     // streams without the proxy's record, of a joined run
}

// readingOf lays a run beside the emitter's log. left tells when each request
// left for the emitter; true instants are CLOCK_REALTIME nanoseconds. The true
// TTFT begins there, as the definition has it, so the emitter's own backlog of
// requests is part of it.
func readingOf(run *matrix.Run, log map[string]yard.Emitted, left map[string]int64, restarts bool) (reading, error) {
	var r reading
	if len(run.Cells) != 1 || !run.Cells[0].OpenNS.OK || !run.Cells[0].TotalTokS.OK {
		return r, fmt.Errorf("the run has no cell with numbers: %+v", run.Cells)
	}
	c := &run.Cells[0]
	r.status = c.Status
	if c.ProxyDiff != nil {
		r.missing = c.ProxyDiff.Missing
	}
	var open int64 // of the window
	for i := range run.Records {
		if rec := &run.Records[i]; rec.SentRealNS.OK && rec.Phase != stream.Prime {
			open = rec.SentRealNS.V - rec.SentNS.V + c.OpenNS.V
			break
		}
	}
	end := open + int64(c.MeasuredS.V*1e9)
	var tokens int
	var gaps hist.H
	var got, want, there, back []float64
	for i := range run.Records {
		rec := &run.Records[i]
		s, ok := log[rec.ID]
		if rec.Phase == stream.Prime || rec.End == stream.Cancelled && rec.Tokens == 0 {
			continue
		}
		at, sentOn := left[rec.ID]
		if !ok || !sentOn || at == 0 || len(s.Emits) == 0 {
			return r, fmt.Errorf("stream %s has tokens, but no place in the emitter's log or no instant of its request", rec.ID)
		}
		tokens += emitted(s, open, end, &gaps)
		if counts := rec.Seq == 0; restarts != counts && (counts || rec.Phase == stream.InWin) && rec.TTFTNS.OK {
			got = append(got, float64(rec.TTFTNS.V)/1e6)
			want = append(want, float64(s.Emits[0]-at)/1e6)
			there = append(there, float64(at-rec.SentRealNS.V)/1e6)
			back = append(back, float64(rec.SentRealNS.V+rec.TTFTNS.V-s.Emits[0])/1e6)
		}
	}
	if len(got) == 0 {
		return r, fmt.Errorf("no TTFT in %d records", len(run.Records))
	}
	r.total = figure{c.TotalTokS.V, float64(tokens) / c.MeasuredS.V}
	r.ttft = figure{median(got), median(want)}
	r.gap = figure{c.Gaps.P50.V, matrix.QuantilesOf(&gaps).P50.V}
	r.there, r.back = median(there), median(back)
	return r, nil
}

// emitted counts a stream's tokens in [open, end) and files the gaps between
// them.
func emitted(s yard.Emitted, open, end int64, gaps *hist.H) (tokens int) {
	before := int64(0)
	for _, at := range s.Emits {
		if at < open || at >= end {
			continue
		}
		tokens += int(s.PerChunk)
		if before != 0 {
			gaps.Record(at - before)
		}
		before = at
	}
	return tokens
}

// median of values; NaN of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
