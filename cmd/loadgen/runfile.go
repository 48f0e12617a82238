package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/streamgauge/streamgauge/cmd/internal/board"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/report"
)

// runFileName is the name of the run file in the folder of --out.
const runFileName = "run.ndjson"

// runFile is where a run is written, with its reports beside it.
type runFile struct {
	path   string
	writer *matrix.Writer // nil once closed
	old    *matrix.Run    // what the file had; nil: it is new
}

// create begins a run file in a folder that has none; orElse is what else than
// another folder may be given where there is one.
func create(dir, orElse string) (*runFile, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, program.Usage(fmt.Errorf("--out: %w", err))
	}
	path := filepath.Join(dir, runFileName)
	w, err := matrix.Create(path)
	if errors.Is(err, fs.ErrExist) {
		return nil, program.Usage(fmt.Errorf("--out: %s holds a run already: give another folder%s", dir, orElse))
	}
	if err != nil {
		return nil, program.Usage(fmt.Errorf("--out: %w", err))
	}
	return &runFile{path: path, writer: w}, nil
}

// reopen opens the run file of --resume and says what of it will be taken off.
func (s streams) reopen(path string) (*runFile, error) {
	w, run, tail, err := matrix.Append(path)
	if err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	if tail.Torn {
		fmt.Fprintf(s.err, "%s: its last line was cut off and is dropped\n", path)
	}
	if tail.Records > 0 {
		fmt.Fprintf(s.err, "%s: %d records of a cell that was never finished are dropped, the cell is run again\n", path, tail.Records)
	}
	for _, bad := range run.Bad {
		fmt.Fprintf(s.err, "%s: line %d is left out: %v\n", path, bad.Line, bad.Err)
	}
	return &runFile{path: path, writer: w, old: run}, nil
}

func (f *runFile) dir() string { return filepath.Dir(f.path) }

// cells are those that a resumed run has; f may be nil.
func (f *runFile) cells() []matrix.Cell {
	if f == nil || f.old == nil {
		return nil
	}
	return f.old.Cells
}

// close may be called again.
func (f *runFile) close() error {
	if f.writer == nil {
		return nil
	}
	w := f.writer
	f.writer = nil
	return w.Close()
}

// discard takes back what create made for a run that never began.
func (f *runFile) discard() error {
	if f.old != nil {
		return f.close()
	}
	err := errors.Join(f.close(), os.Remove(f.path))
	if entries, rerr := os.ReadDir(f.dir()); rerr == nil && len(entries) == 0 {
		err = errors.Join(err, os.Remove(f.dir()))
	}
	return err
}

// measureInto runs a matrix into a file, writes the reports beside it and prints
// the matrix. The error carries the exit code.
func (s streams) measureInto(ctx context.Context, file *runFile, cfg loadgen.Config, deps loadgen.Deps, l look) (*matrix.Run, error) {
	// A reader of our progress that goes away does not end a measurement.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)

	if deps.Info == nil {
		info, err := engine.Probe(ctx, deps.Target, cfg.Model)
		if err != nil {
			return nil, errors.Join(err, file.discard())
		}
		deps.Info = &info
	}
	plan, err := loadgen.NewPlan(cfg, *deps.Info)
	if err != nil {
		return nil, errors.Join(err, file.discard())
	}
	if file.old != nil && !l.quiet {
		fmt.Fprintf(s.err, "going on in %s: it has %d of %d steps\n", file.path, inFile(&plan, file.cells()), len(plan.Steps))
	}
	deps.Writer, deps.Resume, deps.Live = file.writer, file.old, &loadgen.Live{}
	show := s.watch(l, board.Subject{
		Title: strings.TrimSpace(fmt.Sprintf("%s on %s %s", deps.Info.Model, deps.Info.Kind, deps.Info.Version)),
		URL:   deps.Target.URL, Plan: plan, Cells: file.cells(),
	}, deps.Live)
	deps.Progress = show.event
	restore := func() {}
	if l.alone {
		restore = thrifty()
	}
	outcome, failed := loadgen.Run(ctx, cfg, deps)
	restore()
	failed = errors.Join(failed, show.close())
	if outcome.Header.Type == "" { // nothing was begun: leave nothing behind
		return nil, errors.Join(verdict(outcome, failed), file.discard())
	}
	// One sentence is enough: what follows a failure is mostly its consequence.
	keep := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	keep(file.close())
	run, err := matrix.ReadFile(file.path)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	keep(writeReports(file.dir(), run))
	if err := report.Write(s.out, "text", run); !errors.Is(err, syscall.EPIPE) { // | head has what it wanted
		keep(err)
	}
	if !l.quiet {
		fmt.Fprintln(s.err, "run file and reports: "+file.dir()+string(filepath.Separator))
	}
	return run, verdict(outcome, failed)
}

// writeReports writes every format beside the run file.
func writeReports(dir string, run *matrix.Run) error {
	var errs []error
	for _, format := range report.Formats() {
		errs = append(errs, writeFile(filepath.Join(dir, "report."+report.Extension(format)), func(w io.Writer) error {
			return report.Write(w, format, run)
		}))
	}
	return errors.Join(errs...)
}

// verdict maps the end of a run to an exit code.
func verdict(o loadgen.Outcome, failed error) error {
	switch {
	case o.Outcome == loadgen.Stopped && o.Header.Type == "":
		return &program.Exit{Code: program.Interrupted, Err: fmt.Errorf("nothing was measured: %s", o.Message)}
	case failed != nil:
		return &program.Exit{Code: program.Failed, Err: failed}
	case o.Outcome == loadgen.Stopped:
		return &program.Exit{Code: program.Interrupted}
	}
	var last *matrix.Cell
	n := 0
	for i := range o.Cells {
		if o.Cells[i].Status == matrix.Failed {
			last = &o.Cells[i]
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return &program.Exit{Code: program.Failed, Err: fmt.Errorf("%d of %d cells failed, the last because %s",
		n, len(o.Cells), strings.TrimSuffix(last.Message, "."))}
}
