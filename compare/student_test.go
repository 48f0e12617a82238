package compare

import (
	"math"
	"testing"
)

func TestStudentQuantile(t *testing.T) {
	// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
	for _, tc := range []struct {
		level, df, want float64
	}{
		{0.95, 1, 12.706}, {0.95, 2, 4.303}, {0.95, 4, 2.776}, {0.95, 9, 2.262}, {0.95, 30, 2.042}, {0.95, 100, 1.984},
		{0.99, 4, 4.604}, {0.998, 4, 7.173}, {0.9, 10, 1.812}, {0.95, math.Inf(1), 1.960}, {0.998, math.Inf(1), 3.090},
	} {
		if got := studentQuantile(tc.level, tc.df); math.Abs(got-tc.want) > 6e-4 {
			t.Errorf("t of %v with %v degrees of freedom = %.4f, want %.3f", tc.level, tc.df, got, tc.want)
		}
	}
}

func TestStudentQuantileInvertsP(t *testing.T) {
	for _, df := range []float64{1, 1.5, 2, 3.7, 10, 192, 1e5} {
		for _, level := range []float64{0.01, 0.5, 0.95, 0.9999, 1 - 1e-7} {
			if q := studentQuantile(level, df); math.Abs(studentP(q, df)-(1-level)) > 1e-7*(1-level) {
				t.Errorf("df %v, level %v: t = %v leaves %v, want %v", df, level, q, studentP(q, df), 1-level)
			}
		}
	}
}

func TestStudentPIsExactWhereAFormulaExists(t *testing.T) {
	for _, v := range []float64{0.01, 0.5, 1, 3, 40, 1e6} {
		one := 1 - 2/math.Pi*math.Atan(v) // df 1 is the Cauchy distribution
		two := 1 - v/math.Sqrt(v*v+2)
		if got := studentP(v, 1); math.Abs(got-one) > 1e-12 {
			t.Errorf("p(%v, 1) = %v, want %v", v, got, one)
		}
		if got := studentP(v, 2); math.Abs(got-two) > 1e-12 {
			t.Errorf("p(%v, 2) = %v, want %v", v, got, two)
		}
		if got, want := studentP(v, 9e6), math.Erfc(v/math.Sqrt2); math.Abs(got-want) > 1e-6 {
			t.Errorf("p(%v) with many degrees of freedom = %v, want the normal's %v", v, got, want)
		}
	}
	if got := studentP(math.NaN(), 4); got != 1 {
		t.Errorf("p of an undefined t = %v, want 1", got)
	}
}

func TestPolygamma(t *testing.T) {
	const euler = 0.57721566490153286
	for _, tc := range []struct {
		name      string
		got, want float64
	}{
		{"ψ(1) = −γ", digamma(1), -euler},
		{"ψ(1/2) = −γ − 2 ln 2", digamma(0.5), -euler - 2*math.Ln2},
		{"ψ′(1) = π²/6", trigamma(1), math.Pi * math.Pi / 6},
		{"ψ′(1/2) = π²/2", trigamma(0.5), math.Pi * math.Pi / 2},
		{"inverse of ψ′", trigammaInverse(trigamma(3.7)), 3.7},
		{"inverse of ψ′, small", trigammaInverse(trigamma(0.02)), 0.02},
	} {
		if math.Abs(tc.got-tc.want) > 1e-9*math.Max(1, math.Abs(tc.want)) {
			t.Errorf("%s: got %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}
