package engine

import (
	"context"
	"fmt"
	"math"
)

// Fit is a text length that hits a number of tokens.
type Fit struct {
	Units   int     // for the caller's text function
	Tokens  int     // the server's count of that text
	Probes  int     // counts it took
	Wrapper float64 // estimated tokens around the text: chat template, special tokens
	PerUnit float64 // estimated tokens a unit
}

// maxProbes is the most counts that Calibrate takes: where the server has no
// tokenizer, each is a prefill.
const maxProbes = 4

// Tolerance is how far a prompt may be from its target: 0.5 % or 16 tokens,
// whichever is larger (docs/measuring.md, "Prefill").
func Tolerance(target int) int { return max(target/200, 16) }

// Calibrate finds how many units of text the server counts as target tokens,
// within Tolerance and never above limit (0: no limit).
//
// Tokens are wrapper + perUnit × units, both unknown, so two points are needed
// before the line can be used: dividing tokens by units instead would take the
// chat template for text. The first point is an eighth of the target; its
// quotient overstates perUnit, so that the second stays below the target. From
// then on each point refines the line through its two nearest neighbours. A
// text that the server refuses for its length is a point above the limit.
func Calibrate(ctx context.Context, target, limit int, text func(units int) string, count func(ctx context.Context, text string) (int, error)) (Fit, error) {
	low, high := target-Tolerance(target), target+Tolerance(target)
	if limit > 0 {
		high = min(high, limit)
	}
	if target <= 0 || high < low {
		return Fit{}, fmt.Errorf("a prompt of %d tokens cannot be made: the limit is %d", target, limit)
	}
	aim := target
	if high < target+Tolerance(target) {
		aim = (max(low, 0) + high) / 2 // equally far from both walls
	}
	c := calibration{ctx: ctx, text: text, count: count, low: low, high: high}
	units := max(aim/8, 1)
	for range maxProbes {
		done, err := c.probe(units)
		if err != nil || done {
			return c.fit(), err
		}
		units = c.next(aim)
		if c.seen(units) {
			break // the unit is coarser than the tolerance
		}
	}
	best := c.best(aim)
	return c.fit(), fmt.Errorf("no prompt of %d to %d tokens found in %d probes: the nearest was %d units, %d tokens", max(low, 0), high, len(c.points), best.units, best.tokens)
}

type point struct {
	units, tokens int
	refused       bool // tokens is a guess, above the limit
}

type calibration struct {
	ctx       context.Context
	text      func(int) string
	count     func(context.Context, string) (int, error)
	low, high int
	points    []point
}

// probe counts one length and reports whether it will do.
func (c *calibration) probe(units int) (bool, error) {
	n, err := c.count(c.ctx, c.text(units))
	if Is(err, Overflow) {
		// Taking the count for a little over the limit brings the next text back
		// below.
		c.points = append(c.points, point{units, c.high + (c.high-c.low)/4 + 1, true})
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("counting the tokens of %d units: %w", units, err)
	}
	c.points = append(c.points, point{units, n, false})
	return n >= c.low && n <= c.high, nil
}

// line is the estimate: through the two points nearest to aim, or, with a single
// point, through it and the origin.
func (c *calibration) line(aim int) (wrapper, perUnit float64) {
	p := c.best(aim)
	q, have := point{}, false
	for _, o := range c.points {
		if o.units != p.units && (!have || distance(o, aim) < distance(q, aim)) {
			q, have = o, true
		}
	}
	if !have {
		return 0, float64(p.tokens) / float64(p.units)
	}
	perUnit = float64(p.tokens-q.tokens) / float64(p.units-q.units)
	return float64(p.tokens) - perUnit*float64(p.units), perUnit
}

func (c *calibration) next(aim int) int {
	last := c.points[len(c.points)-1]
	wrapper, perUnit := c.line(aim)
	switch {
	case !(perUnit > 0):
		return last.units * 2 // the count did not grow with the text; a longer text may
	case len(c.points) > 1:
		return max(int(math.Round((float64(aim)-wrapper)/perUnit)), 0)
	case last.refused:
		return last.units / 4
	case last.tokens > aim/2:
		return max(int(math.Round(float64(aim)/perUnit)), 0)
	}
	// Below the target by as much as a sample of that many units may mislead: a
	// text above the model's limit would be refused. Words differ in length by a
	// third of their mean, so this is three standard deviations; and the rest of
	// a text may be a little denser than its beginning.
	margin := min(max(1/math.Sqrt(float64(last.units)), 0.03), 0.5)
	return max(int((1-margin)*float64(aim)/perUnit), 1)
}

func (c *calibration) best(aim int) point {
	best := c.points[0]
	for _, p := range c.points[1:] {
		if distance(p, aim) < distance(best, aim) {
			best = p
		}
	}
	return best
}

func distance(p point, aim int) int { return max(p.tokens-aim, aim-p.tokens) }

func (c *calibration) seen(units int) bool {
	for _, p := range c.points {
		if p.units == units {
			return true
		}
	}
	return false
}

// fit describes the last point.
func (c *calibration) fit() Fit {
	if len(c.points) == 0 {
		return Fit{}
	}
	last := c.points[len(c.points)-1]
	f := Fit{Units: last.units, Tokens: last.tokens, Probes: len(c.points)}
	if len(c.points) > 1 {
		f.Wrapper, f.PerUnit = c.line(last.tokens)
	} else if last.units > 0 {
		f.PerUnit = float64(last.tokens) / float64(last.units)
	}
	return f
}
