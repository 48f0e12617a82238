package main

import (
	"fmt"
	"io"
	"math"
)

// The bars. Ratios are of medians, to nginx.
const (
	cpuRatio     = 1.25
	p99Ratio     = 2.0  // to the better of nginx and HAProxy
	p99Interval  = 1.25 // or the interval over the rounds reaches down to this
	ttftRatio    = 1.5
	kbStream     = 24.0 // KB without detector state
	textFactor   = 2.0  // what detection may add, in the stream's text
	observeCost  = 2.0  // µs an event
	rpsRatio     = 1.0
	bytesOfToken = 21 // of text: the emitter's "@<nanoseconds> "
)

// bar is one promise and what was measured of it.
type bar struct {
	what    string
	got     string
	verdict verdict
}

type verdict string

const (
	held     verdict = "held"
	missed   verdict = "MISSED"
	unjudged verdict = "not measured"
)

func judge(ok bool) verdict {
	if ok {
		return held
	}
	return missed
}

// bars judges what was measured. A configuration that was not run is not judged;
// one in which a proxy is missing,
// or a stream or a request failed, is missed.
func bars(rows, posts []row) []bar {
	var out []bar
	add := func(of []row, what string, f func() (string, bool)) {
		b := bar{what: what, verdict: unjudged}
		if len(of) > 0 {
			got, ok := f()
			// Also a peer's error: what is left of its streams is no measure.
			if n := failures(of); n > 0 {
				got, ok = fmt.Sprintf("%s; %d errors in these rounds", got, n), false
			}
			b.got, b.verdict = got, judge(ok)
		}
		out = append(out, b)
	}
	for _, conf := range []string{"128", "1000w"} {
		of := where(rows, func(r row) bool { return r.Conf == conf })
		add(of, fmt.Sprintf("%s streams: CPU a token ≤ %.2f × nginx (wish: 1.00)", conf, cpuRatio), func() (string, bool) {
			r := ratio(of, cpuToken)
			return fmt.Sprintf("× %.2f", r), r <= cpuRatio
		})
	}
	for _, conf := range []string{"1", "16", "128", "1000w", "5000w"} {
		of := where(rows, func(r row) bool { return r.Conf == conf })
		add(of, fmt.Sprintf("%s streams: added p99 ≤ %g × the better of nginx and HAProxy, or its interval reaches %g ×", conf, p99Ratio, p99Interval), func() (string, bool) { return judgeP99(of) })
	}
	burst := where(rows, func(r row) bool { return r.Conf == "128" })
	add(burst, fmt.Sprintf("128 streams at once: added TTFT p50 ≤ %g × nginx", ttftRatio), func() (string, bool) {
		r := ratio(burst, added(burst, ttft50))
		return fmt.Sprintf("× %.2f", r), r <= ttftRatio
	})
	for _, conf := range []string{"1000w", "5000w"} {
		of := where(rows, func(r row) bool { return r.Conf == conf })
		add(of, fmt.Sprintf("%s streams: ≤ %g KB a stream without detector state", conf, kbStream), func() (string, bool) {
			v, ok := median(of, nodetect, kb(rows))
			return fmt.Sprintf("%.1f KB", v), ok && v <= kbStream
		})
		add(of, fmt.Sprintf("%s streams: with it at most %g × the text more", conf, textFactor), func() (string, bool) {
			v, ok := median(of, ours, kb(rows))
			text, _ := median(of, ours, func(r row) float64 { return float64(r.Tokens*bytesOfToken) / 1024 / float64(max(1, r.Streams)) })
			limit := kbStream + textFactor*text
			return fmt.Sprintf("%.1f KB of %.1f", v, limit), ok && v <= limit
		})
	}
	for _, conf := range []string{"128", "1000w"} {
		of := where(rows, func(r row) bool { return r.Conf == conf })
		add(of, fmt.Sprintf("%s streams: observing ≤ %g µs of CPU an event", conf, observeCost), func() (string, bool) {
			v, ok := median(of, ours, over(of, unobserved, cpuToken))
			_, has := median(of, unobserved, cpuToken)
			return fmt.Sprintf("%.2f µs", v), ok && has && v <= observeCost
		})
	}
	wide := where(posts, func(r row) bool { return r.Conns == 32 })
	add(wide, fmt.Sprintf("short POSTs a second on 32 connections ≥ %g × nginx", rpsRatio), func() (string, bool) {
		r := ratio(wide, rps)
		return fmt.Sprintf("× %.2f", r), r >= rpsRatio
	})
	return out
}

// ratio of our median to nginx's. NaN, which holds no bar, where one is missing
// or nginx's is nothing: what is lost in the noise bounds nothing.
func ratio(of []row, column func(row) float64) float64 {
	v, ok := median(of, ours, column)
	base, has := median(of, "nginx", column)
	if !ok || !has || base <= 0 {
		return math.NaN()
	}
	return v / base
}

// judgeP99 compares the medians of the added p99, and where that fails our
// interval. Where the better peer's own is lost in the noise it counts as 0.
func judgeP99(of []row) (string, bool) {
	delay := added(of, p99)
	v, ok := median(of, ours, delay)
	best := math.Inf(1)
	for _, name := range []string{"nginx", "haproxy"} {
		m, has := median(of, name, delay)
		ok = ok && has
		best = min(best, max(m, 0))
	}
	got := fmt.Sprintf("%.0f µs beside %.0f", v, best)
	if lo, hi, several := interval(values(of, ours, delay)); several {
		got += fmt.Sprintf(", interval %.0f to %.0f", lo, hi)
		if v > p99Ratio*best && lo <= p99Interval*best {
			return got + ", which decides", ok
		}
	}
	return got, ok && v <= p99Ratio*best
}

func failures(of []row) (n int) {
	for _, r := range of {
		n += r.errs()
	}
	return n
}

func printBars(w io.Writer, all []bar) int {
	count := map[verdict]int{}
	fmt.Fprint(w, "\n| bar | measured | |\n|---|---|---|\n")
	for _, b := range all {
		fmt.Fprintf(w, "| %s | %s | %s |\n", b.what, b.got, b.verdict)
		count[b.verdict]++
	}
	fmt.Fprintf(w, "\n%d bars held, %d missed, %d not measured\n", count[held], count[missed], count[unjudged])
	return count[missed]
}
