package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var (
		set soakSettings
		big manySettings
	)
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.DurationVar(&set.length, "for", 20*time.Minute, "length of the soak")
	fs.IntVar(&set.streams, "streams", 128, "slots of the soak")
	fs.Uint64Var(&set.seed, "seed", uint64(time.Now().UnixNano()), "of what the soak draws; the order of events is the machine's")
	fs.DurationVar(&set.sample, "sample", 3*time.Second, "time between two readings of the proxy's memory")
	lists := fs.String("many", "", "open these numbers of streams at once instead, as in 4000,10000")
	fs.DurationVar(&big.hold, "hold", 20*time.Second, "with -many: how long all are open")
	fs.DurationVar(&big.every, "every", time.Second, "with -many: time between two events of a stream")
	fs.DurationVar(&big.settle, "settle", 30*time.Second, "with -many: longest wait for the memory to be back")
	fs.Float64Var(&big.over, "over", 16, "with -many: MB above the start that may stay")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	for f := range strings.SplitSeq(*lists, ",") {
		if f == "" {
			continue
		}
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			fmt.Fprintf(stderr, "soak: -many: %q is no number of streams\n", f)
			return 2
		}
		big.streams = append(big.streams, n)
	}
	broken, err := endure(ctx, set, big, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "soak: %v\n", err)
		return 1
	}
	if broken > 0 {
		fmt.Fprintf(stderr, "soak: %d faults\n", broken)
		return 1
	}
	return 0
}

// endure runs the one or the other and returns the number of broken promises.
func endure(ctx context.Context, set soakSettings, big manySettings, stdout io.Writer) (int, error) {
	dir, err := os.MkdirTemp("", "streamgauge-soak-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "proxy")
	if err := yard.Build(ctx, ".", "github.com/streamgauge/streamgauge/cmd/proxy", program); err != nil {
		return 0, err
	}
	var t *tally
	if len(big.streams) > 0 {
		if big.streams, err = fit(big.streams, stdout); err != nil {
			return 0, err
		}
		t, err = many(ctx, program, big, stdout)
	} else {
		t, err = soak(ctx, program, set, stdout)
	}
	if err != nil {
		return 0, err
	}
	return t.print(stdout), nil
}

// spare descriptors are for what is no stream: listeners, logs, the admin port.
const spare = 64

// fit makes room for the descriptors: two a stream here, as in the proxy, which
// gets the same limit. Where the limit may not be raised that far, the numbers
// come down to it, and that is said: it is no fault of the proxy, but it is not
// what was asked for either.
func fit(streams []int, w io.Writer) ([]int, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return nil, err
	}
	need := uint64(2*slices.Max(streams) + spare)
	raised := syscall.Rlimit{Cur: need, Max: max(l.Max, need)}
	refused := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised)
	if refused == nil {
		return streams, nil
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return nil, err
	}
	return lower(streams, l.Max, w), nil
}

// lower brings numbers of streams down to a limit of descriptors.
func lower(streams []int, limit uint64, w io.Writer) []int {
	most := (int(limit) - spare) / 2
	out := slices.Clone(streams)
	for i, n := range out {
		if n > most {
			fmt.Fprintf(w, "NOT REACHED: %d streams need %d descriptors, %d are allowed here: %d streams instead\n", n, 2*n+spare, limit, most)
			out[i] = most
		}
	}
	return out
}
