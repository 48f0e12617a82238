// Engines installs and runs the real engines that tests use.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/streamgauge/streamgauge/enginetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New("want a command: install")
	}
	for _, a := range args[1:] {
		k, err := enginetest.ParseKind(a)
		if err != nil {
			return err
		}
		if _, err := enginetest.Install(ctx, k, stderr); err != nil {
			return err
		}
	}
	return nil
}
