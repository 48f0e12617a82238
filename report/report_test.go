package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

var update = flag.Bool("update", false, "write the golden files anew")

// published reads one of the published matrices in testdata.
func published(t *testing.T, name string) *matrix.Run {
	t.Helper()
	run, err := ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return &run.Run
}

// warned is a small run that has one of everything a footnote can say.
func warned() *matrix.Run {
	n := func(v float64) stream.Null[float64] { return stream.Some(v) }
	return &matrix.Run{
		Notes: []matrix.Note{{Type: "note", V: 1, AtNS: 1_250_000_000, Code: "calibrated", Message: "512 tokens in 3 probes"}},
		Header: matrix.Header{
			Tool: "streamgauge test", Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Proxy: "http://127.0.0.1:9464",
			Engine:   matrix.Engine{Kind: "vllm", Version: "0.32.0", Model: "tiny_model|x"},
			Config:   matrix.Config{URL: "http://127.0.0.1:8000", DurationS: 5, SettleS: 1, MaxTokens: 512, OnLoop: "salvage", Prefix: "shared", KVRule: "distinct", ForceLength: true},
			Warnings: []matrix.Warning{{Code: "foreign_load", Message: "2 requests were running before the run"}},
		},
		Cells: []matrix.Cell{
			{Phase: matrix.Prefill, Context: 512, Concurrency: 1, Status: matrix.Valid, TotalTokS: n(4096.5), TTFTMS: n(125), Completed: stream.Some(3), PromptTokens: stream.Some(512), Stamps: "kernel"},
			{Phase: matrix.Decode, Context: 512, Concurrency: 1, Status: matrix.Valid, TotalTokS: n(99.96), RequestTokS: n(100), TTFTMS: n(12.3456), TBTMS: n(10), AvgActive: n(1), Completed: stream.Some(0), OutputTokens: n(499.5), MeasuredS: n(5), Stamps: "kernel",
				Warnings: []matrix.Warning{{Code: "salvaged", Message: "1 of 3 streams looped; 80 % of the stream-time is clean"}}},
			{Phase: matrix.Decode, Context: 512, Concurrency: 4, Status: matrix.Looped, Reason: "loop", Message: "4 of 4 streams looped; 20 % of the stream-time is clean: less than half, so the numbers are provisional", TotalTokS: n(400), Stamps: "user"},
			{Phase: matrix.Decode, Context: 2048, Concurrency: 1, Status: matrix.OverCapacity, Reason: "kv_capacity", Message: "1·(2048 + 512) = 2560 tokens is over the KV capacity of 2000"},
			{Phase: matrix.Decode, Context: 2048, Concurrency: 4, Status: matrix.Failed, Reason: "drain", Message: "the server still ran 1 request after 60 s"},
		},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs from its golden file (-want +got):\n%s", name, d)
	}
}

