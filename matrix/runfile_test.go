package matrix

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/streamgauge/streamgauge/stream"
)

func TestRunFileRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cell := FoldDecode(input(steady(0, 10*time.Millisecond)))
	lines := []any{
		Header{Type: "header", V: Version, Tool: "streamgauge test", Start: time.Unix(1, 0).UTC(), Warnings: []Warning{}},
		stream.Record{Type: "record", V: Version, ID: "a", TTFTNS: stream.Some(int64(5)), Flags: []string{}, Loops: []stream.Loop{}},
		cell,
		Note{Type: "note", V: Version, Code: "x", Message: "y"},
		Footer{Type: "end", V: Version, Outcome: "done", End: time.Unix(2, 0).UTC(), Cells: 1, Records: 1},
	}
	for _, l := range lines {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Bad) != 0 || len(run.Records) != 1 || run.End == nil || run.End.Outcome != "done" || run.Notes[0].Code != "x" {
		t.Fatalf("read back %+v", run)
	}
	if d := cmp.Diff(cell.TotalTokS, run.Cells[0].TotalTokS); d != "" {
		t.Errorf("total changed on the way: %s", d)
	}
	if d := cmp.Diff(lines[1], run.Records[0]); d != "" {
		t.Errorf("record changed on the way: %s", d)
	}
	if _, err := Create(path); err == nil {
		t.Error("an existing run file was opened for writing")
	}
}

func TestReadKeepsGoingPastDamage(t *testing.T) {
	run, err := Read(strings.NewReader(`{"type":"header","v":1}
{"type":"cell","v":1,"context":8}
{"type":"cell","v":1,"context":9
{"type":"record","v":7}
{"type":"cell","v":1,"context":10}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Cells) != 2 || run.Cells[1].Context != 10 || run.End != nil {
		t.Errorf("cells %+v, want those of the two whole lines and no end", run.Cells)
	}
	if len(run.Bad) != 2 || run.Bad[0].Line != 3 || run.Bad[1].Line != 4 {
		t.Errorf("bad lines %+v, want 3 and 4", run.Bad)
	}
}

func TestReadRefusesWhatIsNoRun(t *testing.T) {
	for _, tc := range []struct{ name, in string }{
		{"empty", ""}, {"text", "hello\n"}, {"other version", `{"type":"header","v":2}`}, {"JSON of another kind", `{"choices":[]}`}, {"no header", `{"type":"cell","v":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Read(strings.NewReader(tc.in)); err == nil {
				t.Errorf("%q was read as a run", tc.in)
			}
		})
	}
}

func TestWriterKeepsTheFileReadableWhenTheDiskIsFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here: ", err)
	}
	w := &Writer{f: full}
	first := w.Write(Note{Type: "note"})
	if first == nil {
		t.Fatal("a write to a full disk succeeded")
	}
	if err := w.Write(Note{Type: "note"}); !errors.Is(err, first) {
		t.Errorf("the second write said %v, want the first error again", err)
	}
	if err := w.Close(); err == nil {
		t.Error("Close hid the failed write")
	}
}
