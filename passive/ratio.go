package passive

import "slices"

const (
	keepRatios = 64 // of the last streams that told their prompt's length
	minRatios  = 8  // before these the ratio is not used
)

// ratio is what a model makes of a request body: tokens per byte. It is the
// median of the last streams that told, so that a request full of images, whose
// bytes are no text, does not move it.
type ratio struct {
	last [keepRatios]float64
	n    int // told so far
}

func (r *ratio) learn(tokens int, bytes int64) {
	if tokens <= 0 || bytes <= 0 {
		return
	}
	r.last[r.n%keepRatios] = float64(tokens) / float64(bytes)
	r.n++
}

// median returns the tokens per byte; ok is false before it is learned.
func (r *ratio) median() (perByte float64, ok bool) {
	if r.n < minRatios {
		return 0, false
	}
	sorted := r.last
	told := sorted[:min(r.n, keepRatios)]
	slices.Sort(told)
	mid := len(told) / 2
	if len(told)%2 == 1 {
		return told[mid], true
	}
	return (told[mid-1] + told[mid]) / 2, true
}
