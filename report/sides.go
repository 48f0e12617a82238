package report

import (
	"slices"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// sideTable holds the total of each cell of several runs, a column a run.
type sideTable struct {
	Heads []string
	Rows  []sideRow
}

type sideRow struct {
	Context string
	C       int
	Totals  []string
}

func sideBySide(runs []*Source) *sideTable {
	t := &sideTable{}
	var grids []grid
	var places [][2]int
	for _, run := range runs {
		g := index(run.Cells)
		grids = append(grids, g)
		head := title(&run.Run)
		if at := startWord(&run.Header); at != "" {
			head += ", " + at
		}
		t.Heads = append(t.Heads, head)
		for _, l := range g.contexts {
			for _, c := range g.concurrency {
				if at := [2]int{l, c}; g.at[at] != nil && !slices.Contains(places, at) {
					places = append(places, at)
				}
			}
		}
	}
	for _, at := range places {
		row := sideRow{Context: contextLabel(at[0]), C: at[1]}
		for _, g := range grids {
			row.Totals = append(row.Totals, matrixEntry(g.at[at], func(c *matrix.Cell) stream.Null[float64] { return c.TotalTokS }, false, nil))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
