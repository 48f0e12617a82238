package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// check is one reason to believe the numbers, or to doubt them.
type check struct {
	State string // good, note, bad
	Name  string
	Text  string
}

// Beyond these a check is a note.
const (
	steadyCI       = 5    // percent of the total, half of the 95 % interval
	busyCPU        = 50   // percent of the generator's cores
	muchCoalesced  = 0.05 // share of events that share an instant with the next
	muchProxyShare = 2    // percent between the two readings of a token's time
)

// trust answers whether to believe a run, from what its file holds. What the
// file does not tell gives no check, but for the two that everything rests on:
// clock and token counts.
func trust(run *matrix.Run) []check {
	var decode []*matrix.Cell // those with a number
	for i := range run.Cells {
		if c := &run.Cells[i]; c.Phase == matrix.Decode && c.TotalTokS.OK {
			decode = append(decode, c)
		}
	}
	cs := []check{statusCheck(run.Cells), clockCheck(run.Cells), tokenCheck(decode)}
	for _, more := range []func([]*matrix.Cell) (check, bool){steadinessCheck, generatorCheck, coalescedCheck, proxyCheck} {
		if c, ok := more(decode); ok {
			cs = append(cs, c)
		}
	}
	if c, ok := streamsCheck(run.Cells); ok {
		cs = append(cs, c)
	}
	if c, ok := loopsCheck(run); ok {
		cs = append(cs, c)
	}
	for _, w := range run.Header.Warnings {
		cs = append(cs, check{"note", strings.ReplaceAll(w.Code, "_", " "), w.Message})
	}
	if n := len(run.Bad); n > 0 {
		cs = append(cs, check{"note", "file", fmt.Sprintf("%s of the run file could not be read and %s left out", plural(n, "line"), map[bool]string{true: "is", false: "are"}[n == 1])})
	}
	return append(cs, endCheck(run))
}

func statusCheck(cells []matrix.Cell) check {
	n := map[matrix.Status]int{}
	all := 0
	for i := range cells {
		if cells[i].Phase == matrix.Decode {
			n[cells[i].Status]++
			all++
		}
	}
	if all == 0 {
		return check{"note", "cells", "no decode cell was measured"}
	}
	parts := []string{fmt.Sprintf("%d of %d valid", n[matrix.Valid], all)}
	for _, s := range []matrix.Status{matrix.Looped, matrix.OverCapacity, matrix.Short, matrix.Limited, matrix.Failed, matrix.Interrupted, matrix.Skipped} {
		if n[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], strings.ToLower(statusTitle(s))))
		}
	}
	state := "good"
	switch {
	case n[matrix.Failed]+n[matrix.Limited] > 0 || n[matrix.Valid] == 0:
		state = "bad"
	case n[matrix.Looped]+n[matrix.Short]+n[matrix.Interrupted] > 0:
		state = "note"
	}
	return check{state, "cells", strings.Join(parts, ", ")}
}

func clockCheck(cells []matrix.Cell) check {
	words := stampWords(cells)
	switch {
	case strings.Contains(words, "user"):
		return check{"note", "clock", words + ": read after the socket call returned, so scheduling of this process is in the times"}
	case strings.Contains(words, "kernel"):
		return check{"good", "clock", words + ": taken when the bytes arrived, before any of our code ran"}
	}
	return check{"note", "clock", "the file does not say how the times were taken"}
}

func tokenCheck(cells []*matrix.Cell) check {
	var from []string
	weak := false
	for _, c := range cells {
		if f := string(c.TokensFrom); f != "" && !slices.Contains(from, f) {
			from = append(from, f)
			weak = weak || c.TokensFrom == stream.FromEstimate || c.TokensFrom == stream.FromUsageFinal
		}
	}
	switch {
	case len(from) == 0:
		return check{"note", "tokens", "the file does not say how tokens were counted"}
	case weak:
		return check{"note", "tokens", "counted by " + strings.Join(from, ", ") + ": in some cells only a total or the number of events is known"}
	}
	return check{"good", "tokens", "counted by " + strings.Join(from, ", ") + " of each event"}
}

func steadinessCheck(cells []*matrix.Cell) (check, bool) {
	var worst float64
	var at *matrix.Cell
	var all []float64
	for _, c := range cells {
		if !c.CI95.OK || c.TotalTokS.V <= 0 || c.Status != matrix.Valid {
			continue
		}
		share := 100 * c.CI95.V / c.TotalTokS.V
		if all = append(all, share); at == nil || share > worst {
			worst, at = share, c
		}
	}
	if at == nil {
		return check{}, false
	}
	slices.Sort(all)
	state := "good"
	if worst > steadyCI {
		state = "note"
	}
	return check{state, "steadiness", fmt.Sprintf("total tok/s is known to ±%.1f %% within its window (median cell), ±%.1f %% at worst (%s)",
		all[len(all)/2], worst, cellName(at))}, true
}

