package compare

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestHolm(t *testing.T) {
	for _, tc := range []struct {
		name      string
		p, w      []float64
		want      []float64
		reasoning string
	}{
		{"equal weights", []float64{0.01, 0.04, 0.03, 0.005}, []float64{1, 1, 1, 1}, []float64{0.03, 0.06, 0.06, 0.02}, "4·.005, 3·.01, 2·.03, then max(.06, .04)"},
		{"weights", []float64{0.02, 0.02}, []float64{3, 1}, []float64{0.08 / 3, 0.08 / 3}, "4/3·.02 first, then max(that, 1·.02)"},
		{"never above one", []float64{0.9, 0.8}, []float64{1, 1}, []float64{1, 1}, "2·.8 is capped"},
		{"none", nil, nil, nil, ""},
	} {
		got := holm(tc.p, tc.w)
		for i := range tc.want {
			if math.Abs(got[i]-tc.want[i]) > 1e-12 {
				t.Errorf("%s (%s): got %v, want %v", tc.name, tc.reasoning, got, tc.want)
				break
			}
		}
	}
}

func TestHolmIsNeverBelowP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 20).Draw(t, "p")
		w := rapid.SliceOfN(rapid.Float64Range(0.01, 5), len(p), len(p)).Draw(t, "w")
		got := holm(p, w)
		for i := range p {
			if got[i] < p[i]-1e-12 || got[i] > 1 {
				t.Fatalf("adjusted %v of p %v", got[i], p[i])
			}
		}
	})
}
