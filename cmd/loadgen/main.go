package main

import (
	"context"
	"os"
)

func main() {
	ctx, stop := signals(context.Background(), os.Stderr)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