func generatorCheck(cells []*matrix.Cell) (check, bool) {
	var cpu, lag float64
	known := false
	for _, c := range cells {
		known = known || c.CPUShare.OK
		cpu, lag = max(cpu, 100*c.CPUShare.V), max(lag, c.Lag.P99.V)
	}
	if !known {
		return check{}, false
	}
	state := "good"
	if cpu > busyCPU {
		state = "note"
	}
	return check{state, "load generator", fmt.Sprintf("used up to %.0f %% of its cores; 99 of 100 reads were parsed within %s ms of their stamp", cpu, significant(lag))}, true
}

func coalescedCheck(cells []*matrix.Cell) (check, bool) {
	var worst *matrix.Cell
	for _, c := range cells {
		if c.CoalescedShare.OK && (worst == nil || c.CoalescedShare.V > worst.CoalescedShare.V) {
			worst = c
		}
	}
	if worst == nil {
		return check{}, false
	}
	state := "good"
	if worst.CoalescedShare.V > muchCoalesced {
		state = "note"
	}
	return check{state, "coalesced events", fmt.Sprintf("at most %.1f %% arrived together with the next (%s); no gap is reported between those", 100*worst.CoalescedShare.V, cellName(worst))}, true
}

func proxyCheck(cells []*matrix.Cell) (check, bool) {
	joined, missing, worst, seen := 0, 0, 0.0, false
	for _, c := range cells {
		d := c.ProxyDiff
		if d == nil {
			continue
		}
		joined, missing, seen = joined+d.Joined, missing+d.Missing, true
		if d.OwnTBT.OK && c.TBTMS.OK && c.TBTMS.V > 0 {
			worst = max(worst, 100*max(d.OwnTBT.V-c.TBTMS.V, c.TBTMS.V-d.OwnTBT.V)/c.TBTMS.V)
		}
	}
	if !seen {
		return check{}, false
	}
	state := "good"
	if missing > 0 || worst > muchProxyShare {
		state = "note"
	}
	text := fmt.Sprintf("times are the proxy's for %s; the generator's own time between tokens differs by at most %.1f %%", plural(joined, "stream"), worst)
	if missing > 0 {
		text += fmt.Sprintf("; %s had no record there and kept our own times", plural(missing, "stream"))
	}
	return check{state, "two readings", text}, true
}

func streamsCheck(cells []matrix.Cell) (check, bool) {
	streams, failed := 0, 0
	for i := range cells {
		streams, failed = streams+cells[i].Streams, failed+cells[i].FailedStreams
	}
	if streams == 0 {
		return check{}, false
	}
	if failed == 0 {
		return check{"good", "streams", fmt.Sprintf("%s, none failed", plural(streams, "stream"))}, true
	}
	return check{"note", "streams", fmt.Sprintf("%d of %s failed; their tokens are in no number", failed, plural(streams, "stream"))}, true
}

func loopsCheck(run *matrix.Run) (check, bool) {
	if imported(&run.Header.Config) {
		return check{}, false
	}
	loops, cells := 0, 0
	for i := range run.Cells {
		if run.Cells[i].Loops > 0 {
			loops, cells = loops+run.Cells[i].Loops, cells+1
		}
	}
	if loops == 0 {
		return check{"good", "loops", "no stream repeated itself"}, true
	}
	how := "counted up to the onset"
	if run.Header.Config.OnLoop == "discard" {
		how = "their cells are discarded"
	}
	return check{"note", "loops", fmt.Sprintf("%s in %s repeated themselves: %s", plural(loops, "stream"), plural(cells, "cell"), how)}, true
}

func endCheck(run *matrix.Run) check {
	switch {
	case run.End == nil:
		return check{"bad", "end", "the run was cut off: its file has no end line"}
	case run.End.Outcome == "done":
		return check{"good", "end", "the plan was carried out to its end"}
	}
	return check{"bad", "end", fmt.Sprintf("the run ended as %s: %s", run.End.Outcome, strings.TrimSuffix(run.End.Message, "."))}
}

func cellName(c *matrix.Cell) string {
	return fmt.Sprintf("%s × %d", contextLabel(c.Context), c.Concurrency)
}
