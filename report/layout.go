package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// page is a run arranged for reading, before any drawing.
type page struct {
	title  string
	facts  [][2]string // name, value
	tables []table
	notes  []string // footnotes, in order; the mark of notes[i] is i+1
	legend string   // explains marks that stand in the tables
	remark string   // how the run ended, when it did not end well
}

// printable takes control characters out: a run file may come from somebody
// else, and an escape sequence in it would act on the reader's terminal.
func (p *page) printable() {
	clean := func(s *string) {
		*s = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, *s)
	}
	clean(&p.title)
	clean(&p.remark)
	for i := range p.facts {
		clean(&p.facts[i][0])
		clean(&p.facts[i][1])
	}
	for i := range p.notes {
		clean(&p.notes[i])
	}
	for _, t := range p.tables {
		for _, row := range t.rows {
			for i := range row {
				clean(&row[i])
			}
		}
	}
}

type table struct {
	title string
	head  []string
	rows  [][]string // first column is a label, the others are right-aligned
}

// footnotes numbers each distinct remark once, however many cells carry it.
type footnotes struct {
	text []string
	at   map[string]int
}

func (f *footnotes) mark(text string) int {
	if n, ok := f.at[text]; ok {
		return n
	}
	f.text = append(f.text, text)
	f.at[text] = len(f.text)
	return len(f.text)
}

// marks returns the footnote marks of a cell, " [1,2]", numbering what is new.
func (f *footnotes) marks(c *matrix.Cell) string {
	if s := f.numbers(c); s != "" {
		return " [" + s + "]"
	}
	return ""
}

