package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/streamgauge/streamgauge/internal/yard"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// settings are what one run measures.
type settings struct {
	rounds int
	confs  string // of the yard's bench.sh, in every round
	large  string // those that are run in the first rounds only
	posts  bool
	plain  bool // no SCHED_RR
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	fs := flag.NewFlagSet("benchproxy", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&s.rounds, "rounds", 5, fmt.Sprintf("rounds; the largest configuration has %d at most", largeRounds))
	fs.StringVar(&s.confs, "streams", "1 16 128 1000w", "configurations of the yard's bench.sh; empty for none")
	fs.StringVar(&s.large, "large", "5000w", "the largest configuration; empty for none")
	fs.BoolVar(&s.posts, "posts", true, "short POSTs too")
	fs.BoolVar(&s.plain, "plain", false, "do not raise what is measured over other work (SCHED_RR)")
	again := fs.Bool("again", false, "measure nothing: print the last run's tables")
	behave := fs.Bool("behave", false, "check behaviour instead of speed")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	b, err := find(stderr)
	if err != nil {
		fmt.Fprintf(stderr, "benchproxy: SKIPPED, NOTHING WAS MEASURED: %v\nbenchproxy: set STREAMGAUGE_SHARED to the folder that holds yard/\n", err)
		return 0
	}
	var missed int
	switch {
	case *behave:
		missed, err = b.behave(ctx, stdout)
	default:
		if !*again {
			err = b.measure(ctx, s)
		}
		if err == nil {
			missed, err = report(stdout, b.streams(), b.short())
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "benchproxy: %v\n", err)
		return 1
	}
	if missed > 0 {
		return 1
	}
	return 0
}

// bench is one run of the scripts.
type bench struct {
	scripts string // the yard's folder gateways
	work    string // where its programs, logs and results are
	log     io.Writer
}

func find(stderr io.Writer) (*bench, error) {
	dir, err := yard.Find("gateways/scripts/bench.sh")
	if err != nil {
		return nil, err
	}
	work := os.Getenv("YARD")
	if work == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		work = filepath.Join(home, ".cache", "streamgauge", "yard")
	}
	return &bench{filepath.Join(dir, "gateways"), work, stderr}, nil
}

// streams and short are the files that the scripts append their rows to.
func (b *bench) streams() string { return filepath.Join(b.work, "out", "ours.jsonl") }
func (b *bench) short() string   { return filepath.Join(b.work, "out", "ours-rps.jsonl") }
