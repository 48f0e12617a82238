package report

import (
	"fmt"
	"strconv"

	"github.com/streamgauge/streamgauge/matrix"
)

// offeredTables show paced load, and what a search for the highest level saw.
func offeredTables(run *matrix.Run, f *footnotes) []table {
	var out []table
	t := table{title: "Offered load (requests sent at intended instants; latencies in ms from those)", head: []string{
		"context", "rate", "stage", "status", "sent", "late", "dropped", "unanswered", "tok/s", "first token p50", "p99", "TTFT", "TBT", "active", "done", "s",
	}}
	for i := range run.Cells {
		c := &run.Cells[i]
		l := c.Offered
		if c.Phase != matrix.Offered || l == nil {
			continue
		}
		t.rows = append(t.rows, []string{
			contextLabel(c.Context), fmt.Sprintf("%.4g/s", l.Rate), strconv.Itoa(l.Stage + 1), statusTitle(c.Status) + f.marks(c),
			fmt.Sprintf("%d of %d", l.Sent, l.Intended), strconv.Itoa(l.Late), strconv.Itoa(l.Dropped), strconv.Itoa(l.Unanswered),
			number(c.TotalTokS), number(l.IntendedTTFT.P50), number(l.IntendedTTFT.P99), number(c.TTFTMS), number(c.TBTMS),
			number(c.AvgActive), count(c.Completed), number(c.MeasuredS),
		})
	}
	if len(t.rows) > 0 {
		out = append(out, t)
	}
	s := table{title: "Search for the highest level (--slo)", head: []string{"", "seen"}}
	for _, n := range run.Notes {
		switch n.Code {
		case "slo":
			s.rows = append(s.rows, []string{strconv.Itoa(len(s.rows) + 1), n.Message})
		case "slo_result":
			s.rows = append(s.rows, []string{"found", n.Message})
		}
	}
	if len(s.rows) > 0 {
		out = append(out, s)
	}
	return out
}
