package report

import (
	"strconv"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// allMeasurements is the page's full table. Columns that no cell fills are left
// out; a published matrix has eleven, a run of ours about twice as many.
type allMeasurements struct {
	Columns []allColumn
	Rows    []allRow
}

type allColumn struct {
	Head, Long string
	Words      bool // text: left-aligned, sorted as text
	of         func(*matrix.Cell) string
}

type allRow struct {
	Status string
	Cells  []allEntry
}

type allEntry struct {
	Text  string
	Marks string
	Sort  string // what to sort by, where the text does not say it
	Words bool
}

func floatColumn(head, long string, of func(*matrix.Cell) stream.Null[float64]) allColumn {
	return allColumn{Head: head, Long: long, of: func(c *matrix.Cell) string { return number(of(c)) }}
}

func shareColumn(head, long string, of func(*matrix.Cell) stream.Null[float64]) allColumn {
	return floatColumn(head, long, func(c *matrix.Cell) stream.Null[float64] {
		v := of(c)
		v.V *= 100
		return v
	})
}

var allColumns = []allColumn{
	{Head: "phase", Long: "prefill or decode", Words: true, of: func(c *matrix.Cell) string { return string(c.Phase) }},
	{Head: "context", Long: "context length, tokens", of: func(c *matrix.Cell) string { return contextLabel(c.Context) }},
	{Head: "C", Long: "concurrency, streams at once", of: func(c *matrix.Cell) string { return strconv.Itoa(c.Concurrency) }},
	{Head: "repeat", Long: "how many-th repeat, 0 first", of: func(c *matrix.Cell) string { return strconv.Itoa(c.Repeat) }},
	{Head: "status", Long: "status", Words: true, of: func(c *matrix.Cell) string { return statusTitle(c.Status) }},
	floatColumn("tok/s", "total tok/s; of a prefill row prompt tok/s", func(c *matrix.Cell) stream.Null[float64] { return c.TotalTokS }),
	floatColumn("± 95 %", "half of the 95 % interval of total tok/s, by batch means", func(c *matrix.Cell) stream.Null[float64] { return c.CI95 }),
	floatColumn("req tok/s", "tok/s of one request, median", func(c *matrix.Cell) stream.Null[float64] { return c.RequestTokS }),
	floatColumn("TTFT ms", "time to first token, median", func(c *matrix.Cell) stream.Null[float64] { return c.TTFTMS }),
	floatColumn("TTFT p90", "time to first token, 90 % quantile, ms", func(c *matrix.Cell) stream.Null[float64] { return c.TTFT.P90 }),
	floatColumn("TTFT p99", "time to first token, 99 % quantile, ms", func(c *matrix.Cell) stream.Null[float64] { return c.TTFT.P99 }),
	floatColumn("TBT ms", "time between tokens, median", func(c *matrix.Cell) stream.Null[float64] { return c.TBTMS }),
	floatColumn("TBT p99", "time between tokens, 99 % quantile over streams, ms", func(c *matrix.Cell) stream.Null[float64] { return c.TBT.P99 }),
	floatColumn("gap p50", "gap between events, median, ms", func(c *matrix.Cell) stream.Null[float64] { return c.Gaps.P50 }),
	floatColumn("gap p99", "gap between events, 99 % quantile, ms", func(c *matrix.Cell) stream.Null[float64] { return c.Gaps.P99 }),
	floatColumn("gap max", "longest gap between events, ms", func(c *matrix.Cell) stream.Null[float64] { return c.Gaps.Max }),
	floatColumn("active", "average active requests", func(c *matrix.Cell) stream.Null[float64] { return c.AvgActive }),
	floatColumn("decoding", "average requests between first and last token", func(c *matrix.Cell) stream.Null[float64] { return c.AvgDecoding }),
	floatColumn("running", "running requests by the server's own gauge", func(c *matrix.Cell) stream.Null[float64] { return c.ActiveServer }),
	{Head: "done", Long: "completed requests; of a prefill row its samples", of: func(c *matrix.Cell) string { return count(c.Completed) }},
	{Head: "tokens", Long: "output tokens in the window", of: func(c *matrix.Cell) string { return whole(c.OutputTokens) }},
	floatColumn("s", "measured for, seconds", func(c *matrix.Cell) stream.Null[float64] { return c.MeasuredS }),
	{Head: "prompt", Long: "prompt tokens by the server's count", of: func(c *matrix.Cell) string { return count(c.PromptTokens) }},
	{Head: "cached", Long: "prompt tokens from the server's cache", of: func(c *matrix.Cell) string { return count(c.CachedTokens) }},
	shareColumn("clean %", "share of the stream-time that is clean of loops", func(c *matrix.Cell) stream.Null[float64] { return c.CleanShare }),
	{Head: "loops", Long: "streams retired for a loop", of: func(c *matrix.Cell) string { return positive(c.Loops) }},
	{Head: "failed", Long: "streams that failed", of: func(c *matrix.Cell) string { return positive(c.FailedStreams) }},
	shareColumn("coalesced %", "events that share an instant with the next", func(c *matrix.Cell) stream.Null[float64] { return c.CoalescedShare }),
	floatColumn("tok/event", "tokens per event", func(c *matrix.Cell) stream.Null[float64] { return c.TokensPerEvent }),
	{Head: "tokens from", Long: "where the token counts came from", Words: true, of: func(c *matrix.Cell) string { return dash(string(c.TokensFrom)) }},
	{Head: "stamps", Long: "who took the instants", Words: true, of: func(c *matrix.Cell) string { return dash(c.Stamps) }},
}

func positive(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// allOf lays out every cell, repeats and prefill rows included.
func allOf(cells []matrix.Cell, f *footnotes) allMeasurements {
	var out allMeasurements
	for _, col := range allColumns {
		for i := range cells {
			if text := col.of(&cells[i]); text != "-" && (col.Head != "repeat" || text != "0") {
				out.Columns = append(out.Columns, col)
				break
			}
		}
	}
	for i := range cells {
		c := &cells[i]
		row := allRow{Status: string(c.Status)}
		for _, col := range out.Columns {
			e := allEntry{Text: col.of(c), Words: col.Words}
			switch col.Head {
			case "context":
				e.Sort = strconv.Itoa(c.Context)
			case "status":
				e.Marks = f.numbers(c)
			}
			row.Cells = append(row.Cells, e)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}
