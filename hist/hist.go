package hist

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
)

const (
	subBits = 7
	sub     = 1 << subBits // buckets of one power of two
	blocks  = 64 - subBits // block 0 and 1 are linear, then one a power of two
)

// H counts non-negative int64 values, by convention nanoseconds. The zero value
// is empty and ready. It is not safe for concurrent use: fill one per
// goroutine and Merge.
type H struct {
	n        int64
	sum      float64
	min, max int64
	counts   [blocks]*[sub]int64
}

// index returns the block and the bucket of v. Block 0 holds 0..127, block 1
// 128..255, and block k ≥ 1 values whose highest bit is subBits+k-1.
func index(v int64) (block, bucket int) {
	if v < sub {
		return 0, int(v)
	}
	shift := bits.Len64(uint64(v)) - subBits - 1
	return shift + 1, int(v>>shift) - sub
}

// middle is the value reported for a bucket: half-way between its first and
// last member.
func middle(block, bucket int) int64 {
	if block == 0 {
		return int64(bucket)
	}
	width := int64(1) << (block - 1)
	return (sub+int64(bucket))*width + (width-1)/2
}

// Record counts v once; a negative v counts as 0.
func (h *H) Record(v int64) { h.RecordN(v, 1) }

// RecordN counts v n times; n ≤ 0 counts nothing.
func (h *H) RecordN(v, n int64) {
	if n <= 0 {
		return
	}
	v = max(v, 0)
	if h.n == 0 || v < h.min {
		h.min = v
	}
	if h.n == 0 || v > h.max {
		h.max = v
	}
	h.n += n
	h.sum += float64(v) * float64(n)
	h.add(v, n)
}

func (h *H) add(v, n int64) {
	b, i := index(v)
	if h.counts[b] == nil {
		h.counts[b] = new([sub]int64)
	}
	h.counts[b][i] += n
}

// Merge adds all that o holds; o is unchanged.
func (h *H) Merge(o *H) {
	if o == nil || o.n == 0 {
		return
	}
	if h.n == 0 || o.min < h.min {
		h.min = o.min
	}
	if h.n == 0 || o.max > h.max {
		h.max = o.max
	}
	h.n += o.n
	h.sum += o.sum
	for b, from := range o.counts {
		if from == nil {
			continue
		}
		if h.counts[b] == nil {
			h.counts[b] = new([sub]int64)
		}
		for i, c := range from {
			h.counts[b][i] += c
		}
	}
}

// Reset empties h and keeps its memory.
func (h *H) Reset() {
	for _, c := range h.counts {
		if c != nil {
			clear(c[:])
		}
	}
	h.n, h.sum, h.min, h.max = 0, 0, 0, 0
}

// Count is the number of recorded values, Sum their sum.
func (h *H) Count() int64 { return h.n }

// Sum is the sum of the recorded values.
func (h *H) Sum() float64 { return h.sum }

// Min is the least recorded value; 0 when empty.
func (h *H) Min() int64 { return h.min }

// Max is the greatest recorded value; 0 when empty.
func (h *H) Max() int64 { return h.max }

// Quantile returns the value at rank ⌈q·n⌉ (nearest rank, the first for q ≤ 0,
// the exact maximum for q ≥ 1), within 1/256 of the true one; 0 when empty.
func (h *H) Quantile(q float64) int64 {
	if h.n == 0 {
		return 0
	}
	rank := int64(math.Ceil(q * float64(h.n)))
	if rank <= 1 {
		return h.min
	}
	if rank >= h.n {
		return h.max
	}
	var seen int64
	for b, c := range h.counts {
		if c == nil {
			continue
		}
		for i, k := range c {
			if seen += k; seen >= rank {
				return min(max(middle(b, i), h.min), h.max)
			}
		}
	}
	return h.max
}

// wire form: {"n":3,"sum":6e7,"min":1,"max":9,"b":[[block,bucket,count],…]}
// with the buckets ascending and every count positive.
type wireForm struct {
	N   int64      `json:"n"`
	Sum float64    `json:"sum"`
	Min int64      `json:"min"`
	Max int64      `json:"max"`
	B   [][3]int64 `json:"b"`
}

// MarshalJSON writes {"n","sum","min","max","b":[[block,bucket,count],…]}; see
// index for how a value maps to its block and bucket.
func (h *H) MarshalJSON() ([]byte, error) {
	w := wireForm{N: h.n, Sum: h.sum, Min: h.min, Max: h.max, B: [][3]int64{}}
	for b, c := range h.counts {
		if c == nil {
			continue
		}
		for i, k := range c {
			if k > 0 {
				w.B = append(w.B, [3]int64{int64(b), int64(i), k})
			}
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON replaces h. It refuses buckets out of range, counts that are
// not positive, totals that do not add up, and extremes that lie outside the
// outermost buckets, so that a damaged file cannot print a plausible percentile.
func (h *H) UnmarshalJSON(p []byte) error {
	var w wireForm
	if err := json.Unmarshal(p, &w); err != nil {
		return err
	}
	*h = H{n: w.N, sum: w.Sum, min: w.Min, max: w.Max}
	var total int64
	for _, t := range w.B {
		b, i, k := t[0], t[1], t[2]
		if b < 0 || b >= blocks || i < 0 || i >= sub || k <= 0 || k > w.N-total {
			return fmt.Errorf("histogram bucket %v is out of range", t)
		}
		if h.counts[b] == nil {
			h.counts[b] = new([sub]int64)
		}
		h.counts[b][i] += k
		total += k
	}
	if total != w.N || w.Min > w.Max || w.Min < 0 {
		return fmt.Errorf("histogram of n=%d min=%d max=%d holds %d values", w.N, w.Min, w.Max, total)
	}
	if !h.spans(w.Min, w.Max) {
		return fmt.Errorf("histogram min=%d max=%d is not where its buckets begin and end", w.Min, w.Max)
	}
	return nil
}

// spans reports whether lo and hi belong to the first and the last bucket that
// hold values; both are 0 of an empty histogram.
func (h *H) spans(lo, hi int64) bool {
	if h.n == 0 {
		return lo == 0 && hi == 0
	}
	first, last := [2]int{blocks}, [2]int{-1}
	for b, c := range h.counts {
		if c == nil {
			continue
		}
		for i, k := range c {
			if k == 0 {
				continue
			}
			if first[0] == blocks {
				first = [2]int{b, i}
			}
			last = [2]int{b, i}
		}
	}
	bLo, iLo := index(lo)
	bHi, iHi := index(hi)
	return first == [2]int{bLo, iLo} && last == [2]int{bHi, iHi}
}
