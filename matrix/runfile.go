package matrix

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/streamgauge/streamgauge/stream"
)

// Version of the run file; every line carries it as "v".
const Version = 1

// Writer appends the lines of a run to its file. It is for one goroutine.
type Writer struct {
	f    *os.File
	good int64 // length of the file up to the last whole line
	tail bool  // behind good stands what the first Write takes off, see Append
	err  error
}

// Create makes a new run file; an existing one is an error, never overwritten.
func Create(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return &Writer{f: f}, nil
}

// Write appends one line. A line that does not fit (full disk) is taken back, so
// that the file stays readable up to the line before; the error is returned by
// this and every later call.
func (w *Writer) Write(line any) error {
	if w.err != nil {
		return w.err
	}
	p, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("run file line: %w", err)
	}
	p = append(p, '\n')
	if w.tail {
		if w.err = w.f.Truncate(w.good); w.err != nil {
			return w.err
		}
		w.tail = false
	}
	if _, err := w.f.Write(p); err != nil {
		w.err = err
		if terr := w.f.Truncate(w.good); terr != nil {
			w.err = errors.Join(err, terr)
		}
		return w.err
	}
	w.good += int64(len(p))
	return nil
}

// Close flushes the file to the disk and closes it.
func (w *Writer) Close() error {
	return errors.Join(w.err, w.f.Sync(), w.f.Close())
}

// Run is a whole run file. Of a cell that was run again, in a resumed run, only
// the last stands here, with its records, in the place of the first.
type Run struct {
	Header  Header
	Records []stream.Record
	Cells   []Cell
	Notes   []Note
	End     *Footer   // nil: the run was cut off
	Bad     []BadLine // lines that could not be read; reading goes on

	ends []int // ends[i]: number of records read when Cells[i] came; they are its own back to ends[i-1]
}

// BadLine is a line of a run file that is not one of ours.
type BadLine struct {
	Line int // 1 first
	Err  error
}

// Read reads a run file. A damaged or foreign line is kept in Bad; a file with
// no header, or with one of another version, is an error.
func Read(r io.Reader) (*Run, error) {
	run := &Run{}
	br := bufio.NewReaderSize(r, 1<<20)
	seen := false
	for n := 1; ; n++ {
		p, err := br.ReadBytes('\n')
		if p = bytes.TrimSpace(p); len(p) > 0 {
			if lerr := run.line(p, &seen); lerr != nil {
				run.Bad = append(run.Bad, BadLine{Line: n, Err: lerr})
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if !seen {
		if len(run.Bad) > 0 {
			return nil, fmt.Errorf("not a run file: line %d: %w", run.Bad[0].Line, run.Bad[0].Err)
		}
		return nil, errors.New("not a run file: it is empty")
	}
	run.settle()
	return run, nil
}

func (run *Run) line(p []byte, header *bool) error {
	var head struct {
		Type string `json:"type"`
		V    int    `json:"v"`
	}
	if err := json.Unmarshal(p, &head); err != nil {
		return err
	}
	if head.Type == "" {
		return errors.New("it is no line of a run file: it has no type")
	}
	if head.V != Version {
		return fmt.Errorf("line of type %q has version %d, this program reads %d", head.Type, head.V, Version)
	}
	switch head.Type {
	case "header":
		*header = true
		return json.Unmarshal(p, &run.Header)
	case "record":
		return appendLine(p, &run.Records)
	case "cell":
		if err := appendLine(p, &run.Cells); err != nil {
			return err
		}
		run.ends = append(run.ends, len(run.Records))
		return nil
	case "note":
		return appendLine(p, &run.Notes)
	case "end":
		run.End = new(Footer)
		return json.Unmarshal(p, run.End)
	}
	return fmt.Errorf("unknown line type %q", head.Type)
}

func appendLine[T any](p []byte, to *[]T) error {
	var v T
	if err := json.Unmarshal(p, &v); err != nil {
		return err
	}
	*to = append(*to, v)
	return nil
}

// ReadFile reads the run file at path.
func ReadFile(path string) (*Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	run, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return run, nil
}
