package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamgauge/streamgauge/compare"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// CompareFormats lists the formats of WriteComparison.
func CompareFormats() []string { return []string{"text", "markdown", "json", "html"} }

// WriteComparison writes a comparison in one of CompareFormats; any other is an
// error that lists them.
func WriteComparison(w io.Writer, format string, c *compare.Comparison) error {
	switch format {
	case "text":
		return writeText(w, arrangeComparison(c))
	case "markdown":
		return writeMarkdown(w, arrangeComparison(c))
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		e.SetEscapeHTML(false)
		return e.Encode(c)
	case "html":
		return writeComparisonHTML(w, c)
	}
	return fmt.Errorf("no comparison format %q: there are %s", format, strings.Join(CompareFormats(), ", "))
}

// arrangeComparison lays a comparison out as facts, tables and notes.
func arrangeComparison(c *compare.Comparison) page {
	p := page{title: "Comparison"}
	for _, side := range []struct {
		name string
		*compare.Side
	}{{"base", &c.Base}, {"new", &c.New}} {
		p.facts = append(p.facts, [2]string{side.name, sideWords(side.Side)})
		for _, words := range originWords(side.Side) {
			p.facts = append(p.facts, [2]string{side.name + " file", words})
		}
	}
	for i := range c.Tables {
		t := &c.Tables[i]
		p.facts = append(p.facts, [2]string{"verdict", t.Verdict})
		p.tables = append(p.tables, comparedTable(t))
	}
	if len(c.Tables) == 0 {
		p.facts = append(p.facts, [2]string{"verdict", c.Verdict})
	}
	p.legend = comparisonLegend(c)
	for _, w := range c.Warnings {
		p.notes = append(p.notes, warningWords(w))
	}
	return p
}

// comparisonLegend explains the columns, as far as they occur.
func comparisonLegend(c *compare.Comparison) string {
	has := func(b compare.Basis) bool {
		return slices.ContainsFunc(c.Tables, func(t compare.Table) bool {
			return slices.ContainsFunc(t.Rows, func(r compare.Row) bool { return r.Basis == b && r.Change.OK })
		})
	}
	s := "Change is of the mean of the runs, with its 95 % interval. The verdict rests on p, adjusted by Holm over all rows."
	if has(compare.FromWindow) {
		s += " ~ marks an interval from inside the window: how far two runs of the same server differ is not in it."
	}
	if has(compare.FromNone) {
		s += " No interval: one run a side and no spread to go by, so a change may be noise."
	}
	return s
}

func sideWords(s *compare.Side) string {
	return s.Title + ", " + sizeWords(s)
}

func sizeWords(s *compare.Side) string {
	return fmt.Sprintf("%s, up to %s a cell", plural(s.Files, "file"), plural(s.Runs, "run"))
}

// originWords names each run of a side by its file, its start and its notes, as
// far as they are known.
func originWords(s *compare.Side) []string {
	var out []string
	for _, o := range s.Origins {
		var words []string
		if o.File != "" {
			words = append(words, o.File)
		}
		if !o.Start.IsZero() {
			words = append(words, "started "+o.Start.UTC().Format(time.RFC3339))
		}
		for _, name := range slices.Sorted(maps.Keys(o.Notes)) {
			words = append(words, name+": "+o.Notes[name])
		}
		if len(words) > 0 {
			out = append(out, strings.Join(words, "; "))
		}
	}
	return out
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func warningWords(w matrix.Warning) string { return w.Code + ": " + w.Message }

func comparedTable(t *compare.Table) table {
	out := table{title: t.Title, head: []string{"context", "C", "base", "new", "change", "95 % interval", "p", "verdict"}}
	for i := range t.Rows {
		r := &t.Rows[i]
		out.rows = append(out.rows, []string{
			contextLabel(r.Context), fmt.Sprint(r.Concurrency), number(r.Base), number(r.New),
			percent(r.Change), intervalWords(r), pWords(r.Adjusted), r.Words(t),
		})
	}
	return out
}

func percent(v stream.Null[float64]) string {
	if !v.OK {
		return "-"
	}
	return signed(v.V) + " %"
}

// signed is v with its sign and one decimal, and none of a zero.
func signed(v float64) string {
	s := fmt.Sprintf("%+.1f", v)
	if s == "-0.0" || s == "+0.0" {
		return "0.0"
	}
	return s
}

func intervalWords(r *compare.Row) string {
	if !r.Low.OK {
		return "-"
	}
	mark := ""
	if r.Basis == compare.FromWindow {
		mark = "~"
	}
	return mark + signed(r.Low.V) + " to " + signed(r.High.V)
}

func pWords(v stream.Null[float64]) string {
	switch {
	case !v.OK:
		return "-"
	case v.V < 0.001:
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", v.V)
}
