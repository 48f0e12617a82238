package main

import (
	"fmt"
	"io"
	"slices"
)

// The columns of a row.
func p50(r row) float64        { return r.P50 }
func p99(r row) float64        { return r.P99 }
func ttft50(r row) float64     { return r.TTFT50 }
func cpuToken(r row) float64   { return r.CPUToken }
func cpuRequest(r row) float64 { return r.CPURequest }
func rps(r row) float64        { return r.RPS }

// report prints medians over the rounds, × being the ratio to nginx, and the
// bars; it returns how many of these are missed.
func report(w io.Writer, streams, short string) (missed int, err error) {
	rows, err := readRows(streams)
	if err != nil {
		return 0, err
	}
	posts, err := readRows(short)
	if err != nil {
		return 0, err
	}
	var confs []string
	for _, r := range rows {
		if !slices.Contains(confs, r.Conf) {
			confs = append(confs, r.Conf)
		}
	}
	for _, conf := range confs {
		printStreams(w, rows, conf)
	}
	for _, conns := range []int{1, 32} {
		printPosts(w, where(posts, func(r row) bool { return r.Conns == conns }), conns)
	}
	printAnchors(w, rows, posts)
	printNoise(w, rows)
	return printBars(w, bars(rows, posts)), nil
}

// proxies are all that were measured, ours first.
func proxies() (names []string) {
	for _, o := range own {
		names = append(names, o.name)
	}
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

func printStreams(w io.Writer, all []row, conf string) {
	of := where(all, func(r row) bool { return r.Conf == conf })
	direct, _ := median(of, "direct", p99)
	fmt.Fprintf(w, "\n%s streams, %d rounds; direct p99 %.0f µs; medians, [95 %% interval of the mean over the rounds], × is the ratio to nginx\n", conf, rounds(of), direct)
	fmt.Fprintf(w, "| proxy | added p50 µs | added p99 µs | added TTFT p50 µs | CPU µs/token | KB/stream | errors | of the machine: other, steal |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range proxies() {
		if len(values(of, name, p50)) == 0 {
			continue
		}
		tail := cell(of, name, added(of, p99))
		if lo, hi, ok := interval(values(of, name, added(of, p99))); ok {
			tail += fmt.Sprintf("[%.0f, %.0f] ", lo, hi)
		}
		fmt.Fprintf(w, "| %s |%s|%s|%s|%s|%s|", name, cell(of, name, added(of, p50)), tail,
			cell(of, name, added(of, ttft50)), cell(of, name, cpuToken), cell(of, name, kb(all)))
		other, _ := median(of, name, func(r row) float64 { return r.busy(r.Other) })
		steal, _ := median(of, name, func(r row) float64 { return r.busy(r.Steal) })
		fmt.Fprintf(w, " %d | %.1f %%, %.1f %% |\n", errs(of, name), other, steal)
	}
}

func printPosts(w io.Writer, of []row, conns int) {
	if len(of) == 0 {
		return
	}
	fmt.Fprintf(w, "\nshort POSTs on %d connections, %d rounds; medians, × is the ratio to nginx\n| proxy | a second | added p99 µs | CPU µs/request | errors |\n|---|---|---|---|---|\n", conns, rounds(of))
	for _, name := range proxies() {
		if len(values(of, name, rps)) > 0 {
			fmt.Fprintf(w, "| %s |%s|%s|%s| %d |\n", name, cell(of, name, rps), cell(of, name, added(of, p99)), cell(of, name, cpuRequest), errs(of, name))
		}
	}
}

// printAnchors prints the columns in which proxies are usually compared, in one
// table: added delay in ms.
func printAnchors(w io.Writer, rows, posts []row) {
	fmt.Fprint(w, "\nadded one-way delay per token over direct in ms, cost; medians (×: ratio to nginx)\n",
		"| proxy | 1 stream p50 | 128 p50 / p99 | 1,000 p50 / p99 | CPU µs/token at 128 / 1,000 | KB a stream at 1,000 / 5,000 | short POST: a second on 32, CPU µs |\n|---|---|---|---|---|---|---|\n")
	conf := func(name string) []row { return where(rows, func(r row) bool { return r.Conf == name }) }
	one, step, spread, large := conf("1"), conf("128"), conf("1000w"), conf("5000w")
	wide := where(posts, func(r row) bool { return r.Conns == 32 })
	ms := func(of []row, column func(row) float64) func(row) float64 {
		add := added(of, column)
		return func(r row) float64 { return add(r) / 1000 }
	}
	for _, name := range proxies() {
		fmt.Fprintf(w, "| %s |%s|%s/%s|%s/%s|%s/%s|%s/%s|%s,%s|\n", name,
			exact(one, name, ms(one, p50)),
			exact(step, name, ms(step, p50)), exact(step, name, ms(step, p99)),
			exact(spread, name, ms(spread, p50)), exact(spread, name, ms(spread, p99)),
			cell(step, name, cpuToken), cell(spread, name, cpuToken),
			cell(spread, name, kb(rows)), cell(large, name, kb(rows)),
			cell(wide, name, rps), cell(wide, name, cpuRequest))
	}
}

// noisy is the share of the machine, in percent, from which on what others had of
// it is said. They cannot run in the place of what is measured under SCHED_RR,
// but they empty its caches.
const noisy = 10

// printNoise says what share of the machine the measurement did not have.
func printNoise(w io.Writer, rows []row) {
	var most row
	for _, r := range rows {
		if r.busy(r.Other+r.Steal) > most.busy(most.Other+most.Steal) {
			most = r
		}
	}
	if share := most.busy(most.Other + most.Steal); share > noisy {
		fmt.Fprintf(w, "\nNOT A QUIET MACHINE: up to %.0f %% of it was not the measurement's (%s, %s streams, round %d)\n", share, most.Name, most.Conf, most.Round)
	}
}

func rounds(rows []row) int {
	n := 0
	for _, r := range rows {
		if r.Name == ours {
			n++
		}
	}
	return n
}

func errs(rows []row, name string) (n int) {
	for _, r := range rows {
		if r.Name == name {
			n += r.errs()
		}
	}
	return n
}

func cell(rows []row, name string, of func(row) float64) string {
	return format(rows, name, of, "%.1f")
}

func exact(rows []row, name string, of func(row) float64) string {
	return format(rows, name, of, "%.3f")
}

func format(rows []row, name string, of func(row) float64, digits string) string {
	v, ok := median(rows, name, of)
	base, has := median(rows, "nginx", of)
	switch {
	case !ok:
		return " – "
	case has && base > 0 && name != "nginx":
		return fmt.Sprintf(" "+digits+" (×%.2f) ", v, v/base)
	}
	return fmt.Sprintf(" "+digits+" ", v)
}
