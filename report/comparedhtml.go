package report

import (
	"bufio"
	"fmt"
	"io"
	"math"

	"github.com/streamgauge/streamgauge/compare"
)

// comparedPage is what compare.tmpl.html draws.
type comparedPage struct {
	assets
	Base, New compare.Side
	BaseSize  string
	NewSize   string
	BaseFiles []string
	NewFiles  []string
	Verdicts  []string
	Legend    string
	Warnings  []string
	Tables    []forest
}

// forest is one metric: each row's change and interval on one scale.
type forest struct {
	ID, Title, Scale string
	Rows             []forestRow
}

type forestRow struct {
	Context, Base, New, Change, Interval, P, Words string
	C                                              int
	Class                                          compare.Verdict
	Drawn                                          bool
	Left, Width, At                                float64 // percent of the track, whose middle is no change
}

// widest is where a scale ends at most, in percent of change: one cell that
// doubled must not press all others into the middle.
const widest = 60

func writeComparisonHTML(w io.Writer, c *compare.Comparison) error {
	p := comparedPage{assets: pageAssets(), Base: c.Base, New: c.New, BaseSize: sizeWords(&c.Base), NewSize: sizeWords(&c.New),
		BaseFiles: originWords(&c.Base), NewFiles: originWords(&c.New), Legend: comparisonLegend(c)}
	for i := range c.Tables {
		p.Verdicts = append(p.Verdicts, c.Tables[i].Verdict)
		p.Tables = append(p.Tables, drawForest(&c.Tables[i]))
	}
	if len(c.Tables) == 0 {
		p.Verdicts = []string{c.Verdict}
	}
	for _, warning := range c.Warnings {
		p.Warnings = append(p.Warnings, warning.Message)
	}
	b := bufio.NewWriter(w)
	if err := comparePage.Execute(b, p); err != nil {
		return err
	}
	return b.Flush()
}

func drawForest(t *compare.Table) forest {
	scale := 1.0
	for i := range t.Rows {
		r := &t.Rows[i]
		scale = min(max(scale, r.Change.V, -r.Change.V, r.High.V, -r.Low.V), widest)
	}
	f := forest{ID: t.Metric, Title: t.Title, Scale: fmt.Sprintf("−%.3g %% … +%.3g %%", scale, scale)}
	at := func(v float64) float64 { return math.Round(5000+5000*min(max(v/scale, -1), 1)) / 100 }
	for i := range t.Rows {
		r := &t.Rows[i]
		row := forestRow{
			Context: contextLabel(r.Context), C: r.Concurrency, Base: number(r.Base), New: number(r.New), Change: percent(r.Change),
			Interval: intervalWords(r), P: pWords(r.Adjusted), Words: r.Words(t), Class: r.Verdict, Drawn: r.Change.OK,
		}
		if r.Low.OK {
			row.Left = at(r.Low.V)
			row.Width = math.Round(100*(at(r.High.V)-row.Left)) / 100
		}
		row.At = at(r.Change.V)
		f.Rows = append(f.Rows, row)
	}
	return f
}
