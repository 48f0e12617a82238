package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/streamgauge/streamgauge/cmd/internal/program"
)

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run is the program: main calls it, and tests do.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := streams{stdin, stdout, stderr}
	root := newMeasure(s, "loadgen")
	root.AddCommand(newMeasure(s, "run"), newDemo(s), newOnce(s), newProbe(s), newReport(s), newCompare(s), newSim(s), newLoops(s), newInspect(s))
	return program.Execute(ctx, root, args, stdin, stdout, stderr)
}

// signals cancels the context at the first SIGINT or SIGTERM, so that what was
// measured is saved, and ends the program at the second.
func signals(parent context.Context, stderr io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-caught:
		case <-ctx.Done():
			return
		}
		fmt.Fprintln(stderr, "loadgen: stopping; what was measured is saved, press Ctrl-C again to leave at once")
		cancel()
		<-caught
		os.Exit(program.Interrupted)
	}()
	return ctx, func() { signal.Stop(caught); cancel() }
}
