package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/streamgauge/streamgauge/cmd/internal/program"
)

func main() {
	ctx, drain := context.WithCancel(context.Background())
	defer drain()
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-caught
		drain()
		<-caught
		os.Exit(program.Interrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
