package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
)

// row is one run of the yard's client through one proxy.
type row struct {
	Name    string  `json:"name"`
	Conf    string  `json:"conf"`
	Conns   int     `json:"conns"`
	Round   int     `json:"round"`
	Streams int     `json:"streams"`
	Tokens  int     `json:"tokens"`
	Errs    int     `json:"errs"`
	Wall    float64 `json:"wall"` // s
	// µs, of a token's way and of the first one's.
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	TTFT50 float64 `json:"ttft50"`
	// CPU µs a token or a request.
	CPUToken   float64 `json:"cpu_tok"`
	CPURequest float64 `json:"cpu_req"`
	RPS        float64 `json:"rps"`
	// Short requests that failed.
	StatusErrs int `json:"status_err"`
	Timeouts   int `json:"timeouts"`
	SocketErrs int `json:"sock_err"`
	// MB of the proxy's processes, before the run and at its peak.
	Idle float64 `json:"rss0"`
	Peak float64 `json:"rss1"`
	// Seconds of the two cores that others had: programs here, and the host.
	Other float64 `json:"other"`
	Steal float64 `json:"steal"`
}

func (r row) errs() int { return r.Errs + r.StatusErrs + r.Timeouts + r.SocketErrs }

// cores of the machines that the yard's client knows.
const cores = 2

// busy is the share of the machine, in percent, that was not the measurement's.
func (r row) busy(seconds float64) float64 {
	if r.Wall == 0 {
		return 0
	}
	return 100 * seconds / (r.Wall * cores)
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

func where(rows []row, ok func(row) bool) (out []row) {
	for _, r := range rows {
		if ok(r) {
			out = append(out, r)
		}
	}
	return out
}

// values are what of gives for the rows of name.
func values(rows []row, name string, of func(row) float64) (v []float64) {
	for _, r := range rows {
		if r.Name == name {
			v = append(v, of(r))
		}
	}
	return v
}

// median of the values that of gives for the rows of name; false without any.
func median(rows []row, name string, of func(row) float64) (float64, bool) {
	v := values(rows, name, of)
	if len(v) == 0 {
		return 0, false
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2, true
}

// over is what a proxy has beyond another, or beyond direct, in the same round.
func over(rows []row, base string, of func(row) float64) func(row) float64 {
	rounds := map[int]float64{}
	for _, r := range rows {
		if r.Name == base {
			rounds[r.Round] = of(r)
		}
	}
	return func(r row) float64 { return of(r) - rounds[r.Round] }
}

func added(rows []row, of func(row) float64) func(row) float64 { return over(rows, "direct", of) }

// kb is what a stream takes of a proxy's memory at the peak. Counted from the least
// that the proxy had before a load, in a process that had just been started: a
// runtime that keeps the memory of the run before would else seem to need none for
// this one.
func kb(all []row) func(row) float64 {
	idle := map[string]float64{}
	for _, r := range all {
		if least, ok := idle[r.Name]; !ok || r.Idle < least {
			idle[r.Name] = r.Idle
		}
	}
	return func(r row) float64 { return (r.Peak - idle[r.Name]) * 1024 / float64(max(1, r.Streams)) }
}

// interval is the 95 % interval of the mean over the rounds, by Student's t;
// false for fewer than two rounds.
func interval(v []float64) (lo, hi float64, ok bool) {
	n := float64(len(v))
	if n < 2 {
		return 0, 0, false
	}
	var sum, squares float64
	for _, x := range v {
		sum += x
	}
	mean := sum / n
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	half := student(len(v)-1) * math.Sqrt(squares/(n-1)/n)
	return mean - half, mean + half, true
}

// student is the t that leaves 2.5 % in each tail, for 1 degree of freedom and
// more; past the table, that for its last, which is wider.
func student(df int) float64 {
	t := [...]float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086}
	return t[min(df, len(t))-1]
}
