package board

import (
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

// grid is the arrangement of the matrix: a row a context, the prefill column
// first, then one a concurrency. A zero concurrency stands for prefill.
type grid struct {
	contexts, columns []int
}

const prefillColumn = 0

// arrange lays the plan out. The model's limit has a prefill row and may have no
// cells.
func arrange(p *loadgen.Plan) grid {
	var g grid
	for i := range p.Steps {
		s := &p.Steps[i]
		if !slices.Contains(g.contexts, s.Context) {
			g.contexts = append(g.contexts, s.Context)
		}
		if s.Phase == matrix.Prefill && !slices.Contains(g.columns, prefillColumn) {
			g.columns = slices.Insert(g.columns, 0, prefillColumn)
		}
		if s.Phase == matrix.Decode && !slices.Contains(g.columns, s.Concurrency) {
			g.columns = append(g.columns, s.Concurrency)
		}
	}
	return g
}

func placeOf(s *loadgen.Step) (context, column int) {
	if s.Phase == matrix.Prefill {
		return s.Context, prefillColumn
	}
	return s.Context, s.Concurrency
}

// window returns the n neighbours of all around the one at i, as far as there are.
func window(all []int, i, n int) (from, to int) {
	n = max(min(n, len(all)), 0)
	from = min(max(i-n/2, 0), len(all)-n)
	return from, from + n
}

// rows draws the head of the matrix and at most n rows of it, those around the
// current cell when there is no room for all.
func (m model) rows(n int) []string {
	g := arrange(&m.subject.Plan)
	label := 6
	for _, l := range g.contexts {
		label = max(label, len(contextName(l))+1)
	}
	row, column := placeOf(&m.snap.Step)
	r0, r1 := window(g.contexts, max(slices.Index(g.contexts, row), 0), n)
	c0, c1 := window(g.columns, max(slices.Index(g.columns, column), 0), (m.width-label)/columnWidth)

	head := fmt.Sprintf("%*s", label, "tok/s")
	for i, c := range g.columns[c0:c1] {
		name := strconv.Itoa(c)
		if c == prefillColumn {
			name = "prefill"
		}
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

// entry is one place of the matrix, columnWidth wide.
func (m model) entry(context, column int) string {
	k := key{matrix.Decode, context, column}
	if column == prefillColumn {
		k = key{matrix.Prefill, context, 1}
	}
	text, style := m.word(k)
	if now := m.snap.Step; m.snap.N > 0 && keyOf(&now) == k && m.snap.Stage != loadgen.Finished {
		text, style = "▸…", m.style.now
		if m.rate > 0 && column != prefillColumn {
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
	for i := range m.subject.Plan.Steps {
		s := &m.subject.Plan.Steps[i]
		switch {
		case keyOf(s) != k:
		case s.Fit.OK:
			return "·", m.style.dim
		default:
			return statusWord(matrix.OverCapacity), m.style.dim
		}
	}
	return "", m.style.dim // no such step
}
