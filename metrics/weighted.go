package metrics

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
)

// Weighted is a histogram with le buckets whose samples carry a weight: one
// event of sixteen tokens is sixteen samples. The library's histogram has no
// such update, and a loop over the tokens would let a server that claims a
// billion of them stop the stream.
// It is safe for concurrent use.
type Weighted struct {
	bounds []float64

	mu      sync.Mutex
	buckets []uint64 // not cumulative; the last one is above every bound
	count   uint64
	sum     float64
}

func newWeighted(bounds []float64) *Weighted {
	return &Weighted{bounds: bounds, buckets: make([]uint64, len(bounds)+1)}
}

// ObserveN counts n samples of v. Negative, NaN and weightless ones are ignored.
func (w *Weighted) ObserveN(v float64, n int) {
	if n <= 0 || math.IsNaN(v) || v < 0 {
		return
	}
	i := 0
	for i < len(w.bounds) && v > w.bounds[i] {
		i++
	}
	w.mu.Lock()
	w.buckets[i] += uint64(n)
	w.count += uint64(n)
	w.sum += v * float64(n)
	w.mu.Unlock()
}

// write appends the series in the text format; labels is `a="b",` or "".
func (w *Weighted) write(out io.Writer, name, labels string) {
	w.mu.Lock()
	buckets := append([]uint64(nil), w.buckets...)
	count, sum := w.count, w.sum
	w.mu.Unlock()
	var total uint64
	for i, b := range w.bounds {
		total += buckets[i]
		fmt.Fprintf(out, "%s_bucket{%sle=\"%v\"} %d\n", name, labels, b, total)
	}
	fmt.Fprintf(out, "%s_bucket{%sle=\"+Inf\"} %d\n", name, labels, count)
	plain := ""
	if labels != "" {
		plain = "{" + strings.TrimSuffix(labels, ",") + "}"
	}
	fmt.Fprintf(out, "%s_sum%s %s\n", name, plain, strconv.FormatFloat(sum, 'g', -1, 64))
	fmt.Fprintf(out, "%s_count%s %d\n", name, plain, count)
}
