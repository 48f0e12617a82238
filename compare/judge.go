package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/streamgauge/streamgauge/stream"
)

// adjust puts Holm's p value on every row of every table that has a p.
func (c *Comparison) adjust() {
	var p, weight []float64
	var rows []*Row
	for i := range c.Tables {
		t := &c.Tables[i]
		tested := 0
		for j := range t.Rows {
			if t.Rows[j].P.OK {
				tested++
			}
		}
		share := metrics[slices.Index(Metrics(), t.Metric)].weight
		for j := range t.Rows {
			if r := &t.Rows[j]; r.P.OK {
				rows, p, weight = append(rows, r), append(p, r.P.V), append(weight, share/float64(tested))
			}
		}
	}
	var all float64
	for _, w := range weight {
		all += w
	}
	for i, q := range holm(p, weight) {
		rows[i].Adjusted = stream.Some(q)
		rows[i].se *= studentQuantile(1-alpha*weight[i]/all, rows[i].df)
	}
}

// judge sets the verdict of each row and the sentence of the table.
func (t *Table) judge() {
	var least []float64
	for i := range t.Rows {
		r := &t.Rows[i]
		r.Verdict = r.judge(t.MoreBetter)
		if r.Adjusted.OK {
			least = append(least, r.se)
		}
	}
	if n := len(least); n > 0 {
		slices.Sort(least)
		t.LeastPct = stream.Some(least[n/2])
	}
	t.Verdict = t.sentence()
}

func (r *Row) judge(moreBetter bool) Verdict {
	switch {
	case !r.Base.OK && !r.New.OK:
		return Absent
	case r.BaseStatus == notRun || r.NewStatus == notRun:
		return Unmatched
	case !r.New.OK:
		return Lost
	case !r.Base.OK:
		return Gained
	case !r.Adjusted.OK:
		return Unjudged
	case r.Adjusted.V > alpha:
		return WithinNoise
	case (r.Change.V > 0) == moreBetter:
		return Better
	}
	return Worse
}

// Words says a row's verdict in words: "4.9 % slower".
func (r *Row) Words(t *Table) string {
	switch r.Verdict {
	case Better, Worse:
		return fmt.Sprintf("%.1f %% %s", abs(r.Change.V), direction(t.Metric, r.Change.V > 0))
	case WithinNoise:
		return "within noise"
	case Unjudged:
		return "no interval"
	case Lost:
		return "lost: " + r.NewStatus
	case Gained:
		return "gained: was " + r.BaseStatus
	case Unmatched:
		if r.BaseStatus == notRun {
			return "only in new"
		}
		return "only in base"
	}
	if r.BaseStatus == r.NewStatus {
		return r.BaseStatus
	}
	return r.BaseStatus + " → " + r.NewStatus
}

// direction is the word for a rise or a fall of a metric.
func direction(metric string, up bool) string {
	switch {
	case strings.HasSuffix(metric, "_tok_s") && up:
		return "faster"
	case strings.HasSuffix(metric, "_tok_s"):
		return "slower"
	case up:
		return "longer"
	}
	return "shorter"
}

// sentence sums a table up.
func (t *Table) sentence() string {
	n := map[Verdict]int{}
	window := false
	for i := range t.Rows {
		n[t.Rows[i].Verdict]++
		window = window || t.Rows[i].Basis == FromWindow
	}
	var parts []string
	add := func(v Verdict, format string) {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf(format, n[v]))
		}
	}
	add(Worse, "%d worse")
	add(Better, "%d better")
	add(WithinNoise, "%d within noise")
	add(Unjudged, "%d without an interval")
	add(Lost, "%d lost")
	add(Gained, "%d gained")
	add(Unmatched, "%d run on one side only")
	add(Absent, "%d without a number on either side")
	s := fmt.Sprintf("%s: of %d cells %s.", t.Title, len(t.Rows), strings.Join(parts, ", "))
	if t.NoisePct.OK {
		s += fmt.Sprintf(" Runs of one side differ by %s %% (standard deviation).", small(t.NoisePct.V))
	}
	if t.LeastPct.OK {
		s += fmt.Sprintf(" A change below about %s %% cannot be told from noise here.", small(t.LeastPct.V))
	}
	if window || n[Unjudged] > 0 {
		s += " The noise between runs is unknown."
	}
	return s
}

func small(v float64) string { return fmt.Sprintf("%.2g", v) }

func abs(v float64) float64 { return max(v, -v) }

func (c *Comparison) summarise() {
	var all []string
	for i := range c.Tables {
		all = append(all, c.Tables[i].Verdict)
	}
	c.Verdict = strings.Join(all, "\n")
	if c.Verdict == "" {
		c.Verdict = "No cell has a number on either side."
	}
}
