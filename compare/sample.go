package compare

import (
	"math"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// metric is one compared number of a cell.
type metric struct {
	name, title string
	phase       matrix.CellPhase
	of          func(*matrix.Cell) stream.Null[float64]
	better      float64 // +1 where more is better, −1 where less is
	weight      float64 // share of the 5 % that the metric's cells may err with, against the others'
}

// metrics are in the order of their tables. The total carries most of the error
// allowed: it is what a matrix is made for, and the others largely repeat it.
var metrics = []metric{
	{"total_tok_s", "Total tok/s", matrix.Decode, func(c *matrix.Cell) stream.Null[float64] { return c.TotalTokS }, 1, 0.6},
	{"prefill_tok_s", "Prefill tok/s", matrix.Prefill, func(c *matrix.Cell) stream.Null[float64] { return c.TotalTokS }, 1, 0.1},
	{"request_tok_s", "Per request tok/s", matrix.Decode, func(c *matrix.Cell) stream.Null[float64] { return c.RequestTokS }, 1, 0.1},
	{"ttft_ms", "TTFT, ms", matrix.Decode, func(c *matrix.Cell) stream.Null[float64] { return c.TTFTMS }, -1, 0.1},
	{"tbt_ms", "Time between tokens, ms", matrix.Decode, func(c *matrix.Cell) stream.Null[float64] { return c.TBTMS }, -1, 0.1},
}

// Metrics lists the names of the compared metrics, as rules use them.
func Metrics() []string {
	var names []string
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return names
}

// place is the coordinates of a cell.
type place struct {
	phase                matrix.CellPhase
	context, concurrency int
}

// gathered is one side's runs by place: every repeat of every file.
type gathered struct {
	order []place
	cells map[place][]*matrix.Cell
}

func gather(runs []*matrix.Run) gathered {
	g := gathered{cells: map[place][]*matrix.Cell{}}
	for _, run := range runs {
		for i := range run.Cells {
			c := &run.Cells[i]
			at := place{c.Phase, c.Context, c.Concurrency}
			if g.cells[at] == nil {
				g.order = append(g.order, at)
			}
			g.cells[at] = append(g.cells[at], c)
		}
	}
	return g
}

// observe takes the metric of the valid cells among those of one place.
func (m *metric) observe(cells []*matrix.Cell) side {
	var s side
	for _, c := range cells {
		if v := m.of(c); c.Status == matrix.Valid && v.OK && v.V > 0 {
			s.values = append(s.values, v.V)
			s.window = variance{}
			if m.name == "total_tok_s" {
				s.window = windowVariance(c)
			}
		}
	}
	return s
}

// windowVariance is the relative variance of a cell's total, from its ci95: the
// batch means inside the window, loops left out, of as many batches as there are
// seconds, up to ten.
func windowVariance(c *matrix.Cell) variance {
	df := float64(min(len(c.PerSecond), 10) - 1)
	if !c.CI95.OK || c.TotalTokS.V <= 0 || df < 1 {
		return variance{}
	}
	return variance{math.Pow(c.CI95.V/studentQuantile(0.95, df)/c.TotalTokS.V, 2), df}
}
