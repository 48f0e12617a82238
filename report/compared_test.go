package report

import (
	"regexp"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/compare"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// compared has a row of every verdict and basis.
func compared(t *testing.T) *compare.Comparison {
	t.Helper()
	run := func(version string, totals ...float64) *matrix.Run {
		r := &matrix.Run{Header: warned().Header}
		r.Header.Engine.Version = version
		for i, v := range totals {
			c := matrix.Cell{Phase: matrix.Decode, Context: 8192, Concurrency: 1 << i, Status: matrix.Looped}
			if v > 0 {
				c.Status, c.TotalTokS, c.TTFTMS = matrix.Valid, stream.Some(v), stream.Some(1e5/v)
			}
			r.Cells = append(r.Cells, c)
		}
		return r
	}
	c, err := compare.Compare(
		[]*matrix.Run{run("1", 100, 200, 300, 400, 0, 0, 7), run("1", 101, 202, 297, 396, 0, 0, 7), run("1", 99, 198, 303, 404, 0, 0, 7)},
		[]*matrix.Run{run("2", 100.5, 180, 360, 0, 500, 0), run("2", 99.5, 181, 361, 0, 505, 0), run("2", 101.5, 179, 359, 0, 495, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"before/1.ndjson", "before/2.ndjson", "before/3.ndjson"} {
		c.Base.Origins[i].File, c.New.Origins[i].File = name, strings.Replace(name, "before", "after", 1)
	}
	return &c
}

// rounded cuts numbers to six decimals: the last bits differ where a processor
// fuses multiplication and addition.
func rounded(p []byte) []byte {
	return regexp.MustCompile(`(\.\d{6})\d+(?:e-\d+)?`).ReplaceAll(p, []byte("$1"))
}

func TestComparisonGolden(t *testing.T) {
	for _, format := range CompareFormats() {
		var b strings.Builder
		if err := WriteComparison(&b, format, compared(t)); err != nil {
			t.Fatal(err)
		}
		golden(t, "compared."+Extension(format), rounded(withoutAssets([]byte(b.String()))))
		if format != "text" {
			continue
		}
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > textWidth {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
	if err := WriteComparison(&strings.Builder{}, "pdf", compared(t)); err == nil || !strings.Contains(err.Error(), "markdown") {
		t.Errorf("error %v, want one that lists the formats", err)
	}
}
