package report

import (
	"math"
	"strconv"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// chartData is what the page's script draws from: one run, as JSON. Keys are
// short, since there may be 512 cells; report.js names them in full.
type chartData struct {
	Contexts []label       `json:"contexts"`
	Levels   []int         `json:"levels"`
	Cells    []chartCell   `json:"cells"` // those of the matrix, in the order of its buttons
	Prefill  []chartPrompt `json:"prefill"`
	First    int           `json:"first"` // cell that is open when the page is; -1 none
}

type label struct {
	Tokens int    `json:"n"`
	Text   string `json:"t"`
}

type chartCell struct {
	Context     int          `json:"l"` // index into Contexts
	Concurrency int          `json:"c"`
	Status      string       `json:"s"`
	Word        string       `json:"w"` // of the status
	Values      [4]short     `json:"v"` // total, per request, TTFT, time between tokens
	Texts       [4]string    `json:"x"` // the same, as the tables print them
	TTFT        [3]short     `json:"ttft"`
	TBT         [3]short     `json:"tbt"` // p50, p90, p99 in ms
	PerSecond   []short      `json:"ps,omitempty"`
	CI          short        `json:"ci"`
	Gaps        *gapBins     `json:"g,omitempty"`
	Streams     *timeline    `json:"st,omitempty"`
	Facts       [][2]string  `json:"f"` // name, value: what the detail lists
	Remarks     []cellRemark `json:"r,omitempty"`
}

// cellRemark is a footnote of a cell, with its number on the page.
type cellRemark struct {
	Note int    `json:"n"`
	Text string `json:"t"`
}

type chartPrompt struct {
	Tokens int    `json:"n"`
	Label  string `json:"t"`
	Rate   short  `json:"r"`
	TTFT   short  `json:"ms"`
}

// short is a number with five significant digits, null when undefined: a chart
// shows no more, and 512 cells of full floats would be a third of the file.
type short stream.Null[float64]

func (s short) MarshalJSON() ([]byte, error) {
	if !s.OK || math.IsNaN(s.V) || math.IsInf(s.V, 0) {
		return []byte("null"), nil
	}
	v, err := strconv.ParseFloat(strconv.FormatFloat(s.V, 'g', 5, 64), 64)
	return strconv.AppendFloat(nil, v, 'f', -1, 64), err
}

func shorts(vs []float64) []short {
	out := make([]short, len(vs))
	for i, v := range vs {
		out[i] = short{V: v, OK: true}
	}
	return out
}

// chart collects the data of a run's charts. Cells are in the order in which
// the matrix prints them, contexts down, levels across.
func chart(run *Source, g grid, f *footnotes) chartData {
	d := chartData{Levels: g.concurrency, Contexts: []label{}, Cells: []chartCell{}, Prefill: []chartPrompt{}, First: -1}
	lanes := newTimelines(run, g)
	var best float64
	for l, context := range g.contexts {
		d.Contexts = append(d.Contexts, label{context, contextLabel(context)})
		for _, level := range g.concurrency {
			c := g.at[[2]int{context, level}]
			if c == nil {
				continue
			}
			if c.Status == matrix.Valid && c.TotalTokS.V > best || d.First < 0 && c.TotalTokS.OK {
				best, d.First = c.TotalTokS.V, len(d.Cells)
			}
			d.Cells = append(d.Cells, chartOf(c, l, lanes.of(c), f))
		}
	}
	if d.First < 0 && len(d.Cells) > 0 {
		d.First = 0
	}
	for i := range run.Cells {
		if c := &run.Cells[i]; c.Phase == matrix.Prefill {
			d.Prefill = append(d.Prefill, chartPrompt{c.Context, contextLabel(c.Context), short(c.TotalTokS), short(c.TTFTMS)})
		}
	}
	return d
}

func chartOf(c *matrix.Cell, context int, lanes *timeline, f *footnotes) chartCell {
	out := chartCell{
		Context: context, Concurrency: c.Concurrency, Status: string(c.Status), Word: statusTitle(c.Status),
		Values:    [4]short{short(c.TotalTokS), short(c.RequestTokS), short(c.TTFTMS), short(c.TBTMS)},
		Texts:     [4]string{number(c.TotalTokS), number(c.RequestTokS), number(c.TTFTMS), number(c.TBTMS)},
		TTFT:      percentiles(c.TTFT, c.TTFTMS),
		TBT:       percentiles(c.TBT, c.TBTMS),
		PerSecond: shorts(c.PerSecond), CI: short(c.CI95), Gaps: binGaps(c.Hist.Gaps), Streams: lanes, Facts: cellFacts(c),
	}
	for _, text := range remarks(c) {
		out.Remarks = append(out.Remarks, cellRemark{f.mark(text), text})
	}
	return out
}

// percentiles are those of the cell, or its median alone where the file has no
// distribution.
func percentiles(q matrix.Quantiles, median stream.Null[float64]) [3]short {
	if q.N == 0 {
		return [3]short{short(median)}
	}
	return [3]short{short(q.P50), short(q.P90), short(q.P99)}
}

// cellFacts are the numbers of the detail, those that the file has.
func cellFacts(c *matrix.Cell) [][2]string {
	out := [][2]string{}
	add := func(name string, v stream.Null[float64], unit string) {
		if v.OK {
			out = append(out, [2]string{name, significant(v.V) + unit})
		}
	}
	spread := func(name string, q matrix.Quantiles) {
		if q.N > 0 {
			out = append(out, [2]string{name, significant(q.P50.V) + " / " + significant(q.P90.V) + " / " + significant(q.P99.V) + " / " + significant(q.Max.V) + " ms, n " + strconv.FormatInt(q.N, 10)})
		}
	}
	add("Total", c.TotalTokS, " tok/s")
	add("95 % interval", c.CI95, " tok/s either way")
	add("Per request", c.RequestTokS, " tok/s")
	add("TTFT", c.TTFTMS, " ms")
	add("Time between tokens", c.TBTMS, " ms")
	spread("TTFT p50/p90/p99/max", c.TTFT)
	spread("TTFT of restarts", c.TTFTSteady)
	spread("TBT p50/p90/p99/max", c.TBT)
	spread("Gaps p50/p90/p99/max", c.Gaps)
	add("Active requests", c.AvgActive, "")
	add("Decoding", c.AvgDecoding, "")
	add("Running, by the server", c.ActiveServer, "")
	if c.Completed.OK {
		out = append(out, [2]string{"Completed", count(c.Completed)})
	}
	if c.OutputTokens.OK {
		out = append(out, [2]string{"Output tokens", whole(c.OutputTokens)})
	}
	add("Measured for", c.MeasuredS, " s")
	percentOf := func(name string, v stream.Null[float64]) {
		v.V *= 100
		add(name, v, " %")
	}
	percentOf("Clean share", c.CleanShare)
	percentOf("Coalesced events", c.CoalescedShare)
	add("Tokens per event", c.TokensPerEvent, "")
	percentOf("Speculative acceptance", c.SpecAcceptance)
	add("Preemptions", c.Preemptions, "")
	add("Start skew", c.StartSkewMS, " ms")
	percentOf("Generator CPU", c.CPUShare)
	if c.TokensFrom != "" {
		out = append(out, [2]string{"Tokens counted by", string(c.TokensFrom)})
	}
	if c.Stamps != "" {
		out = append(out, [2]string{"Stamps", c.Stamps})
	}
	return out
}
