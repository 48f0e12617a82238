package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/streamgauge/streamgauge/matrix"
)

// TestReadFileIsReadAndFromRun holds the sieve to what matrix.Read and FromRun
// give of the same file: the same cells, notes, bad lines by number, and streams.
func TestReadFileIsReadAndFromRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	writeRun(t, path, big(2, 400))
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(p), "\n")
	damaged := append([]string{lines[0], "\n", lines[1], `{"type":"record","v":1,"slot":"x"}` + "\n", "nonsense\n", `{"type":"record","v":2}` + "\n",
		`{"type":"record","v":1,"id":"` + strings.Repeat("long", 50_000) + `","phase":"window","context":4096,"concurrency":1,"sent_ns":5,"window":null}` + "\n",
		`{"v":1,"type":"record","phase":"window","context":4096,"concurrency":1,"sent_ns":6}` + "\n"}, lines[2:]...)
	text := strings.TrimSuffix(strings.Join(damaged, ""), "\n") // the last line without its end
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	whole, err := matrix.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := FromRun(whole)
	if len(got.Bad) != 3 || len(whole.Bad) != 3 {
		t.Fatalf("%d and %d bad lines, want 3", len(got.Bad), len(whole.Bad))
	}
	for i := range got.Bad {
		if got.Bad[i].Line != whole.Bad[i].Line {
			t.Errorf("bad line %d, want %d", got.Bad[i].Line, whole.Bad[i].Line)
		}
	}
	if len(got.Records) != 0 || len(got.Cells) != len(whole.Cells) || got.End == nil {
		t.Errorf("%d records, %d cells, end %v; want none, %d, one", len(got.Records), len(got.Cells), got.End, len(whole.Cells))
	}
	count := func(s *Source) map[span]int {
		n := map[span]int{}
		for _, sp := range s.spans {
			n[sp]++
		}
		return n
	}
	if d := cmp.Diff(count(want), count(got), cmp.AllowUnexported(span{})); d != "" {
		t.Errorf("streams differ (-whole +sieved):\n%s", d)
	}
}

func TestReadFileKnowsItsKinds(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	report := string(render(t, "json", warned()))
	for _, tc := range []struct {
		name, text string
		cells      int
		says       string // of the error, which names the file too
	}{
		{"JSON report", report, 5, ""},
		{"published, rows first", `{"rows":[{"phase":"decode","context":8,"concurrency":1,"status":"valid","total_tok_s":1}],"model":"m","new_key":7}`, 1, ""},
		{"published, a row of neither kind", `{"model":"m","rows":[{"phase":"warm"}]}`, 0, `phase "warm" is neither`},
		{"published, rows no list", `{"rows":7}`, 0, "rows"},
		{"empty", "", 0, "it is empty"},
		{"text", "hello", 0, "not a run file"},
		{"cut JSON", `{"model":"m","rows":[`, 0, "unexpected"},
		{"another object", `{"model":"m"}`, 0, "not a run file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := file(strings.ReplaceAll(tc.name, " ", "-"), tc.text)
			run, err := ReadFile(path)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), path) {
					t.Errorf("error %v, want %q and the file", err, tc.says)
				}
				return
			}
			if err != nil || len(run.Cells) != tc.cells {
				t.Errorf("%v, %d cells, want %d", err, len(run.Cells), tc.cells)
			}
		})
	}
}
