package main

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
)

// TestSaid reads results in the form that the tools of these versions write.
func TestSaid(t *testing.T) {
	for _, tt := range []struct {
		tool, file, text string
		read             func(string) (said, error)
		want             said
	}{
		{"aiperf", "profile_export_aiperf.json",
			`{"time_to_first_token":{"unit":"ms","avg":243,"p50":242.6},"inter_token_latency":{"p50":10.54,"avg":11},"output_token_throughput":{"unit":"tokens/sec","avg":10925}}`,
			aiperfSaid, said{10925, 242.6, 10.54}},
		{"llama-benchy", "result.json",
			`{"benchmarks":[{"e2e_ttft":{"mean":251,"values":[260,250,240]},"tg_req_throughput":{"values":[50,100,200]},"tg_throughput":{"mean":12592}}]}`,
			benchySaid, said{12592, 250, 10}},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			dir := t.TempDir()
			if got, err := tt.read(dir); err == nil {
				t.Errorf("without a result: %+v, want an error", got)
			}
			path := filepath.Join(dir, tt.file)
			for text, want := range map[string]*said{tt.text: &tt.want, "{}": nil, "{": nil} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				got, err := tt.read(dir)
				if want == nil && err == nil {
					t.Errorf("%s: %+v, want an error: figures are missing", text, got)
				}
				if want != nil && (err != nil || got != *want) {
					t.Errorf("%+v (%v), want %+v", got, err, *want)
				}
			}
		})
	}
}

// TestWave: requests that are shorter than those measured, a tool's probes, count
// for its start and for nothing else.
func TestWave(t *testing.T) {
	began := time.Unix(0, 0)
	g := group{began: began, rss: 7, processes: 2, samples: []use{
		{began.Add(time.Second), time.Second}, {began.Add(2 * time.Second), 3 * time.Second}, {began.Add(3 * time.Second), 4 * time.Second},
	}}
	log := map[string]yard.Emitted{
		"probe": {Read: 1500e6, PerChunk: 2, Emits: ms(1600)},
		"a":     {Read: 2000e6, PerChunk: 2, Emits: ms(2200, 2220, 2240)},
		"b":     {Read: 2010e6, PerChunk: 2, Emits: ms(2200, 2240, 2250)},
	}
	w, err := waveOf(said{total: 50, ttft: 300, tpot: 20}, log, 6, g)
	if err != nil {
		t.Fatal(err)
	}
	if w.total.got != 50 || math.Abs(w.total.want-12/.25) > 1e-9 {
		t.Errorf("total %+v, want 50 where 12 tokens came from 2.00 to 2.25 s", w.total)
	}
	if w.ttft != (pair{300, 190}) || w.tpot != (pair{20, 10}) {
		t.Errorf("TTFT %+v, TPOT %+v; want 190 and 10 by the log", w.ttft, w.tpot)
	}
	if w.first != 1500*time.Millisecond || w.perToken != 3*time.Second/12 || w.rss != 7 || w.processes != 2 {
		t.Errorf("%+v, want 1.5 s to the first request, and the 3 s since then over 12 tokens", w)
	}
	if w, err := waveOf(said{}, log, 8, g); err == nil {
		t.Errorf("%+v of streams that are all too short, want an error", w)
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c) S 1 40 39 0 -1 4194560 1 2 3 4 250 50 6 7 20 0 9 0 100 5000 300 18446744073709551615 1"
	got, err := parseStat(line)
	if err != nil {
		t.Fatal(err)
	}
	if want := (process{42, 39, 3 * time.Second, 300 * os.Getpagesize()}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "42 name S", "42 (a) S 1 2", strings.Replace(line, "250", "x", 1)} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: %+v, want an error", bad, got)
		}
	}
}

// TestSpend: the peak is the program's own, not that of the process that started
// it, which holds more here.
func TestSpend(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = 1
	}
	c, out, err := spend(exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo done"))
	if err != nil || string(out) != "done\n" {
		t.Fatalf("%q, %v", out, err)
	}
	if c.rss == 0 || c.rss > 32<<20 || c.cpu < 50*time.Millisecond {
		t.Errorf("%d bytes and %v, want some MB and what a shell takes to count", c.rss, c.cpu)
	}
	runtime.KeepAlive(held)
}

// TestWatchGroup: what a program's children use is the program's.
func TestWatchGroup(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	// The child counts for some tenths of a second; its parent only waits.
	g, err := watchGroup(exec.CommandContext(context.Background(), sh, "-c", "sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'; true"))
	if err != nil {
		t.Fatal(err)
	}
	if cpu := g.since(time.Time{}); cpu < 50*time.Millisecond || g.rss == 0 {
		t.Errorf("%v of processor time and %d bytes, want the child's", cpu, g.rss)
	}
	if _, err := watchGroup(exec.CommandContext(context.Background(), sh, "-c", "echo no such luck; exit 3")); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("error %v, want what the program said", err)
	}
}
