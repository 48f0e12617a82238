package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

const besideFormat = "%-13s %-19s %10s %10s %8s %9s %9s %9s %9s %9s %11s %8s %10s %16s\n"

func printPeersHeader(w io.Writer) {
	fmt.Fprintf(w, "\nother tools on the same loads: reported, and true by the emitter's log of the requests they measured; medians of the rounds\n\n")
	fmt.Fprintf(w, besideFormat, "load", "tool", "tok/s", "true", "off %", "TTFT ms", "true", "TPOT ms", "true", "off %", "CPU µs/tok", "RSS MB", "processes", "first request s")
}

const peersLegend = `
TTFT true: from the emitter's reading of a request to its first token; of 128 requests at once the emitter reads the last some ms later.
CPU: of the other tools from their first request on, with all their processes; ours from the start of the process. RSS: peak, of all processes together.
`

// oursBeside are our rounds in the form of the others'.
func oursBeside(rounds []round) []wave {
	var out []wave
	for _, r := range rounds {
		out = append(out, wave{r.total, r.ttft, r.tbt, r.perToken, r.rss, 1, r.first})
	}
	return out
}

// printPeer writes a tool's row.
func printPeer(w io.Writer, l load, tool string, waves []wave) {
	if len(waves) == 0 {
		fmt.Fprintf(w, besideFormat, l.name, tool, "failed", "", "", "", "", "", "", "", "", "", "", "")
		return
	}
	m := func(value func(*wave) float64) float64 {
		var v []float64
		for i := range waves {
			v = append(v, value(&waves[i]))
		}
		slices.Sort(v)
		return quantile(v, .5)
	}
	f := func(format string, v float64) string { return fmt.Sprintf(format, v) }
	off := func(p pair) float64 { return 100 * (p.got - p.want) / p.want }
	fmt.Fprintf(w, besideFormat, l.name, tool,
		f("%.0f", m(func(w *wave) float64 { return w.total.got })), f("%.0f", m(func(w *wave) float64 { return w.total.want })),
		f("%+.2f", m(func(w *wave) float64 { return off(w.total) })),
		f("%.1f", m(func(w *wave) float64 { return w.ttft.got })), f("%.1f", m(func(w *wave) float64 { return w.ttft.want })),
		f("%.3f", m(func(w *wave) float64 { return w.tpot.got })), f("%.3f", m(func(w *wave) float64 { return w.tpot.want })),
		f("%+.2f", m(func(w *wave) float64 { return off(w.tpot) })),
		f("%.1f", m(func(w *wave) float64 { return float64(w.perToken) / float64(time.Microsecond) })),
		f("%.0f", m(func(w *wave) float64 { return float64(w.rss) / (1 << 20) })),
		f("%.0f", m(func(w *wave) float64 { return float64(w.processes) })),
		f("%.2f", m(func(w *wave) float64 { return w.first.Seconds() })))
}
