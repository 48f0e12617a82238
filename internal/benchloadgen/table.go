package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
)

// Bars of a row, on the median of its rounds.
const (
	barTotal   = .002 // of the true total, and of the true TBT
	barInstant = .2   // ms, p99
	barGap     = .5   // ms, of the true p99
	barCPU     = 1.25 // of drain's
	barStart   = 300 * time.Millisecond
)

// figure is one column of a row: its value in each round, and its bar.
type figure struct {
	values []float64
	bar    float64 // 0: none
	format string
	scale  float64
}

func (f figure) median() float64 {
	v := slices.Sorted(slices.Values(f.values))
	return quantile(v, .5)
}

// missed also when there is nothing to judge by.
func (f figure) missed() bool { return f.bar > 0 && !(f.median() <= f.bar) }

func (f figure) String() string {
	s := fmt.Sprintf(f.format+" ("+f.format+")", f.median()*f.scale, slices.Max(f.values)*f.scale)
	if f.missed() {
		s += "!"
	}
	return s
}

func of(rounds []round, value func(*round) float64, bar float64, format string, scale float64) figure {
	f := figure{bar: bar, format: format, scale: scale}
	for i := range rounds {
		v := value(&rounds[i])
		if math.IsNaN(v) {
			v = math.Inf(1)
		}
		f.values = append(f.values, v)
	}
	return f
}

var columns = []string{"total off %", "TBT off %", "gap p99 off ms", "TTFT off ms", "instants p50 ms", "p99 ms", "CPU/token of drain's", "RSS MB", "first request s"}

const rowFormat = "%-13s %11s %9s  %-16s %-16s %-16s %-16s %-16s %-16s %-20s %-14s %-14s  %s\n"

func printHeader(w io.Writer) {
	fmt.Fprintf(w, rowFormat, append(anys("load", "true tok/s", "true TBT"), append(anys(columns...), "status")...)...)
}

func anys(s ...string) []any {
	out := make([]any, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}

// print writes a load's row and returns how many bars it missed.
func print(w io.Writer, l load, rounds []round) (missed int) {
	figures := []figure{
		of(rounds, func(r *round) float64 { return r.total.share() }, barTotal, "%.3f", 100),
		of(rounds, func(r *round) float64 { return r.tbt.share() }, barTotal, "%.4f", 100),
		of(rounds, func(r *round) float64 { return r.gap.off() }, barGap, "%.3f", 1),
		of(rounds, func(r *round) float64 { return r.ttft.off() }, 0, "%.2f", 1),
		of(rounds, func(r *round) float64 { return quantile(r.instants, .5) }, 0, "%.3f", 1),
		of(rounds, func(r *round) float64 { return quantile(r.instants, .99) }, barInstant, "%.3f", 1),
		of(rounds, func(r *round) float64 { return float64(r.perToken) / float64(r.floor) }, barCPU, "%.2f", 1),
		of(rounds, func(r *round) float64 { return float64(r.rss) }, float64(l.rss), "%.1f", 1.0/(1<<20)),
		of(rounds, func(r *round) float64 { return r.first.Seconds() }, 0, "%.2f", 1),
	}
	var said []string
	for _, f := range figures {
		if f.missed() {
			missed++
		}
		said = append(said, f.String())
	}
	status := string(rounds[0].status)
	for _, r := range rounds {
		if r.status != matrix.Valid {
			status = fmt.Sprintf("%s! %s", r.status, r.message)
			missed++
		}
	}
	last := rounds[len(rounds)-1]
	row := anys(l.name, fmt.Sprintf("%.1f", last.total.want), fmt.Sprintf("%.4f", last.tbt.want))
	row = append(row, anys(said...)...)
	fmt.Fprintf(w, rowFormat, append(row, status)...)
	fmt.Fprintf(w, "%-13s %s\n", "", strings.Join(perRound(rounds), "; "))
	return missed
}

// perRound lists what was reported and what it cost, round by round.
func perRound(rounds []round) (out []string) {
	for _, r := range rounds {
		out = append(out, fmt.Sprintf("%.1f tok/s, TBT %.4f, gap p99 %.3f (%.3f), TTFT %.1f (%.1f), CPU %.1f µs a token (drain %.1f)",
			r.total.got, r.tbt.got, r.gap.got, r.gap.want, r.ttft.got, r.ttft.want, float64(r.perToken)/1e3, float64(r.floor)/1e3))
	}
	return out
}

// printStarts writes how long loadgen took to send its first byte, and to ask for
// its first completion.
func printStarts(w io.Writer, took []time.Duration, ours map[string][]round) (missed int) {
	median, mark := took[len(took)/2], ""
	if median > barStart {
		missed, mark = 1, "!"
	}
	var first []time.Duration
	for _, rounds := range ours {
		for _, r := range rounds {
			first = append(first, r.first)
		}
	}
	slices.Sort(first)
	fmt.Fprintf(w, "\nfrom the start of the process, median (worst): to the first byte sent %.0f ms (%.0f)%s; to the first completion asked for, "+
		"the server's idle gauges having been read for half a second, %.0f ms (%.0f)\n",
		median.Seconds()*1e3, took[len(took)-1].Seconds()*1e3, mark, first[len(first)/2].Seconds()*1e3, first[len(first)-1].Seconds()*1e3)
	fmt.Fprintf(w, "bars: total and TBT within %g %%, instants p99 within %g ms, gap p99 within %g ms, CPU/token %g of drain's, RSS 64 MiB at 512 streams, first byte %v; ! is a miss\n",
		barTotal*100, barInstant, barGap, barCPU, barStart)
	return missed
}
