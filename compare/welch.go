package compare

import "math"

// side holds the observations of one cell and metric on one side.
type side struct {
	values []float64 // one of each run
	window variance  // of the mean, from batch means inside the window of a lone run; df 0 unknown
}

func (s side) mean() float64 {
	var sum float64
	for _, v := range s.values {
		sum += v
	}
	return sum / float64(len(s.values))
}

// spread is the relative variance between the runs; df 0 when there is one run.
func (s side) spread() variance {
	n, m := len(s.values), s.mean()
	if n < 2 || m == 0 {
		return variance{}
	}
	var ss float64
	for _, v := range s.values {
		ss += (v - m) * (v - m)
	}
	return variance{ss / float64(n-1) / (m * m), float64(n - 1)}
}

// interval is the difference of two means with its uncertainty.
type interval struct {
	diff, half float64 // new − base, and half of the 95 % interval
	se, df     float64
	p          float64 // two-sided, not adjusted
}

// welch compares the means of two sides by Welch's unequal variances and the
// Welch-Satterthwaite degrees of freedom (Welch, Biometrika 34, 1947). Each
// side's variance is its own drawn towards the floor; a side of one run borrows
// the other's where the floor says nothing. More degrees of freedom than all
// repeats of the metric have together are never claimed.
func welch(base, fresh side, f floor) interval {
	a, b := f.draw(base.spread()), f.draw(fresh.spread())
	if a.df == 0 {
		a = b
	}
	if b.df == 0 {
		b = a
	}
	a.cv2 /= float64(len(base.values))
	b.cv2 /= float64(len(fresh.values))
	return between(base.mean(), fresh.mean(), a, b, f.own)
}

// within compares two lone runs by the variances of their windows' means.
func within(base, fresh side) interval {
	return between(base.mean(), fresh.mean(), base.window, fresh.window, math.Inf(1))
}

// between takes the relative variances of the two means.
func between(base, fresh float64, a, b variance, most float64) interval {
	va, vb := max(a.cv2, leastVariance)*base*base, max(b.cv2, leastVariance)*fresh*fresh
	out := interval{diff: fresh - base, se: math.Sqrt(va + vb)}
	out.df = min((va+vb)*(va+vb)/(va*va/a.df+vb*vb/b.df), most)
	out.half = studentQuantile(0.95, out.df) * out.se
	out.p = studentP(out.diff/out.se, out.df)
	return out
}
