package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
	"github.com/streamgauge/streamgauge/matrix"
)

// load is what the emitter is asked for.
type load struct {
	name     string
	streams  int
	itl      time.Duration // between two tokens of a stream
	perChunk int           // tokens of an event
	rss      int           // bar, bytes; 0: none
}

// loads are those of the anchors.
var loads = []load{
	{"128x10ms", 128, 10 * time.Millisecond, 1, 0},
	{"128x5ms", 128, 5 * time.Millisecond, 1, 0},
	{"512x40ms", 512, 40 * time.Millisecond, 1, 64 << 20},
	{"128x10ms,k=4", 128, 10 * time.Millisecond, 4, 0},
}

func (l load) spec() string { return fmt.Sprintf("ttft=200ms,itl=%v,k=%d", l.itl, l.perChunk) }

// pair is a figure as reported and as it was.
type pair struct{ got, want float64 }

func (p pair) off() float64   { return math.Abs(p.got - p.want) }
func (p pair) share() float64 { return p.off() / p.want }

// round is one measurement of a load.
type round struct {
	status   matrix.Status
	message  string
	total    pair      // tok/s
	tbt      pair      // ms, median over streams
	gap      pair      // ms, p99
	ttft     pair      // ms, median of the burst
	instants []float64 // ms off, sorted
	perToken time.Duration
	floor    time.Duration // drain's
	rss      int
	first    time.Duration // from the start of the process to the first completion request
}

// round runs drain, loadgen, and loadgen with its events.
func (b *bench) round(ctx context.Context, l load) (round, error) {
	var r round
	e, err := b.emitter(ctx, l.spec())
	if err != nil {
		return r, err
	}
	defer e.Stop(syscall.SIGTERM)
	if r.floor, err = b.drain(ctx, e, l); err != nil {
		return r, err
	}
	if _, err := e.Log(ctx); err != nil {
		return r, err
	}
	run, spent, err := b.loadgen(ctx, e, l)
	if err != nil {
		return r, err
	}
	log, err := e.Log(ctx)
	if err != nil {
		return r, err
	}
	if err := r.judge(run, log, spent); err != nil {
		return r, err
	}
	if run, _, err = b.loadgen(ctx, e, l, "--events"); err != nil {
		return r, err
	}
	if log, err = e.Log(ctx); err != nil {
		return r, err
	}
	r.instants, err = errorsOf(run, log)
	return r, err
}

// judge lays a run beside the emitter's log of it.
func (r *round) judge(run *matrix.Run, log map[string]yard.Emitted, spent cost) error {
	if len(run.Cells) != 1 || !run.Cells[0].OpenNS.OK {
		return fmt.Errorf("%d cells, want one that was measured", len(run.Cells))
	}
	c := &run.Cells[0]
	r.status, r.message = c.Status, c.Message
	open, tokens, first := int64(0), 0, int64(math.MaxInt64)
	for _, rec := range run.Records {
		tokens += rec.Tokens
		if rec.SentRealNS.OK && open == 0 {
			open = rec.SentRealNS.V - rec.SentNS.V + c.OpenNS.V
		}
	}
	for _, s := range log {
		first = min(first, s.Read)
	}
	r.rss, r.perToken = spent.rss, spent.cpu/time.Duration(max(tokens, 1))
	r.first = time.Unix(0, first).Sub(spent.began)

	t := truthOf(run, log, open, open+int64(c.MeasuredS.V*1e9))
	r.total = pair{c.TotalTokS.V, float64(t.tokens) / c.MeasuredS.V}
	r.tbt = pair{c.TBTMS.V, quantile(t.tbt, .5)}
	r.gap = pair{c.Gaps.P99.V, quantile(t.gaps, .99)}
	r.ttft = pair{c.TTFTMS.V, quantile(t.ttft, .5)}
	return nil
}

// truth is the emitter's log of a window, in milliseconds, sorted.
type truth struct {
	tokens          int64
	gaps, tbt, ttft []float64
}

// truthOf is made by the definitions of docs/measuring.md, of the emitter's
// instants: tokens in [open, end), gaps between two events in it, a stream's time
// between tokens from its first to its last event in it.
func truthOf(run *matrix.Run, log map[string]yard.Emitted, open, end int64) truth {
	var t truth
	for _, rec := range run.Records {
		s, ok := log[rec.ID]
		if !ok || rec.Phase == "prime" || len(s.Emits) == 0 {
			continue
		}
		if rec.Seq == 0 {
			t.ttft = append(t.ttft, float64(s.Emits[0]-s.Read)/1e6)
		}
		var in []int64
		for _, at := range s.Emits {
			if at >= open && at < end {
				in = append(in, at)
			}
		}
		t.tokens += int64(len(in)) * s.PerChunk
		for i := 1; i < len(in); i++ {
			t.gaps = append(t.gaps, float64(in[i]-in[i-1])/1e6)
		}
		if n := len(in); n > 1 {
			t.tbt = append(t.tbt, float64(in[n-1]-in[0])/1e6/float64(int64(n-1)*s.PerChunk))
		}
	}
	slices.Sort(t.gaps)
	slices.Sort(t.tbt)
	slices.Sort(t.ttft)
	return t
}

// errorsOf are the distances, in milliseconds, of the instants in the run file
// to the emitter's, sorted. Coalesced ones are upper bounds and left out.
func errorsOf(run *matrix.Run, log map[string]yard.Emitted) ([]float64, error) {
	var off []float64
	for _, rec := range run.Records {
		if rec.Phase == "prime" {
			continue
		}
		s, ok := log[rec.ID]
		if !ok || len(s.Emits) < len(rec.EventLog) || !rec.SentRealNS.OK {
			return nil, fmt.Errorf("stream %s: %d events, %d in the emitter's log", rec.ID, len(rec.EventLog), len(s.Emits))
		}
		for i, e := range rec.EventLog {
			if e[2] == 0 {
				off = append(off, math.Abs(float64(rec.SentRealNS.V+e[0]-s.Emits[i]))/1e6)
			}
		}
	}
	if len(off) == 0 {
		return nil, fmt.Errorf("no instant in %d records", len(run.Records))
	}
	slices.Sort(off)
	return off, nil
}

// quantile of sorted values, by nearest rank; NaN of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}
