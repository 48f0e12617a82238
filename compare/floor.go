package compare

import "math"

// floor is the noise between runs of one metric, learned from every cell that
// was repeated on one side. Variances are relative (of value / mean), so that
// cells of 40 and of 4000 tok/s can teach each other.
type floor struct {
	cv2 float64 // typical relative variance
	df  float64 // weight of the typical against a cell's own, in degrees of freedom
	own float64 // degrees of freedom of all repeats together
	n   int     // variances it was learned from
}

// leastVariance keeps a cell whose repeats agree to the last digit from claiming
// to be without noise: a millionth of the value.
const leastVariance = 1e-12

// variance is a relative variance with its degrees of freedom.
type variance struct{ cv2, df float64 }

// learn estimates how much the cells' variances differ beyond what their few
// repeats explain, and from that how far to trust the typical one: the degrees of
// freedom of the prior are those fitted by moments of log variances (Smyth,
// Statistical Applications in Genetics and Molecular Biology 3(1), 2004, section
// 6.2). Cells that are equally noisy give an infinite df, that is a pooled
// variance; cells that are not give a small one, that is nearly each its own.
//
// The typical variance is the mean one, not Smyth's (nearer the median): where a
// few cells are much noisier than the rest, his let one comparison in nine show
// a false cell in TestErrorsAndPower, this one in thirty.
func learn(vs []variance) floor {
	f := floor{n: len(vs)}
	var sum float64
	for _, v := range vs {
		f.own += v.df
		sum += v.cv2 * v.df
	}
	if len(vs) == 0 {
		return f
	}
	f.cv2 = sum / f.own
	if len(vs) < 3 {
		return f
	}
	var mean float64
	e := make([]float64, len(vs))
	for i, v := range vs {
		e[i] = math.Log(max(v.cv2, leastVariance)) - digamma(v.df/2) + math.Log(v.df/2)
		mean += e[i] / float64(len(vs))
	}
	var extra float64
	for i, v := range vs {
		extra += (e[i]-mean)*(e[i]-mean)/float64(len(vs)-1) - trigamma(v.df/2)/float64(len(vs))
	}
	f.df = math.Inf(1)
	if extra > 0 {
		f.df = 2 * trigammaInverse(extra)
	}
	return f
}

// draw returns a cell's variance drawn towards the floor.
func (f floor) draw(v variance) variance {
	switch {
	case math.IsInf(f.df, 1):
		return variance{max(f.cv2, leastVariance), f.df}
	case f.df+v.df == 0:
		return variance{}
	}
	return variance{max((f.df*f.cv2+v.df*v.cv2)/(f.df+v.df), leastVariance), f.df + v.df}
}

// sd is the floor as a share of the value; 0 when it was not learned.
func (f floor) sd() float64 { return math.Sqrt(f.cv2) }
