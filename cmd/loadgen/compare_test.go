package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// runFileOf writes a run file of one cell with that total and returns its path.
func runFileOf(t *testing.T, name string, total float64) string {
	t.Helper()
	return runFileOfVersion(t, name, "", total)
}

// runFileOfVersion is that of an engine of some version.
func runFileOfVersion(t *testing.T, name, version string, total float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	w, err := matrix.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []any{
		matrix.Header{Type: "header", V: 1, Engine: matrix.Engine{Kind: "vllm", Version: version, Model: "m"}, Config: matrix.Config{OnLoop: "salvage"}},
		matrix.Cell{Type: "cell", V: 1, Phase: matrix.Decode, Context: 8192, Concurrency: 4, Status: matrix.Valid, TotalTokS: stream.Some(total)},
	} {
		if err := w.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompareExitCodes(t *testing.T) {
	var a, b []string
	for i, d := range []float64{-0.2, 0, 0.2} {
		a = append(a, runFileOf(t, fmt.Sprint("a", i), 100+d))
		b = append(b, runFileOf(t, fmt.Sprint("b", i), 90+d))
	}
	long := append(append(append([]string{"compare", "--base"}, a...), "--new"), b...)
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(damaged, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		code int
		says string // on stdout or stderr
	}{
		{"as a shell expands it", long, 0, "10.0 % slower"},
		{"rule met", append(long, "--fail-on", "total_tok_s<-5%"), 3, "total_tok_s at context 8192, concurrency 4: -10.0 % ("},
		{"rule not met", append(long, "--fail-on", "total_tok_s<-15%"), 0, "10.0 % slower"},
		{"two bare files", []string{"compare", a[0], b[0]}, 0, "no interval"},
		{"rule without an interval", []string{"compare", a[0], b[0], "--fail-on", "total_tok_s<-5%"}, 3, "no interval to tell it from noise"},
		{"one file", []string{"compare", a[0]}, 2, "at least one file each"},
		{"three bare files", []string{"compare", a[0], a[1], b[0]}, 2, "at least one file each"},
		{"a file before the flags", []string{"compare", a[0], "--base", a[1], "--new", b[0]}, 2, "belongs to neither"},
		{"unknown metric", append(long, "--fail-on", "speed<-5%"), 2, `no metric "speed"`},
		{"unknown format", append(long, "--format", "pdf"), 2, "markdown"},
		{"no such file", []string{"compare", a[0], a[0] + ".gone"}, 1, ".gone"},
		{"not a run file", []string{"compare", a[0], damaged}, 1, damaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out, err := invoke(t, "", tc.args...)
			if code != tc.code || !strings.Contains(out+err, tc.says) {
				t.Errorf("exit %d, want %d and %q:\n%s%s", code, tc.code, tc.says, out, err)
			}
		})
	}
}

func TestCompareWithAPublishedMatrix(t *testing.T) {
	code, out, stderr := invoke(t, "", "compare", "--format", "json",
		"../../report/testdata/laguna-xs-vllm.json", runFileOf(t, "ours", 500))
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var c struct {
		Warnings []matrix.Warning
		Tables   []struct {
			Metric string
			Rows   []struct {
				Context, Concurrency int
				Base, New            *float64
				Verdict              string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	var verdict string
	for _, r := range c.Tables[0].Rows {
		if r.Context == 8192 && r.Concurrency == 4 {
			verdict = r.Verdict
		}
	}
	if c.Tables[0].Metric != "total_tok_s" || verdict != "gained" {
		t.Errorf("table %s says %q of the cell that looped there and is valid here, want gained", c.Tables[0].Metric, verdict)
	}
	if !strings.Contains(fmt.Sprint(c.Warnings), "on-loop: base unknown, new salvage") {
		t.Errorf("warnings do not name the rule that the published file does not state: %v", c.Warnings)
	}
}

func TestCompareFormats(t *testing.T) {
	a, b := runFileOf(t, "a", 100), runFileOf(t, "b", 90)
	for format, want := range map[string]string{"text": "Comparison\n==========", "markdown": "# Comparison", "json": `"verdict": `, "html": "<!doctype html>"} {
		file := filepath.Join(t.TempDir(), "out")
		if code, _, stderr := invoke(t, "", "compare", a, b, "--format", format, "-o", file); code != 0 {
			t.Errorf("%s: exit %d: %s", format, code, stderr)
		}
		p, err := os.ReadFile(file)
		for _, want := range []string{want, a, b} { // the sides are named by their files
			if err != nil || !strings.Contains(strings.ReplaceAll(string(p), "\\_", "_"), want) {
				t.Errorf("%s lacks %q (%v):\n%.300s", format, want, err, p)
			}
		}
	}
}
