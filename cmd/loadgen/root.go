package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
)

// streams are what a command reads and writes, and how it is stopped.
type streams struct {
	in       io.Reader
	out, err io.Writer
	stop     *stopper // of heed; nil: signals do what they always do
}

// run is the program: main calls it, and tests do.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return program.Execute(ctx, newRoot(streams{in: stdin, out: stdout, err: stderr}), args, stdin, stdout, stderr)
}

func newRoot(s streams) *cobra.Command {
	root := newMeasure(s, "loadgen")
	root.AddCommand(newMeasure(s, "run"), newDemo(s), newOnce(s), newProbe(s), newReport(s), newCompare(s), newSim(s), newLoops(s), newInspect(s))
	return root
}
