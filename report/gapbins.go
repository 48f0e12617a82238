package report

import (
	"encoding/json"
	"math"

	"github.com/streamgauge/streamgauge/hist"
)

// gapBins is a histogram of gaps between tokens, made small for a chart: equal
// bins from just below the 0.5 % to just above the 99.5 % quantile, on a
// logarithmic axis where those are more than four times apart.
type gapBins struct {
	Log    bool     `json:"log"`
	Edges  [2]short `json:"e"` // ms, of the first and last bin
	Counts []int64  `json:"n"`
	Below  int64    `json:"below"` // gaps outside the edges
	Above  int64    `json:"above"`
	Max    short    `json:"max"`
}

const (
	mostBins = 40
	logRatio = 4
)

// bucket is one bucket of a hist.H in nanoseconds.
type bucket struct {
	lo, hi float64
	n      int64
}

// buckets reads a histogram's wire form, [block, bucket, count], as package hist
// defines it: block 0 holds the values 0..127 themselves, block k ≥ 1 the 128
// buckets of width 2^(k-1) from 128·2^(k-1) on.
func buckets(h *hist.H) []bucket {
	p, err := json.Marshal(h)
	if err != nil {
		return nil
	}
	var w struct{ B [][3]int64 }
	if json.Unmarshal(p, &w) != nil {
		return nil
	}
	out := make([]bucket, len(w.B))
	for i, t := range w.B {
		lo, width := float64(t[1]), 1.0
		if t[0] > 0 {
			width = math.Ldexp(1, int(t[0])-1)
			lo = (128 + lo) * width
		}
		out[i] = bucket{lo, lo + width, t[2]}
	}
	return out
}

// binGaps makes the bins; nil when there are no gaps.
func binGaps(h *hist.H) *gapBins {
	if h == nil || h.Count() == 0 {
		return nil
	}
	bs := buckets(h)
	lo, hi := edges(bs, h)
	scale := func(v float64) float64 { return v }
	b := gapBins{Log: hi > logRatio*lo && lo > 0, Edges: [2]short{ms(lo), ms(hi)}, Max: ms(float64(h.Max()))}
	if b.Log {
		scale = math.Log
	}
	inside := 0
	for _, k := range bs {
		if k.hi > lo && k.lo < hi {
			inside++
		}
	}
	b.Counts = make([]int64, max(min(mostBins, inside), 1))
	from, width := scale(lo), (scale(hi)-scale(lo))/float64(len(b.Counts))
	for _, k := range bs {
		switch {
		case k.hi <= lo:
			b.Below += k.n
		case k.lo >= hi:
			b.Above += k.n
		default:
			b.spread(k, scale, from, width)
		}
	}
	return &b
}

// spread shares a bucket's count over the bins that it overlaps, so that bins
// next to each other are not one full, one empty for their edges' sake. Whole
// counts: what rounding leaves goes to the last of them.
func (b *gapBins) spread(k bucket, scale func(float64) float64, from, width float64) {
	at := func(v float64) float64 { return min(max((scale(v)-from)/width, 0), float64(len(b.Counts))) }
	lo, hi := at(k.lo), at(k.hi)
	left := k.n
	last := min(int(hi), len(b.Counts)-1)
	for i := int(lo); i < last; i++ {
		part := int64(float64(k.n) * (min(hi, float64(i+1)) - max(lo, float64(i))) / (hi - lo))
		b.Counts[i] += part
		left -= part
	}
	b.Counts[last] += left
}

// edges are bucket edges around the middle 99 %.
func edges(bs []bucket, h *hist.H) (lo, hi float64) {
	a, z := float64(h.Quantile(.005)), float64(h.Quantile(.995))
	lo, hi = bs[0].lo, bs[len(bs)-1].hi
	for _, k := range bs {
		if k.lo <= a {
			lo = k.lo
		}
	}
	for i := len(bs) - 1; i >= 0; i-- {
		if bs[i].hi > z {
			hi = bs[i].hi
		}
	}
	return lo, hi
}

func ms(ns float64) short { return short{V: ns / 1e6, OK: true} }
