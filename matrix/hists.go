package matrix

import (
	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stream"
)

// Hists are a cell's mergeable histograms, in nanoseconds; a nil one is null.
type Hists struct {
	TTFT *hist.H `json:"ttft"`
	TBT  *hist.H `json:"tbt"`
	Gaps *hist.H `json:"gaps"`
}

// QuantilesOf summarises h in milliseconds; a nil or empty h gives nulls.
func QuantilesOf(h *hist.H) Quantiles {
	if h == nil || h.Count() == 0 {
		return Quantiles{}
	}
	ms := func(ns int64) stream.Null[float64] { return stream.Some(float64(ns) / 1e6) }
	return Quantiles{
		N:   h.Count(),
		P50: ms(h.Quantile(.50)), P90: ms(h.Quantile(.90)), P99: ms(h.Quantile(.99)), Max: ms(h.Max()),
	}
}
