package compare

import "slices"

// holm adjusts p values by Holm's step-down method with weights (Holm,
// Scandinavian Journal of Statistics 6, 1979, section 4): in the order of p/w,
// each is multiplied by the weight still in play over its own, and none may be
// below the one before. A test is positive at 5 % if its adjusted p is ≤ 0.05;
// the chance of any false positive is then ≤ 5 %.
func holm(p, weight []float64) []float64 {
	order := make([]int, len(p))
	var left float64
	for i := range p {
		order[i] = i
		left += weight[i]
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch a, b := p[i]*weight[j], p[j]*weight[i]; {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})
	out := make([]float64, len(p))
	var worst float64
	for _, i := range order {
		worst = min(max(worst, p[i]*left/weight[i]), 1)
		out[i] = worst
		left -= weight[i]
	}
	return out
}
