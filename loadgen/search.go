package loadgen

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
)

// SLO is what the 95th percentiles of a cell may be at most; 0: any. TTFT is that
// of the start burst, or from the intended instants under paced load; TBT is over
// the cell's streams.
type SLO struct{ TTFT, TBT time.Duration }

// header is the targets for the run file, nil without a search.
func (s SLO) header() *matrix.SLOConfig {
	if s == (SLO{}) {
		return nil
	}
	return &matrix.SLOConfig{TTFTMS: float64(s.TTFT) / 1e6, TBTMS: float64(s.TBT) / 1e6}
}

func (s SLO) String() string {
	var parts []string
	if s.TTFT > 0 {
		parts = append(parts, fmt.Sprintf("TTFT p95 ≤ %v", s.TTFT))
	}
	if s.TBT > 0 {
		parts = append(parts, fmt.Sprintf("TBT p95 ≤ %v", s.TBT))
	}
	return strings.Join(parts, ", ")
}

// Bounds of a search.
const (
	maxSearch     = 20 // cells
	typicalSearch = 9  // of them, for the estimate
	rateStep      = 1.05
)

// holds lays a cell beside the targets. words is what was seen.
func (s SLO) holds(c *matrix.Cell) (ok bool, words string) {
	if c.Status != matrix.Valid {
		return false, fmt.Sprintf("%s (%s)", c.Status, c.Message)
	}
	ttft := c.Hist.TTFT
	if c.Offered != nil {
		ttft = c.Offered.Hist
	}
	ok = true
	var seen []string
	for _, t := range []struct {
		name string
		h    *hist.H
		most time.Duration
	}{{"TTFT", ttft, s.TTFT}, {"TBT", c.Hist.TBT, s.TBT}} {
		if t.most == 0 {
			continue
		}
		if t.h == nil || t.h.Count() == 0 {
			ok = false
			seen = append(seen, t.name+" unknown")
			continue
		}
		p95 := time.Duration(t.h.Quantile(.95))
		ok = ok && p95 <= t.most
		seen = append(seen, fmt.Sprintf("%s p95 %.4g ms of %.4g", t.name, float64(p95)/1e6, float64(t.most)/1e6))
	}
	return ok, strings.Join(seen, ", ")
}

// bisection finds the highest level between two at which something holds that
// does not hold above some level: it doubles until it fails or is at the top, then
// halves what is left. Noise can make any level fail; the trace shows what was
// seen.
type bisection struct {
	least, most float64
	whole       bool    // levels are whole numbers
	good, bad   float64 // 0: none yet
	tried       int
}

// next is the level to try; false: the search is over.
func (b *bisection) next() (float64, bool) {
	switch {
	case b.tried == maxSearch:
		return 0, false
	case b.good == 0 && b.bad == 0:
		return b.least, true
	case b.good == 0:
		return 0, false
	case b.bad == 0:
		return min(2*b.good, b.most), b.good < b.most
	case b.whole:
		mid := math.Floor((b.good + b.bad) / 2)
		return mid, mid > b.good
	}
	return math.Sqrt(b.good * b.bad), b.bad > rateStep*b.good
}

func (b *bisection) note(level float64, holds bool) {
	b.tried++
	if holds {
		b.good = level
	} else {
		b.bad = level
	}
}

// search runs cells until the highest level is found. Each is saved as any other,
// with a note of what was seen; cells of a resumed run are not run again.
func (r *runner) search(ctx context.Context, s Step, n int) (failed, unwritten error) {
	b := bisection{least: s.level(), whole: s.Phase == matrix.Decode}
	if b.whole {
		b.most = float64(slices.Max(r.plan.Concurrency))
	} else {
		b.most = slices.Max(r.cfg.Rates)
	}
	for {
		level, more := b.next()
		if !more {
			return nil, r.note("slo_result", r.found(s, &b))
		}
		c, err, werr := r.try(ctx, s.at(level), n)
		if err != nil || werr != nil {
			return err, werr
		}
		holds, words := r.cfg.SLO.holds(c)
		b.note(level, holds)
		verdict := "fails"
		if holds {
			verdict = "holds"
		}
		if err := r.note("slo", fmt.Sprintf("context %d, %s: %s: %s", s.Context, s.at(level).Level(), words, verdict)); err != nil {
			return nil, err
		}
	}
}

// try runs the cell of one level, unless the run has it.
func (r *runner) try(ctx context.Context, s Step, n int) (c *matrix.Cell, failed, unwritten error) {
	s = r.plan.weigh(r.cfg, r.info, s)
	want := r.blank(s)
	same := func(c matrix.Cell) bool { return c.Same(&want) && c.Final() }
	if i := slices.IndexFunc(r.out.Cells, same); i >= 0 {
		return &r.out.Cells[i], nil, nil
	}
	r.now.step = s
	results, err := r.step(ctx, s, n)
	return &results[0].cell, err, r.saveAll(results)
}

// at is the step with another level.
func (s Step) at(level float64) Step {
	s.Search = false
	if s.Phase == matrix.Offered {
		s.Load = []Pace{{level, s.Load[0].For}}
	} else {
		s.Concurrency = int(level)
	}
	return s
}

// Level names what the step holds or offers: "concurrency 8", "10/s", the rates of
// its stages, or where its search begins.
func (s Step) Level() string {
	level := fmt.Sprintf("concurrency %d", s.Concurrency)
	if s.Phase == matrix.Offered {
		var rates []string
		for _, l := range s.Load {
			rates = append(rates, fmt.Sprintf("%.4g/s", l.Rate))
		}
		level = strings.Join(rates, ", ")
	}
	if s.Search {
		return "search from " + level
	}
	return level
}

// found is the sentence about what a search has found.
func (r *runner) found(s Step, b *bisection) string {
	name, unit := "concurrency ", ""
	if s.Phase == matrix.Offered {
		name, unit = "", "/s"
	}
	level := func(v float64) string { return fmt.Sprintf("%s%.4g%s", name, v, unit) }
	text := fmt.Sprintf("context %d, %v: ", s.Context, r.cfg.SLO)
	switch {
	case b.good == 0:
		return text + fmt.Sprintf("does not hold at %s, the least tried", level(b.least))
	case b.bad == 0:
		return text + fmt.Sprintf("holds at %s, the most that was allowed", level(b.good))
	}
	return text + fmt.Sprintf("the highest is %s; %s fails (%d cells)", level(b.good), level(b.bad), b.tried)
}
