package board

import (
	"time"

	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// clock reckons how long a run will still take. A plan's estimates leave out the
// waits for first tokens, which only the server knows; what the finished steps
// took, over what they were reckoned to take, stretches the rest.
type clock struct {
	steps []timed
	now   int // index of the current step, -1: none
	at    time.Time
}

type timed struct {
	phase    matrix.CellPhase
	estimate time.Duration // 0: takes no time
	took     time.Duration // once done
	done     bool
}

func newClock(p *loadgen.Plan, have []matrix.Cell, now time.Time) clock {
	c := clock{now: -1, at: now}
	for _, s := range p.Steps {
		c.steps = append(c.steps, timed{phase: s.Phase, estimate: s.Estimate, done: s.Have(have) != nil})
	}
	return c
}

func (c *clock) begin(step int, at time.Time) {
	if step != c.now && step < len(c.steps) {
		c.now, c.at = step, at
	}
}

func (c *clock) done(step int, at time.Time) {
	if step < 0 || step >= len(c.steps) {
		return
	}
	c.begin(step, at) // a step that takes no time says nothing before
	c.steps[step].done, c.steps[step].took = true, at.Sub(c.at)
	c.now = -1
}

// left is the time to the end of the run, as far as it can be told.
func (c *clock) left(now time.Time) time.Duration {
	var sum time.Duration
	for i, t := range c.steps {
		if t.done {
			continue
		}
		d := time.Duration(float64(t.estimate) * c.stretch(t.phase))
		if i == c.now {
			d = max(d-now.Sub(c.at), 0)
		}
		sum += d
	}
	return sum
}

// stretch is how much longer the finished steps of a phase took than reckoned.
func (c *clock) stretch(p matrix.CellPhase) float64 {
	var took, estimate time.Duration
	for _, t := range c.steps {
		if t.phase == p && t.took > 0 && t.estimate > 0 {
			took += t.took
			estimate += t.estimate
		}
	}
	if estimate == 0 {
		return 1
	}
	return took.Seconds() / estimate.Seconds()
}

// count returns how many steps are done, and of how many.
func (c *clock) count() (done, of int) {
	for _, t := range c.steps {
		if t.done {
			done++
		}
	}
	return done, len(c.steps)
}
