package matrix

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/streamgauge/streamgauge/stream"
)

// Same reports whether two cells are measurements of the same thing: of one
// phase, context, concurrency and repeat, and of one paced load.
func (c *Cell) Same(d *Cell) bool {
	return c.Phase == d.Phase && c.Context == d.Context && c.Concurrency == d.Concurrency && c.Repeat == d.Repeat &&
		c.Offered.same(d.Offered)
}

// Final reports whether the cell needs no second measurement: it was neither cut
// off nor failed.
func (c *Cell) Final() bool { return c.Status != Interrupted && c.Status != Failed }

// Place puts a cell where the same one stands, else at the end.
func Place(cells []Cell, c Cell) []Cell {
	if i := slices.IndexFunc(cells, func(d Cell) bool { return d.Same(&c) }); i >= 0 {
		cells[i] = c
		return cells
	}
	return append(cells, c)
}

// settle drops the cells that were run again, with their records.
func (run *Run) settle() {
	again := func(i int) bool {
		return slices.ContainsFunc(run.Cells[i+1:], func(d Cell) bool { return d.Same(&run.Cells[i]) })
	}
	var cells []Cell
	var records []stream.Record
	begin := 0
	for i, end := range run.ends {
		if !again(i) {
			records = append(records, run.Records[begin:end]...)
		}
		cells = Place(cells, run.Cells[i])
		begin = end
	}
	run.Records = append(records, run.Records[begin:]...)
	run.Cells = cells
}

// Tail is what Append found behind the last whole cell of a run file.
type Tail struct {
	Records int  // of a cell that was never finished
	Torn    bool // a line was cut off
}

// Append opens a run file to go on with it and returns what it holds. The tail
// of the file (the footer, the records of a cell that was never finished, a torn
// line) is not part of the run and is taken off by the first Write; until then
// the file stays as it is. Run.End is the footer that was found.
func Append(path string) (*Writer, *Run, Tail, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, Tail{}, err
	}
	w, run, tail, err := appendTo(f)
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, Tail{}, fmt.Errorf("%s: %w", path, err)
	}
	return w, run, tail, nil
}

// errWritten keeps two writers from tearing each other's lines.
var errWritten = errors.New("a run is being written to it just now")

func appendTo(f *os.File) (*Writer, *Run, Tail, error) {
	if err := lock(f); err != nil {
		return nil, nil, Tail{}, err
	}
	p, err := io.ReadAll(f)
	if err != nil {
		return nil, nil, Tail{}, err
	}
	good, tail := body(p)
	whole, err := Read(bytes.NewReader(p))
	if err != nil {
		return nil, nil, Tail{}, err
	}
	run, err := Read(bytes.NewReader(p[:good]))
	if err != nil {
		return nil, nil, Tail{}, err
	}
	run.End = whole.End
	if _, err := f.Seek(int64(good), io.SeekStart); err != nil {
		return nil, nil, Tail{}, err
	}
	return &Writer{f: f, good: int64(good), tail: good < len(p)}, run, tail, nil
}

// body returns the length of a run file up to its last line that is neither a
// record nor the footer, and what stands behind it.
func body(p []byte) (good int, tail Tail) {
	for at := 0; at < len(p); {
		line, _, whole := bytes.Cut(p[at:], []byte{'\n'})
		at += len(line) + 1
		var head struct {
			Type string `json:"type"`
		}
		if !whole || json.Unmarshal(line, &head) != nil {
			tail.Torn = true
			continue
		}
		switch head.Type {
		case "record":
			tail.Records++
		case "end":
		default:
			good, tail = at, Tail{}
		}
	}
	return good, tail
}
