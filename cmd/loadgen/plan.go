package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// inFile counts the steps of a plan that a resumed run has.
func inFile(p *loadgen.Plan, have []matrix.Cell) int {
	n := 0
	for _, s := range p.Steps {
		if s.Have(have) != nil {
			n++
		}
	}
	return n
}

// statuses are those of cells, each once.
func statuses(cells []matrix.Cell) string {
	var out []string
	for _, c := range cells {
		if s := string(c.Status); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}

// printPlan prints what a run would do, with each cell's fit arithmetic.
func printPlan(w io.Writer, p *loadgen.Plan, have []matrix.Cell) error {
	var b strings.Builder
	var cells, rows time.Duration
	runs := 0
	for i := range p.Steps {
		s := &p.Steps[i]
		level := strconv.Itoa(s.Concurrency)
		if s.Phase == matrix.Offered || s.Search {
			level = s.Level()
		}
		fmt.Fprintf(&b, "%-7s %8d × %-4s  ", s.Phase, s.Context, level)
		switch had := s.Have(have); {
		case had != nil:
			fmt.Fprintf(&b, "in the file: %s\n", statuses(had))
		case s.Fit.OK && s.Phase == matrix.Prefill:
			runs++
			rows += s.Estimate
			fmt.Fprintf(&b, "run, up to %s: %s\n", s.Estimate.Round(time.Second), s.Fit.Message)
		case s.Fit.OK:
			runs++
			cells += s.Estimate
			fmt.Fprintf(&b, "run, about %s: %s\n", s.Estimate.Round(time.Second), s.Fit.Message)
		default:
			fmt.Fprintf(&b, "over capacity (%s): %s\n", s.Fit.Reason, s.Fit.Message)
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	fmt.Fprintf(&b, "%d of %d steps would run: about %s for the cells", runs, len(p.Steps), cells.Round(time.Second))
	if rows > 0 {
		fmt.Fprintf(&b, ", up to %s for the prefill rows, which end sooner with enough samples and never inside one", rows.Round(time.Second))
	}
	b.WriteString(", and the waits for first tokens on top; only the probe was sent, which generates nothing\n")
	_, err := io.WriteString(w, b.String())
	return err
}