// numbers returns the marks alone, "1,2".
func (f *footnotes) numbers(c *matrix.Cell) string {
	var ns []int
	for _, text := range remarks(c) {
		if n := f.mark(text); !slices.Contains(ns, n) {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	words := make([]string, len(ns))
	for i, n := range ns {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

// remarks are what a cell's footnotes say: the reason of its status, then its
// warnings.
func remarks(c *matrix.Cell) []string {
	var out []string
	if c.Message != "" {
		out = append(out, fmt.Sprintf("%s: %s", statusTitle(c.Status), c.Message))
	}
	for _, w := range c.Warnings {
		out = append(out, warningWords(w))
	}
	return out
}

func arrange(run *matrix.Run) page {
	f := &footnotes{at: map[string]int{}}
	p := page{title: title(run), facts: facts(run)}
	cells := index(run.Cells)
	p.tables = append(p.tables, prefillTable(run.Cells, f)...)
	for _, m := range []struct {
		title string
		of    func(*matrix.Cell) stream.Null[float64]
		mark  bool
	}{
		{"Total tok/s", func(c *matrix.Cell) stream.Null[float64] { return c.TotalTokS }, true},
		{"Per request tok/s (median)", func(c *matrix.Cell) stream.Null[float64] { return c.RequestTokS }, false},
		{"TTFT, ms (median of the start burst)", func(c *matrix.Cell) stream.Null[float64] { return c.TTFTMS }, false},
		{"Time between tokens, ms (median)", func(c *matrix.Cell) stream.Null[float64] { return c.TBTMS }, false},
	} {
		p.tables = append(p.tables, cells.tables(m.title, m.of, m.mark, f)...)
	}
	p.tables = append(p.tables, allTable(run.Cells, f)...)
	p.tables = append(p.tables, offeredTables(run, f)...)
	p.notes = f.text
	if slices.ContainsFunc(run.Cells, func(c matrix.Cell) bool { return provisional(&c, c.TotalTokS) }) {
		p.legend = "? marks a provisional number: the status of its cell is not Valid."
	}
	for _, w := range run.Header.Warnings {
		p.notes = append(p.notes, w.Code+": "+w.Message)
	}
	switch {
	case run.End == nil:
		p.remark = "This run was cut off: its file has no end line. What is above was measured before that."
	case run.End.Outcome != "done":
		p.remark = fmt.Sprintf("This run ended as %s: %s.", run.End.Outcome, strings.TrimSuffix(run.End.Message, "."))
	}
	p.printable()
	return p
}

func title(run *matrix.Run) string {
	e := run.Header.Engine
	name := e.Model
	if name == "" {
		name = "unknown model"
	}
	if e.Kind == "" {
		return name
	}
	return strings.TrimSpace(fmt.Sprintf("%s on %s %s", name, e.Kind, e.Version))
}

// facts are what a reader needs to know to place the numbers. What a file does
// not say is left out, but for the capacities: that they are unknown matters.
func facts(run *matrix.Run) [][2]string {
	h, e, c := &run.Header, &run.Header.Engine, &run.Header.Config
	known := func(n int) string {
		if n == 0 {
			return "unknown"
		}
		return strconv.Itoa(n) + " tokens"
	}
	var fs [][2]string
	add := func(name, value string) {
		if value != "" {
			fs = append(fs, [2]string{name, value})
		}
	}
	add("server", c.URL)
	add("model limit", known(e.MaxModelLen))
	add("KV capacity", known(e.KVTokens))
	add("window", windowWords(c))
	add("rules", ruleWords(c))
	add("measured by", h.Tool+", "+stampWords(run.Cells))
	if !h.Start.IsZero() {
		add("started", h.Start.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	add("proxy", h.Proxy)
	for _, k := range slices.Sorted(maps.Keys(h.Notes)) {
		add(k, redact(h.Notes[k]))
	}
	return fs
}

func windowWords(c *matrix.Config) string {
	s := fmt.Sprintf("%g s", c.DurationS)
	if !imported(c) {
		s += fmt.Sprintf(", settle %g s", c.SettleS)
	}
	return s + fmt.Sprintf(", max tokens %d", c.MaxTokens)
}

func ruleWords(c *matrix.Config) string {
	if imported(c) {
		return "not stated"
	}
	return fmt.Sprintf("on-loop %s, prefix %s, kv-rule %s, EOS %s", c.OnLoop, c.Prefix, c.KVRule,
		map[bool]string{true: "ignored (--force-length)", false: "respected"}[c.ForceLength])
}

// imported reports whether the settings are those of another tool's file, which
// names none of our rules.
func imported(c *matrix.Config) bool { return c.OnLoop == "" }

// stampWords says who took the instants behind the cells.
func stampWords(cells []matrix.Cell) string {
	var seen []string
	for i := range cells {
		if s := cells[i].Stamps; s != "" && !slices.Contains(seen, s) {
			seen = append(seen, s)
		}
	}
	if len(seen) == 0 {
		return "clock not stated"
	}
	return strings.Join(seen, " and ") + " stamps"
}

// grid holds the decode cells by coordinates, in the order of the run.
type grid struct {
	contexts, concurrency []int
	at                    map[[2]int]*matrix.Cell
	repeats               int // most of one cell
}

// index arranges the decode cells; of repeats the last stands in the matrix,
// all of them in the list of measurements.
func index(cells []matrix.Cell) grid {
	g := grid{at: map[[2]int]*matrix.Cell{}}
	for i := range cells {
		c := &cells[i]
		if c.Phase != matrix.Decode {
			continue
		}
		if !slices.Contains(g.contexts, c.Context) {
			g.contexts = append(g.contexts, c.Context)
		}
		if !slices.Contains(g.concurrency, c.Concurrency) {
			g.concurrency = append(g.concurrency, c.Concurrency)
		}
		g.at[[2]int{c.Context, c.Concurrency}] = c
		g.repeats = max(g.repeats, c.Repeat+1)
	}
	return g
}

func (g grid) tables(title string, of func(*matrix.Cell) stream.Null[float64], mark bool, f *footnotes) []table {
	if len(g.contexts) == 0 {
		return nil
	}
	t := table{title: title, head: []string{"context \\ C"}}
	for _, c := range g.concurrency {
		t.head = append(t.head, strconv.Itoa(c))
	}
	for _, l := range g.contexts {
		row := []string{contextLabel(l)}
		for _, c := range g.concurrency {
			row = append(row, matrixEntry(g.at[[2]int{l, c}], of, mark, f))
		}
		t.rows = append(t.rows, row)
	}
	return []table{t}
}

func matrixEntry(c *matrix.Cell, of func(*matrix.Cell) stream.Null[float64], mark bool, f *footnotes) string {
	if c == nil {
		return "not run"
	}
	v := of(c)
	text := number(v)
	switch {
	case !v.OK && c.Status != matrix.Valid:
		text = statusWord(c.Status)
	case provisional(c, v):
		text += "?"
	}
	if mark {
		text += f.marks(c)
	}
	return text
}

// provisional reports whether v is a number that its cell's status qualifies.
func provisional(c *matrix.Cell, v stream.Null[float64]) bool {
	return v.OK && c.Status != matrix.Valid
}

func prefillTable(cells []matrix.Cell, f *footnotes) []table {
	t := table{title: "Prefill (cold, one request at a time; medians)", head: []string{"context", "prompt tokens", "tok/s", "TTFT ms", "samples"}}
	for i := range cells {
		c := &cells[i]
		if c.Phase != matrix.Prefill {
			continue
		}
		rate := number(c.TotalTokS)
		if !c.TotalTokS.OK {
			rate = statusWord(c.Status)
		}
		t.rows = append(t.rows, []string{contextLabel(c.Context), count(c.PromptTokens), rate + f.marks(c), number(c.TTFTMS), count(c.Completed)})
	}
	if len(t.rows) == 0 {
		return nil
	}
	return []table{t}
}

func allTable(cells []matrix.Cell, f *footnotes) []table {
	t := table{title: "All measurements (tok/s in total and per request, times in ms)", head: []string{
		"context", "C", "status", "tok/s", "req tok/s", "TTFT", "TBT", "active", "done", "tokens", "s",
	}}
	for i := range cells {
		c := &cells[i]
		if c.Phase != matrix.Decode {
			continue
		}
		t.rows = append(t.rows, []string{
			contextLabel(c.Context), strconv.Itoa(c.Concurrency), statusTitle(c.Status) + f.marks(c),
			number(c.TotalTokS), number(c.RequestTokS), number(c.TTFTMS), number(c.TBTMS),
			number(c.AvgActive), count(c.Completed), whole(c.OutputTokens), number(c.MeasuredS),
		})
	}
	if len(t.rows) == 0 {
		return nil
	}
	return []table{t}
}
