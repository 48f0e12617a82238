package board

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// StepName names a step for people.
func StepName(s loadgen.Step) string {
	if s.Phase == matrix.Prefill {
		return fmt.Sprintf("prefill %d", s.Context)
	}
	return fmt.Sprintf("context %d, %s", s.Context, s.Level())
}

// Summary is a finished step in one line.
func Summary(e loadgen.Event) string {
	c := e.Cell
	var b strings.Builder
	fmt.Fprintf(&b, "[%d/%d] %s: %s", e.N, e.Of, StepName(e.Step), c.Status)
	if c.TotalTokS.OK {
		fmt.Fprintf(&b, ", %.1f tok/s", c.TotalTokS.V)
	}
	if c.TTFTMS.OK {
		fmt.Fprintf(&b, ", TTFT %.1f ms", c.TTFTMS.V)
	}
	if c.TBTMS.OK {
		fmt.Fprintf(&b, ", TBT %.2f ms", c.TBTMS.V)
	}
	if c.Message != "" {
		b.WriteString(": " + c.Message)
	}
	for _, w := range c.Warnings {
		b.WriteString("; " + w.Message)
	}
	return b.String()
}

// statusWord stands in the matrix where a number would: seven letters at most.
func statusWord(s matrix.Status) string {
	switch s {
	case matrix.OverCapacity:
		return "no room"
	case matrix.Interrupted:
		return "stopped"
	}
	return string(s)
}

// contextName is a context as short as its flag takes it.
func contextName(tokens int) string {
	if tokens > 0 && tokens%1024 == 0 {
		return strconv.Itoa(tokens/1024) + "k"
	}
	return strconv.Itoa(tokens)
}

// rateWord is a rate in seven digits at most.
func rateWord(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
