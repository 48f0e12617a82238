package board

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// columnWidth holds a rate or a status, and the mark of the current cell or a space.
const columnWidth = 8

// column is what a row's cells differ by. The zero column is prefill's.
type column struct {
	concurrency int     // held
	rate        float64 // offered, requests a second
	stage       int     // of an offered load
}

var prefillColumn column

func columnOf(c *matrix.Cell) column {
	switch {
	case c.Phase == matrix.Prefill:
		return prefillColumn
	case c.Offered != nil:
		return column{rate: c.Offered.Rate, stage: c.Offered.Stage}
	}
	return column{concurrency: c.Concurrency}
}

func (c column) String() string {
	switch {
	case c == prefillColumn:
		return "prefill"
	case c.concurrency == 0:
		return fmt.Sprintf("%.4g/s", c.rate)
	}
	return strconv.Itoa(c.concurrency)
}

// grid is the arrangement of the matrix: a row a context, the prefill column
// first, then one a concurrency, or one a rate.
type grid struct {
	contexts []int
	columns  []column
}

// arrange lays the plan out, and behind it the levels that a search has come to,
// in their order. The model's limit has a prefill row and may have no cells.
func (m model) arrange() grid {
	var g grid
	searches := false
	for _, s := range m.subject.Plan.Steps {
		searches = searches || s.Search
		for _, c := range s.Cells() {
			g.add(&c)
		}
	}
	if !searches {
		return g
	}
	for k, c := range m.cells {
		if slices.Contains(g.contexts, k.context) {
			g.add(&c)
		}
	}
	slices.SortFunc(g.columns, func(a, b column) int {
		return cmp.Or(cmp.Compare(a.concurrency, b.concurrency), cmp.Compare(a.rate, b.rate))
	})
	return g
}

func (g *grid) add(c *matrix.Cell) {
	if !slices.Contains(g.contexts, c.Context) {
		g.contexts = append(g.contexts, c.Context)
	}
	switch at := columnOf(c); {
	case slices.Contains(g.columns, at):
	case at == prefillColumn:
		g.columns = slices.Insert(g.columns, 0, at)
	default:
		g.columns = append(g.columns, at)
	}
}

// window returns the n neighbours of all around the one at i, as far as there are.
func window(all, i, n int) (from, to int) {
	n = max(min(n, all), 0)
	from = min(max(i-n/2, 0), all-n)
	return from, from + n
}

// rows draws the head of the matrix and at most n rows of it, those around the
// current cell when there is no room for all.
func (m model) rows(n int) []string {
	g := m.arrange()
	label := 6
	for _, l := range g.contexts {
		label = max(label, len(contextName(l))+1)
	}
	var at key
	if now := m.places(); len(now) > 0 {
		at = now[0]
	}
	r0, r1 := window(len(g.contexts), max(slices.Index(g.contexts, at.context), 0), n)
	c0, c1 := window(len(g.columns), max(slices.Index(g.columns, at.column), 0), (m.width-label)/columnWidth)

	head := fmt.Sprintf("%*s", label, "tok/s")
	for i, c := range g.columns[c0:c1] {
		name := c.String()
		if i == 0 && c0 > 0 {
			name = "‹" + name
		}
		if c0+i == c1-1 && c1 < len(g.columns) {
			name += "›"
		}
		head += strings.Repeat(" ", max(columnWidth-lipgloss.Width(name), 0)) + name
	}
	out := []string{m.style.dim.Render(head)}
	for _, l := range g.contexts[r0:r1] {
		line := m.style.dim.Render(fmt.Sprintf("%*s", label, contextName(l)))
		for _, c := range g.columns[c0:c1] {
			line += m.entry(l, c)
		}
		out = append(out, line)
	}
	return out
}

// places are those of the step that is being run: one, but for stages, which are
// measured in one go.
func (m model) places() []key {
	if m.snap.N == 0 {
		return nil
	}
	var out []key
	for _, c := range m.snap.Step.Cells() {
		out = append(out, keyOf(&c))
	}
	return out
}

// entry is one place of the matrix, columnWidth wide.
func (m model) entry(context int, at column) string {
	k := key{context, at}
	text, style := m.word(k)
	if m.snap.Stage != loadgen.Finished && slices.Contains(m.places(), k) {
		text, style = "▸…", m.style.now
		if m.rate > 0 && at != prefillColumn {
			text = "▸" + rateWord(m.rate)
		}
	}
	return strings.Repeat(" ", max(columnWidth-lipgloss.Width(text), 0)) + style.Render(text)
}

// word is what is known of a place that is not being measured. A number that its
// cell's status qualifies has a question mark, as in the reports.
func (m model) word(k key) (string, lipgloss.Style) {
	c, measured := m.cells[k]
	switch {
	case measured && c.TotalTokS.OK && c.Status == matrix.Valid:
		return rateWord(c.TotalTokS.V), m.style.good
	case measured && c.TotalTokS.OK:
		return rateWord(c.TotalTokS.V) + "?", m.style.doubt
	case measured && (c.Status == matrix.Failed || c.Status == matrix.Interrupted):
		return statusWord(c.Status), m.style.bad
	case measured && c.Status == matrix.Looped:
		return statusWord(c.Status), m.style.doubt
	case measured:
		return statusWord(c.Status), m.style.dim
	}
	for _, s := range m.subject.Plan.Steps {
		for _, c := range s.Cells() {
			switch {
			case keyOf(&c) != k:
			case s.Fit.OK:
				return "·", m.style.dim
			default:
				return statusWord(matrix.OverCapacity), m.style.dim
			}
		}
	}
	return "", m.style.dim // no such step
}
