package report

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// htmlRun is one run of the page.
type htmlRun struct {
	ID          string // prefix of the ids of this run's elements
	Title       string
	Started     string
	Remark      string
	Facts       [][2]string
	Launch      string // redacted
	Settings    [][2]string
	Definitions [][2]string
	Tiles       []tile
	Checks      []check
	Prefill     *sheet
	Grid        htmlGrid
	All         allMeasurements
	Notes       []string
	Log         [][2]string // when, what: the run file's own notes
	Reproduce   string
	Body        string
	Data        template.JS
}

// tile is one of the numbers that a reader sees first.
type tile struct{ Label, Value, Unit, Where string }

// sheet is a table as templates read it.
type sheet struct {
	Title string
	Head  []string
	Rows  [][]string
}

// htmlGrid is the matrix, drawn for the total; the script redraws its buttons.
type htmlGrid struct {
	Levels  []int
	Rows    []htmlGridRow
	Repeats int // most of one cell
}

type htmlGridRow struct {
	Label string
	Cells []htmlGridCell
}

type htmlGridCell struct {
	Index  int // among the chart data's cells; -1: not run
	Status string
	Text   string
	Marks  string
	Hover  string
	Spoken string // what a screen reader adds: the place is only to be seen
}

func newHTMLRun(n int, run *Source) (htmlRun, error) {
	f := &footnotes{at: map[string]int{}}
	g := index(run.Cells)
	p := arrange(&run.Run)
	r := htmlRun{
		ID: "r" + strconv.Itoa(n), Title: title(&run.Run), Remark: p.remark,
		Settings: settings(&run.Header), Checks: trust(&run.Run), Tiles: tiles(run.Cells, g),
		Reproduce: reproduce(&run.Header), Body: bodyRemark(&run.Header.Config),
	}
	for _, fact := range p.facts {
		switch fact[0] {
		case "launch":
			r.Launch = fact[1]
		case "started":
			r.Started = fact[1]
		default:
			r.Facts = append(r.Facts, fact)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(run.Header.Definitions)) {
		r.Definitions = append(r.Definitions, [2]string{name, run.Header.Definitions[name]})
	}
	for _, n := range run.Notes {
		r.Log = append(r.Log, [2]string{fmt.Sprintf("%.1f s", float64(n.AtNS)/1e9), n.Code + ": " + redact(n.Message)})
	}
	if t := prefillTable(run.Cells, f); len(t) > 0 {
		r.Prefill = &sheet{t[0].title, t[0].head, t[0].rows}
	}
	r.Grid = drawGrid(g, f)
	r.All = allOf(run.Cells, f)
	data, err := scriptJSON(chart(run, g, f))
	r.Data = data
	r.Notes = f.text
	return r, err
}

func drawGrid(g grid, f *footnotes) htmlGrid {
	out := htmlGrid{Levels: g.concurrency, Repeats: g.repeats}
	n := 0
	for _, l := range g.contexts {
		row := htmlGridRow{Label: contextLabel(l)}
		for _, level := range g.concurrency {
			c := g.at[[2]int{l, level}]
			if c == nil {
				row.Cells = append(row.Cells, htmlGridCell{Index: -1})
				continue
			}
			row.Cells = append(row.Cells, htmlGridCell{
				Index: n, Status: string(c.Status), Marks: f.numbers(c),
				Text:   matrixEntry(c, func(c *matrix.Cell) stream.Null[float64] { return c.TotalTokS }, false, nil),
				Spoken: fmt.Sprintf("(%s, context %s)", strings.ToLower(statusTitle(c.Status)), cellWords(c)),
				Hover:  strings.Join(append([]string{cellName(c) + ": " + statusTitle(c.Status)}, remarks(c)...), "\n"),
			})
			n++
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// settings are the run's settings that the facts do not have yet.
func settings(h *matrix.Header) [][2]string {
	var out [][2]string
	add := func(name, value string) {
		if value != "" {
			out = append(out, [2]string{name, value})
		}
	}
	add("endpoint", h.Config.Endpoint)
	add("request keys sent", strings.Join(h.Engine.Sent, ", "))
	add("keys the server refused", strings.Join(h.Engine.Dropped, ", "))
	add("extra body keys", strings.Join(h.Config.Extra, ", "))
	if !imported(&h.Config) {
		add("streams that may fail", fmt.Sprintf("%g %%", 100*h.Config.MaxFailed))
		add("repeats", strconv.Itoa(max(h.Config.Repeat, 1)))
		add("seed", strconv.FormatUint(h.Config.Seed, 10))
	}
	add("ask", h.Config.Ask)
	if h.Engine.MaxRunning > 0 {
		add("most running requests", strconv.Itoa(h.Engine.MaxRunning))
	}
	if h.Host.OS != "" {
		add("load generator's host", strings.TrimSpace(fmt.Sprintf("%s/%s, %d CPUs, %s, kernel %s", h.Host.OS, h.Host.Arch, h.Host.CPUs, h.Host.Go, h.Host.Kernel)))
	}
	for _, fact := range slices.Sorted(maps.Keys(h.Engine.Sources)) {
		add("source of "+fact, h.Engine.Sources[fact])
	}
	return out
}

// tiles are the four numbers that say what the machine does: the most it gives,
// what one user gets, how long that user waits, how fast it reads.
func tiles(cells []matrix.Cell, g grid) []tile {
	var out []tile
	var peak, one, prompt *matrix.Cell
	for _, l := range g.contexts {
		for _, level := range g.concurrency {
			c := g.at[[2]int{l, level}]
			if c == nil || c.Status != matrix.Valid || !c.TotalTokS.OK {
				continue
			}
			if peak == nil || c.TotalTokS.V > peak.TotalTokS.V {
				peak = c
			}
			if one == nil || c.Concurrency < one.Concurrency {
				one = c
			}
		}
	}
	for i := range cells {
		if c := &cells[i]; c.Phase == matrix.Prefill && c.TotalTokS.OK && (prompt == nil || c.TotalTokS.V > prompt.TotalTokS.V) {
			prompt = c
		}
	}
	add := func(name string, v stream.Null[float64], unit, where string) {
		if v.OK {
			out = append(out, tile{name, significant(v.V), unit, where})
		}
	}
	if peak != nil {
		add("Most throughput", peak.TotalTokS, "tok/s", "at "+cellWords(peak))
		add("Each stream", one.RequestTokS, "tok/s", "at "+cellWords(one))
		add("First token after", one.TTFTMS, "ms", "at "+cellWords(one)+", prompt cached")
	}
	if prompt != nil {
		add("Fastest prefill", prompt.TotalTokS, "tok/s", "at "+contextLabel(prompt.Context)+", cold")
	}
	return out
}

func cellWords(c *matrix.Cell) string {
	return contextLabel(c.Context) + ", " + plural(c.Concurrency, "stream")
}
