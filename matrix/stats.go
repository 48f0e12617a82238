package matrix

import (
	"math"
	"slices"

	"github.com/streamgauge/streamgauge/stream"
)

// median is the middle value, or the mean of the two middle ones; null of none.
func median(v []float64) stream.Null[float64] {
	if len(v) == 0 {
		return stream.Null[float64]{}
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return stream.Some(v[n/2])
	}
	return stream.Some((v[n/2-1] + v[n/2]) / 2)
}

func medianInt(v []int) int {
	v = slices.Sorted(slices.Values(v))
	return v[(len(v)-1)/2]
}

func scale(n stream.Null[float64], by float64) stream.Null[float64] {
	n.V *= by
	return n
}

// t975 holds the 0.975 quantile of Student's t for 1..9 degrees of freedom
// (any statistics table; NIST/SEMATECH e-Handbook 1.3.6.7.2).
var t975 = []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262}

// CI95 is the half width of the 95 % confidence interval of the mean rate by
// batch means: the seconds of the window are cut into up to ten batches of equal
// length (whole seconds, the remainder at the front is left out), so that
// seconds that depend on their neighbours do not feign precision. Null with
// fewer than two batches.
func CI95(perSecond []float64) stream.Null[float64] {
	batches := min(len(perSecond), len(t975)+1)
	if batches < 2 {
		return stream.Null[float64]{}
	}
	size := len(perSecond) / batches
	used := perSecond[len(perSecond)-size*batches:]
	means := make([]float64, batches)
	var mean float64
	for i := range means {
		for _, v := range used[i*size : (i+1)*size] {
			means[i] += v / float64(size)
		}
		mean += means[i] / float64(batches)
	}
	var ss float64
	for _, m := range means {
		ss += (m - mean) * (m - mean)
	}
	sd := math.Sqrt(ss / float64(batches-1))
	return stream.Some(t975[batches-2] * sd / math.Sqrt(float64(batches)))
}
