package main

import (
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// TestPlanKnowsWhatIsInTheFile: a resumed run's plan shows what it has, of rates
// and of stages too, and says that all of it would run when a part is missing.
func TestPlanKnowsWhatIsInTheFile(t *testing.T) {
	planOf := func(cfg loadgen.Config) *loadgen.Plan {
		cfg.Contexts, cfg.NoPrefill = []int{0}, true
		p, err := loadgen.NewPlan(cfg, engine.Info{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		return &p
	}
	cellsOf := func(p *loadgen.Plan) (out []matrix.Cell) {
		for _, s := range p.Steps {
			out = append(out, s.Cells()...)
		}
		return out
	}
	rates := planOf(loadgen.Config{Rates: []float64{5, 10}})
	stages := planOf(loadgen.Config{Stages: []loadgen.Pace{{Rate: 5, For: time.Minute}, {Rate: 10, For: time.Minute}}})
	levels := planOf(loadgen.Config{Concurrency: []int{1, 2}})
	cut := cellsOf(stages)
	cut[1].Status = matrix.Interrupted
	full := cellsOf(stages)
	full[1].Status = matrix.OverCapacity
	for _, tt := range []struct {
		name string
		plan *loadgen.Plan
		have []matrix.Cell
		says []string // of each line
		left int      // steps
	}{
		{"levels", levels, cellsOf(levels)[1:], []string{"run, about", "in the file: valid"}, 1},
		{"rates", rates, cellsOf(rates)[:1], []string{"5/s   in the file: valid", "10/s  run, about"}, 1},
		{"rates of another arrival", rates, cellsOf(planOf(loadgen.Config{Rates: []float64{5}, Arrival: loadgen.Constant})), []string{"run, about", "run, about"}, 2},
		{"stages", stages, full, []string{"in the file: valid, over_capacity"}, 0},
		{"stages, one of them cut off", stages, cut, []string{"run, about"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			if err := printPlan(&out, tt.plan, tt.have); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			for i, want := range tt.says {
				if !strings.Contains(lines[i], want) {
					t.Errorf("line %d is %q, want %q in it", i+1, lines[i], want)
				}
			}
			if n := inFile(tt.plan, tt.have); n != len(tt.plan.Steps)-tt.left {
				t.Errorf("%d of %d steps are in the file, want %d left", n, len(tt.plan.Steps), tt.left)
			}
		})
	}
}
