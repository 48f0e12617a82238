package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// row is one run of the yard's client through one proxy.
type row struct {
	Name  string `json:"name"`
	Conf  string `json:"conf"`
	Conns int    `json:"conns"`
	Round int    `json:"round"`
	Errs  int    `json:"errs"`
	// µs, of a token's way and of the first one's.
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	TTFT50 float64 `json:"ttft50"`
	// CPU µs a token or a request; KB a stream.
	CPUToken   float64 `json:"cpu_tok"`
	CPURequest float64 `json:"cpu_req"`
	KBStream   float64 `json:"rss_stream_kb"`
	RPS        float64 `json:"rps"`
}

func readRows(path string) ([]row, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []row
	in := bufio.NewScanner(f)
	for in.Scan() {
		var r row
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, r)
	}
	return rows, in.Err()
}

// median of the values that of gives for the rows of name; false without any.
func median(rows []row, name string, of func(row) float64) (float64, bool) {
	var v []float64
	for _, r := range rows {
		if r.Name == name {
			v = append(v, of(r))
		}
	}
	if len(v) == 0 {
		return 0, false
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2, true
}

// added is what a proxy adds to direct in the same round.
func added(rows []row, of func(row) float64) func(row) float64 {
	base := map[int]float64{}
	for _, r := range rows {
		if r.Name == "direct" {
			base[r.Round] = of(r)
		}
	}
	return func(r row) float64 { return of(r) - base[r.Round] }
}

func where(rows []row, ok func(row) bool) (out []row) {
	for _, r := range rows {
		if ok(r) {
			out = append(out, r)
		}
	}
	return out
}

// report prints medians over the rounds; × is the ratio to nginx.
func report(w io.Writer, streams, short string) error {
	rows, err := readRows(streams)
	if err != nil {
		return err
	}
	posts, err := readRows(short)
	if err != nil {
		return err
	}
	names := []string{"ours"}
	for _, p := range peers {
		names = append(names, p.name)
	}
	var confs []string
	for _, r := range rows {
		if !slices.Contains(confs, r.Conf) {
			confs = append(confs, r.Conf)
		}
	}
	for _, conf := range confs {
		of := where(rows, func(r row) bool { return r.Conf == conf })
		direct, _ := median(of, "direct", func(r row) float64 { return r.P99 })
		fmt.Fprintf(w, "\n%s streams, %d rounds; direct p99 %.0f µs; medians, × is the ratio to nginx\n", conf, rounds(of), direct)
		fmt.Fprintf(w, "| proxy | added p50 µs | added p99 µs | added TTFT p50 µs | CPU µs/token | KB/stream | errors |\n|---|---|---|---|---|---|---|\n")
		for _, name := range names {
			fmt.Fprintf(w, "| %s |", name)
			for _, column := range []func(row) float64{
				added(of, func(r row) float64 { return r.P50 }), added(of, func(r row) float64 { return r.P99 }), added(of, func(r row) float64 { return r.TTFT50 }),
				func(r row) float64 { return r.CPUToken }, func(r row) float64 { return r.KBStream },
			} {
				cell(w, of, name, column)
			}
			errs := 0
			for _, r := range of {
				if r.Name == name {
					errs += r.Errs
				}
			}
			fmt.Fprintf(w, " %d |\n", errs)
		}
	}
	for _, conns := range []int{1, 32} {
		of := where(posts, func(r row) bool { return r.Conns == conns })
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(w, "\nshort POSTs on %d connections, %d rounds; medians, × is the ratio to nginx\n| proxy | a second | added p99 µs | CPU µs/request |\n|---|---|---|---|\n", conns, rounds(of))
		for _, name := range names {
			fmt.Fprintf(w, "| %s |", name)
			cell(w, of, name, func(r row) float64 { return r.RPS })
			cell(w, of, name, added(of, func(r row) float64 { return r.P99 }))
			cell(w, of, name, func(r row) float64 { return r.CPURequest })
			fmt.Fprintln(w)
		}
	}
	return nil
}

func rounds(rows []row) int {
	n := 0
	for _, r := range rows {
		if r.Name == "ours" {
			n++
		}
	}
	return n
}

func cell(w io.Writer, rows []row, name string, of func(row) float64) {
	v, ok := median(rows, name, of)
	base, has := median(rows, "nginx", of)
	switch {
	case !ok:
		fmt.Fprint(w, " – |")
	case has && base > 0 && name != "nginx":
		fmt.Fprintf(w, " %.1f (×%.2f) |", v, v/base)
	default:
		fmt.Fprintf(w, " %.1f |", v)
	}
}
