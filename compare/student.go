package compare

import "math"

// studentP is the two-sided p value of |t| under Student's t with df degrees of
// freedom, I_{df/(df+t²)}(df/2, 1/2) (DLMF 8.17; Abramowitz & Stegun 26.7.1); an
// infinite df is the normal distribution.
func studentP(t, df float64) float64 {
	switch {
	case math.IsNaN(t) || df <= 0:
		return 1
	case math.IsInf(t, 0):
		return 0
	case df > 1e7:
		return math.Erfc(math.Abs(t) / math.Sqrt2)
	}
	return betaRatio(df/(df+t*t), df/2, 0.5)
}

// studentQuantile is the t that leaves (1 − level)/2 in each tail: 2.776 for
// level 0.95 and 4 degrees of freedom. Newton's method from the normal's quantile,
// which lies below; p is falling and convex, so the steps climb to the root and
// never pass it.
func studentQuantile(level, df float64) float64 {
	t := math.Sqrt2 * math.Erfinv(level)
	if df > 1e7 {
		return t
	}
	up, _ := math.Lgamma((df + 1) / 2)
	down, _ := math.Lgamma(df / 2)
	peak := math.Exp(up-down) / math.Sqrt(df*math.Pi)
	for range 200 {
		density := peak * math.Pow(1+t*t/df, -(df+1)/2)
		step := (studentP(t, df) - (1 - level)) / (2 * density)
		t += step
		if math.Abs(step) < 1e-9*t {
			break
		}
	}
	return t
}

// betaRatio is the regularised incomplete beta function I_x(a, b), by the
// continued fraction DLMF 8.17.22 on the side where it converges fast.
func betaRatio(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) {
		return 1 - betaRatio(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	return front / betaFraction(x, a, b)
}

// betaFraction evaluates 1 + d1/(1 + d2/(1 + …)) with
// d(2m) = m(b−m)x/((a+2m−1)(a+2m)), d(2m+1) = −(a+m)(a+b+m)x/((a+2m)(a+2m+1)),
// by the modified Lentz method.
func betaFraction(x, a, b float64) float64 {
	const tiny, eps = 1e-300, 1e-15
	nudge := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	f, c, d := 1.0, 1.0, 0.0
	for k := 1; k < 10000; k++ {
		m := float64(k / 2)
		var term float64
		if k%2 == 0 {
			term = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		} else {
			term = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 / nudge(1+term*d)
		c = nudge(1 + term/c)
		f *= c * d
		if math.Abs(c*d-1) < eps {
			break
		}
	}
	return f
}

// digamma is ψ(x) for x > 0: recurrence up to 10, then the asymptotic series
// DLMF 5.11.2.
func digamma(x float64) float64 {
	var s float64
	for ; x < 10; x++ {
		s -= 1 / x
	}
	i := 1 / (x * x)
	return s + math.Log(x) - 1/(2*x) - i*(1./12-i*(1./120-i*(1./252-i*(1./240-i/132))))
}

// trigamma is ψ′(x) for x > 0, in the same way (derivative of DLMF 5.11.2).
func trigamma(x float64) float64 {
	var s float64
	for ; x < 10; x++ {
		s += 1 / (x * x)
	}
	i := 1 / (x * x)
	return s + 1/x + i/2 + i/x*(1./6-i*(1./30-i*(1./42-i*(1./30-i*5/66))))
}

// trigammaInverse solves ψ′(x) = y for y > 0 by bisection in log x; ψ′ falls.
func trigammaInverse(y float64) float64 {
	lo, hi := math.Log(1e-8), math.Log(1e8)
	for range 100 {
		mid := (lo + hi) / 2
		if trigamma(math.Exp(mid)) > y {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Exp((lo + hi) / 2)
}
