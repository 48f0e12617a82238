package sim

import (
	"sort"
	"time"
)

// Speed is how fast an engine is.
type Speed struct {
	Prefill Curve   // time to compute so many uncached prompt tokens, alone
	TTFT    Surface // time to first token when the prompt is cached
	TBT     Surface // time between tokens of one stream
}

// Point is one point of a Curve.
type Point struct {
	Tokens int
	Time   time.Duration
}

// Curve is linear between its points, which ascend, and from (0, 0) to the
// first; past the last it keeps the last slope.
type Curve []Point

// At returns the time of so many tokens, in nanoseconds.
func (c Curve) At(tokens int) float64 {
	var a Point
	for _, b := range c {
		if tokens <= b.Tokens {
			return line(a, b, tokens)
		}
		if b.Tokens == c[len(c)-1].Tokens {
			return line(a, b, tokens)
		}
		a = b
	}
	return 0
}

func line(a, b Point, tokens int) float64 {
	share := float64(tokens-a.Tokens) / float64(b.Tokens-a.Tokens)
	return float64(a.Time) + share*float64(b.Time-a.Time)
}

// Sample is one known value of a Surface.
type Sample struct {
	Context     int // prompt tokens
	Concurrency int
	Time        time.Duration
}

// Surface gives a time by (prompt tokens, sequences running). A sample's
// context counts as met within 1 % or 64 tokens, so that a prompt which misses
// its target by a little has the sample's value exactly. Between samples of a
// context it is linear in concurrency, between contexts linear in tokens; past
// its edges it is flat.
type Surface struct {
	contexts []int
	rows     [][]Sample // by context, concurrency ascending
}

// NewSurface returns the surface through the samples.
func NewSurface(samples []Sample) Surface {
	all := append([]Sample(nil), samples...)
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return a.Context < b.Context || a.Context == b.Context && a.Concurrency < b.Concurrency
	})
	var s Surface
	for _, x := range all {
		if n := len(s.contexts); n == 0 || s.contexts[n-1] != x.Context {
			s.contexts = append(s.contexts, x.Context)
			s.rows = append(s.rows, nil)
		}
		last := len(s.rows) - 1
		s.rows[last] = append(s.rows[last], x)
	}
	return s
}

// At returns the time in nanoseconds.
func (s Surface) At(context, concurrency int) float64 {
	for i, c := range s.contexts {
		if meets(context, c) {
			return along(s.rows[i], concurrency)
		}
	}
	i := sort.SearchInts(s.contexts, context)
	switch {
	case len(s.contexts) == 0:
		return 0
	case i == 0:
		return along(s.rows[0], concurrency)
	case i == len(s.contexts):
		return along(s.rows[i-1], concurrency)
	}
	lo, hi := along(s.rows[i-1], concurrency), along(s.rows[i], concurrency)
	share := float64(context-s.contexts[i-1]) / float64(s.contexts[i]-s.contexts[i-1])
	return lo + share*(hi-lo)
}

func along(row []Sample, concurrency int) float64 {
	i := sort.Search(len(row), func(i int) bool { return row[i].Concurrency >= concurrency })
	switch {
	case i == len(row):
		return float64(row[i-1].Time)
	case i == 0 || row[i].Concurrency == concurrency:
		return float64(row[i].Time)
	}
	a, b := row[i-1], row[i]
	share := float64(concurrency-a.Concurrency) / float64(b.Concurrency-a.Concurrency)
	return float64(a.Time) + share*float64(b.Time-a.Time)
}

// meets reports whether a prompt is of a context: the load generator hits its
// target within ±0.5 % or ±16 tokens, other tools miss theirs by a little more.
func meets(prompt, context int) bool {
	d := prompt - context
	if d < 0 {
		d = -d
	}
	return d <= 64 || d*100 <= context
}
