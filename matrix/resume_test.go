package matrix

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines of run files.
const (
	headerLine = `{"type":"header","v":1,"tool":"t"}` + "\n"
	endLine    = `{"type":"end","v":1,"outcome":"interrupted"}` + "\n"
)

func recordLine(id string) string { return `{"type":"record","v":1,"id":"` + id + `"}` + "\n" }

func cellLine(c, status string) string {
	return `{"type":"cell","v":1,"phase":"decode","context":8,"concurrency":` + c + `,"status":"` + status + `"}` + "\n"
}

func tempFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.ndjson")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func TestAppendTakesTheTailOff(t *testing.T) {
	kept := headerLine + recordLine("a") + cellLine("1", "valid")
	for _, tc := range []struct {
		name, tail string
		want       Tail
		ended      bool
	}{
		{name: "killed between two cells"},
		{name: "ended with its footer, which stands once in a file", tail: endLine, ended: true},
		{name: "killed while the records of a cell were written", tail: recordLine("b") + recordLine("c"), want: Tail{Records: 2}},
		{name: "killed in the middle of a line", tail: recordLine("b") + `{"type":"rec`, want: Tail{Records: 1, Torn: true}},
		{name: "killed before the line feed, which may be the middle of a number", tail: strings.TrimSuffix(cellLine("2", "valid"), "\n"), want: Tail{Torn: true}},
		{name: "a sector of zeros after a power cut", tail: "\x00\x00\x00\x00", want: Tail{Torn: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := tempFile(t, kept+tc.tail)
			w, run, tail, err := Append(path)
			if err != nil {
				t.Fatal(err)
			}
			if tail != tc.want || len(run.Cells) != 1 || len(run.Records) != 1 || len(run.Bad) != 0 || (run.End != nil) != tc.ended {
				t.Errorf("tail %+v, run %+v; want %+v and the one cell", tail, run, tc.want)
			}
			if got := content(t, path); got != kept+tc.tail {
				t.Errorf("opening changed the file:\n%s", got)
			}
			if err := w.Write(Note{Type: "note", V: Version, Code: "resumed"}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			rest, ok := strings.CutPrefix(content(t, path), kept)
			if !ok || strings.Count(rest, "\n") != 1 || !strings.HasPrefix(rest, `{"type":"note"`) {
				t.Errorf("behind the kept lines stands %q, want the note alone", rest)
			}
		})
	}
}

func TestAppendRefusesWhatIsNoRun(t *testing.T) {
	for _, tc := range []struct{ name, in string }{
		{"empty", ""}, {"a torn header", `{"type":"hea`}, {"text", "hello\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, _, _, err := Append(tempFile(t, tc.in)); err == nil || !strings.Contains(err.Error(), "not a run file") {
				t.Errorf("error %v, want that it is no run file", err)
			}
		})
	}
}

// TestAppendRefusesARunThatGoesOn: --resume in one terminal, of the run in another.
func TestAppendRefusesARunThatGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(Header{Type: "header", V: Version}); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Append(path); !errors.Is(err, errWritten) {
		t.Errorf("error %v, want that it is being written", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	again, _, _, err := Append(path)
	if err != nil {
		t.Fatalf("once the run is over: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestReadTakesTheLastOfACell: a cell that was run again counts once, and its
// first records do not mix with those of the second.
func TestReadTakesTheLastOfACell(t *testing.T) {
	run, err := Read(strings.NewReader(headerLine +
		recordLine("a") + cellLine("1", "valid") +
		recordLine("b") + cellLine("2", "interrupted") +
		recordLine("c") + cellLine("4", "valid") +
		recordLine("d") + recordLine("e") + cellLine("2", "valid") +
		recordLine("f")))
	if err != nil {
		t.Fatal(err)
	}
	ids := ""
	for _, r := range run.Records {
		ids += r.ID
	}
	if ids != "acdef" {
		t.Errorf("records %q, want acdef: b belongs to the cell that was run again, f to one that was not finished", ids)
	}
	got := ""
	for _, c := range run.Cells {
		got += string(c.Status) + " "
		if !c.Final() {
			t.Errorf("concurrency %d is %s, want the second run of it", c.Concurrency, c.Status)
		}
	}
	if len(run.Cells) != 3 || run.Cells[1].Concurrency != 2 {
		t.Errorf("cells %s, want three, the second in its first place", got)
	}
}

func TestOnlyInterruptedAndFailedAreRunAgain(t *testing.T) {
	for status := range rank {
		if status == "" {
			continue
		}
		c := Cell{Status: status}
		if want := status != Interrupted && status != Failed; c.Final() != want {
			t.Errorf("%s: final %t, want %t", status, c.Final(), want)
		}
	}
}
