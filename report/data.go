package report

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// document is the JSON form of one run.
type document struct {
	Header matrix.Header `json:"header"`
	Cells  []matrix.Cell `json:"cells"`
}

// writeJSON writes {header, cells}; of several runs an array of them.
func writeJSON(w io.Writer, runs []*Source) error {
	docs := make([]document, len(runs))
	for i, run := range runs {
		docs[i] = document{Header: shareable(run.Header), Cells: run.Cells}
		if docs[i].Cells == nil {
			docs[i].Cells = []matrix.Cell{}
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	if len(docs) == 1 {
		return e.Encode(docs[0])
	}
	return e.Encode(docs)
}

// csvColumns are the columns of a CSV report: the keys of the cell line.
var csvColumns = []struct {
	name string
	of   func(*matrix.Cell) string
}{
	{"phase", func(c *matrix.Cell) string { return string(c.Phase) }},
	{"context", func(c *matrix.Cell) string { return strconv.Itoa(c.Context) }},
	{"concurrency", func(c *matrix.Cell) string { return strconv.Itoa(c.Concurrency) }},
	{"repeat", func(c *matrix.Cell) string { return strconv.Itoa(c.Repeat) }},
	{"status", func(c *matrix.Cell) string { return string(c.Status) }},
	{"reason", func(c *matrix.Cell) string { return c.Reason }},
	{"total_tok_s", func(c *matrix.Cell) string { return exact(c.TotalTokS) }},
	{"request_tok_s", func(c *matrix.Cell) string { return exact(c.RequestTokS) }},
	{"ttft_ms", func(c *matrix.Cell) string { return exact(c.TTFTMS) }},
	{"tbt_ms", func(c *matrix.Cell) string { return exact(c.TBTMS) }},
	{"avg_active", func(c *matrix.Cell) string { return exact(c.AvgActive) }},
	{"completed", func(c *matrix.Cell) string { return exactInt(c.Completed) }},
	{"output_tokens", func(c *matrix.Cell) string { return exact(c.OutputTokens) }},
	{"measured_s", func(c *matrix.Cell) string { return exact(c.MeasuredS) }},
	{"avg_decoding", func(c *matrix.Cell) string { return exact(c.AvgDecoding) }},
	{"active_server", func(c *matrix.Cell) string { return exact(c.ActiveServer) }},
	{"ttft_p90_ms", func(c *matrix.Cell) string { return exact(c.TTFT.P90) }},
	{"ttft_p99_ms", func(c *matrix.Cell) string { return exact(c.TTFT.P99) }},
	{"tbt_p99_ms", func(c *matrix.Cell) string { return exact(c.TBT.P99) }},
	{"gap_p50_ms", func(c *matrix.Cell) string { return exact(c.Gaps.P50) }},
	{"gap_p99_ms", func(c *matrix.Cell) string { return exact(c.Gaps.P99) }},
	{"gap_max_ms", func(c *matrix.Cell) string { return exact(c.Gaps.Max) }},
	{"clean_share", func(c *matrix.Cell) string { return exact(c.CleanShare) }},
	{"loops", func(c *matrix.Cell) string { return strconv.Itoa(c.Loops) }},
	{"coalesced_share", func(c *matrix.Cell) string { return exact(c.CoalescedShare) }},
	{"tokens_per_event", func(c *matrix.Cell) string { return exact(c.TokensPerEvent) }},
	{"tokens_from", func(c *matrix.Cell) string { return string(c.TokensFrom) }},
	{"ci95", func(c *matrix.Cell) string { return exact(c.CI95) }},
	{"warnings", func(c *matrix.Cell) string {
		codes := make([]string, len(c.Warnings))
		for i, w := range c.Warnings {
			codes[i] = w.Code
		}
		return strings.Join(codes, " ")
	}},
	{"message", func(c *matrix.Cell) string { return c.Message }},
}

// writeCSV writes a line a cell; the first column is the run's start time, so
// that several runs can stand in one file. Undefined is empty.
func writeCSV(w io.Writer, runs []*Source) error {
	out := csv.NewWriter(w)
	row := []string{"run"}
	for _, col := range csvColumns {
		row = append(row, col.name)
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for _, run := range runs {
		for i := range run.Cells {
			row = append(row[:0], startWord(&run.Header))
			for _, col := range csvColumns {
				row = append(row, col.of(&run.Cells[i]))
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// startWord names a run by its start; empty where the file does not tell.
func startWord(h *matrix.Header) string {
	if h.Start.IsZero() {
		return ""
	}
	return h.Start.UTC().Format("2006-01-02T15:04:05Z")
}

// shareable is the header with the user's notes redacted.
func shareable(h matrix.Header) matrix.Header {
	if h.Notes != nil {
		h.Notes = stream.RedactNotes(h.Notes)
	}
	return h
}

func exact(v stream.Null[float64]) string {
	if !v.OK {
		return ""
	}
	return strconv.FormatFloat(v.V, 'f', -1, 64)
}

func exactInt(v stream.Null[int]) string {
	if !v.OK {
		return ""
	}
	return strconv.Itoa(v.V)
}
