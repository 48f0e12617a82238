package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// TestOffered: paced load has a table of its own and stays out of the matrix of
// concurrencies, whose cells mean something else.
func TestOffered(t *testing.T) {
	cell := matrix.Cell{
		Type: "cell", V: 1, Phase: matrix.Offered, Context: 8192, Concurrency: 1024, TotalTokS: stream.Some(987.6),
		Offered: &matrix.OfferedLoad{Rate: 12.5, Stage: 1, Intended: 750, Sent: 700, Late: 3, Dropped: 50, Unanswered: 7},
	}
	cell.Raise(matrix.OverCapacity, "dropped", "50 of 750 sends found all 1024 places taken")
	run := &matrix.Run{Cells: []matrix.Cell{cell}, Notes: []matrix.Note{
		{Code: "plan", Message: "context 9 is left out"},
		{Code: "slo", Message: "context 8192, 12.5/s: TTFT p95 400 ms of 500: holds"},
		{Code: "slo_result", Message: "the highest is 12.5/s"},
	}}
	for _, format := range []string{"text", "markdown"} {
		var b bytes.Buffer
		if err := Write(&b, format, run); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"12.5/s", "700 of 750", "50 of 750 sends found all 1024 places taken", "987.6", "holds", "the highest is 12.5/s"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q:\n%s", format, want, b.String())
			}
		}
		for _, not := range []string{"context \\ C", "left out"} {
			if strings.Contains(b.String(), not) {
				t.Errorf("%s has %q:\n%s", format, not, b.String())
			}
		}
	}
	var b bytes.Buffer
	if err := Write(&b, "text", &matrix.Run{}); err != nil || strings.Contains(b.String(), "Offered") || strings.Contains(b.String(), "Search") {
		t.Errorf("a run without paced load shows its tables (%v):\n%s", err, b.String())
	}
}