func render(t *testing.T, format string, runs ...*matrix.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, format, runs...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withoutAssets leaves the embedded scripts and styles out of a page: they are
// files of their own.
func withoutAssets(p []byte) []byte {
	a := pageAssets()
	s := string(p)
	for _, asset := range []string{string(a.CSS), string(a.UPlotCSS), string(a.JS), string(a.UPlotJS), string(a.UPlotTerms)} {
		s = strings.Replace(s, asset, "…", 1)
	}
	return []byte(s)
}

func TestGolden(t *testing.T) {
	for _, format := range Formats() {
		golden(t, "warned."+Extension(format), withoutAssets(render(t, format, warned())))
		golden(t, "laguna."+Extension(format), withoutAssets(render(t, format, published(t, "laguna-xs-vllm"))))
	}
	golden(t, "two.csv", render(t, "csv", warned(), published(t, "gemma-4-e2b-sglang")))
	golden(t, "sglang.txt", render(t, "text", published(t, "gemma-4-e2b-sglang")))
}

func TestTextFitsAHundredColumns(t *testing.T) {
	wide := warned()
	for c := 1; c <= 64; c++ {
		wide.Cells = append(wide.Cells, matrix.Cell{Phase: matrix.Decode, Context: 8192, Concurrency: c, Status: matrix.Skipped, Message: fmt.Sprint("because ", c)})
	}
	named := warned()
	named.Header.Notes = map[string]string{strings.Repeat("long name ", 12): strings.Repeat("x", 300)} // its label once left no room, for ever
	for _, run := range []*matrix.Run{wide, named, published(t, "laguna-xs-vllm"), published(t, "gemma-4-12b-vllm"), published(t, "gemma-4-e2b-sglang")} {
		for line := range strings.Lines(string(render(t, "text", run))) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > textWidth {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func TestNoCellWithoutNumberPrintsZero(t *testing.T) {
	run := published(t, "gemma-4-12b-vllm")
	g := index(run.Cells)
	for at, c := range g.at {
		if c.TotalTokS.OK {
			continue
		}
		got := matrixEntry(c, func(c *matrix.Cell) stream.Null[float64] { return c.TotalTokS }, false, nil)
		if got != statusWord(c.Status) {
			t.Errorf("cell %v prints %q, want its status", at, got)
		}
	}
}

func TestShapes(t *testing.T) {
	empty := &matrix.Run{Header: matrix.Header{Start: time.Unix(0, 0)}}
	cut := warned()
	cut.End = &matrix.Footer{Outcome: "interrupted", Message: "Ctrl-C."}
	for _, tc := range []struct {
		name string
		run  *matrix.Run
		want string
	}{
		{"no cell at all", empty, "This run was cut off"},
		{"interrupted", cut, "This run ended as interrupted: Ctrl-C."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, format := range []string{"text", "markdown"} {
				if got := string(render(t, format, tc.run)); !strings.Contains(got, tc.want) {
					t.Errorf("%s lacks %q:\n%s", format, tc.want, got)
				}
			}
			var doc struct {
				Header matrix.Header
				Cells  []matrix.Cell
			}
			if err := json.Unmarshal(render(t, "json", tc.run), &doc); err != nil || doc.Cells == nil {
				t.Errorf("JSON form: %v, cells %v", err, doc.Cells)
			}
		})
	}
}

func TestCSVIsRectangularAndExact(t *testing.T) {
	rows, err := csv.NewReader(bytes.NewReader(render(t, "csv", warned()))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(rows), 1+len(warned().Cells); got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
	col := map[string]int{}
	for i, name := range rows[0] {
		col[name] = i
	}
	if got := rows[2][col["ttft_ms"]]; got != "12.3456" {
		t.Errorf("ttft_ms %q, want every digit", got)
	}
	if got := rows[4][col["total_tok_s"]]; got != "" {
		t.Errorf("an undefined number is %q, want empty", got)
	}
}

func TestUnknownFormatListsTheKnown(t *testing.T) {
	err := Write(&bytes.Buffer{}, "pdf", warned())
	if err == nil || !strings.Contains(err.Error(), "markdown") {
		t.Errorf("error %v, want one that lists the formats", err)
	}
}

func TestMarkdownEscapesWhatOthersWrote(t *testing.T) {
	got := string(render(t, "markdown", warned()))
	if !strings.Contains(got, `# tiny\_model\|x on vllm 0.32.0`) {
		t.Errorf("title is not escaped:\n%.200s", got)
	}
}

// TestNoEscapeSequenceReachesTheTerminal: a run file may come from anybody.
func TestNoEscapeSequenceReachesTheTerminal(t *testing.T) {
	run := warned()
	run.Header.Engine.Model = "m\x1b]0;owned\x07\r"
	run.Cells[2].Message = "\x1b[2Jgone"
	for _, format := range []string{"text", "markdown"} {
		if got := string(render(t, format, run)); strings.ContainsAny(got, "\x1b\x07\r") {
			t.Errorf("%s keeps control characters: %q", format, got)
		}
	}
}
