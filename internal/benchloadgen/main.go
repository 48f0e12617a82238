package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// settings are what the table is made with.
type settings struct {
	rounds int
	window time.Duration
	only   string // name of a load, "" for all
	alone  bool   // no other tools
	plain  bool   // no SCHED_RR
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	fs := flag.NewFlagSet("benchloadgen", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&s.rounds, "rounds", 3, "rounds of each load")
	fs.DurationVar(&s.window, "window", 10*time.Second, "window of a round")
	fs.StringVar(&s.only, "only", "", "name of a load: that one alone")
	fs.BoolVar(&s.alone, "alone", false, "leave the other tools out, and do not install them")
	fs.BoolVar(&s.plain, "plain", false, "do not run under SCHED_RR")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if s.rounds < 1 || s.window < time.Second {
		fmt.Fprintln(stderr, "benchloadgen: -rounds is at least 1 and -window at least 1s")
		return 2
	}
	sources, err := yard.Find("emitter/main.go", "drain/main.go")
	if err != nil {
		fmt.Fprintf(stderr, "benchloadgen: SKIPPED, NOTHING WAS MEASURED: %v\n"+
			"benchloadgen: set STREAMGAUGE_SHARED to the folder that holds yard/\n", err)
		return 0
	}
	if runtime.NumCPU() < 2 {
		fmt.Fprintln(stderr, "benchloadgen: SKIPPED, NOTHING WAS MEASURED: the emitter and the client need a core each, and this machine has one")
		return 0
	}
	missed, err := measure(ctx, s, sources, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "benchloadgen: %v\n", err)
		return 1
	}
	if missed > 0 {
		fmt.Fprintf(stderr, "benchloadgen: %d bars missed\n", missed)
		return 1
	}
	return 0
}

// bench is what all rounds share.
type bench struct {
	settings
	dir string     // of programs and run files
	pin [][]string // argv before a program, to hold it to core 0 and to core 1
}

func measure(ctx context.Context, s settings, sources string, stdout, stderr io.Writer) (missed int, err error) {
	dir, err := os.MkdirTemp("", "streamgauge-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{settings: s, dir: dir}
	if err := b.arrange(stderr); err != nil {
		return 0, err
	}
	for program, from := range map[string][2]string{
		"emitter": {sources, "./emitter"}, "drain": {sources, "./drain"},
		"loadgen": {".", "github.com/streamgauge/streamgauge/cmd/loadgen"},
	} {
		if err := yard.Build(ctx, from[0], from[1], filepath.Join(dir, program)); err != nil {
			return 0, err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	fmt.Fprintf(stdout, "%s, %s, %d CPUs, %s; %d rounds of %v; median of the rounds (worst)\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), host, runtime.NumCPU(), runtime.Version(), s.rounds, s.window)
	printHeader(stdout)
	var chosen []load
	ours := map[string][]round{}
	for _, l := range loads {
		if s.only != "" && s.only != l.name {
			continue
		}
		chosen = append(chosen, l)
		for range s.rounds {
			r, err := b.round(ctx, l)
			if err != nil {
				return missed, fmt.Errorf("%s: %w", l.name, err)
			}
			ours[l.name] = append(ours[l.name], r)
		}
		missed += print(stdout, l, ours[l.name])
	}
	starts, err := b.starts(ctx)
	if err != nil {
		return missed, err
	}
	missed += printStarts(stdout, starts, ours)
	if s.alone {
		return missed, nil
	}
	return missed, b.besides(ctx, chosen, ours, stdout, stderr)
}

// besides runs the other tools on the same loads and prints all beside each
// other. What they miss is no miss of ours, also a run of theirs that fails.
func (b *bench) besides(ctx context.Context, chosen []load, ours map[string][]round, stdout, stderr io.Writer) error {
	s, closeStand, err := b.newStand(ctx, stderr)
	if err != nil {
		return err
	}
	defer closeStand()
	printPeersHeader(stdout)
	for _, l := range chosen {
		printPeer(stdout, l, "streamgauge", oursBeside(ours[l.name]))
		for _, p := range s.peers {
			var waves []wave
			for range b.rounds {
				w, err := s.wave(ctx, p, l)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err != nil {
					fmt.Fprintf(stderr, "benchloadgen: %s, %s: %v\n", p.name, l.name, err)
					continue
				}
				waves = append(waves, w)
			}
			printPeer(stdout, l, p.name+" "+p.version, waves)
		}
	}
	fmt.Fprint(stdout, peersLegend)
	return nil
}

// arrange finds out how to hold a program to a core, and above other work.
func (b *bench) arrange(stderr io.Writer) error {
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return fmt.Errorf("the cores cannot be told apart: %w", err)
	}
	b.pin = [][]string{{taskset, "-c", "0"}, {taskset, "-c", "1"}}
	raise := func() (string, error) {
		if b.plain {
			return "", errors.New("-plain")
		}
		chrt, err := exec.LookPath("chrt")
		if err != nil {
			return "", err
		}
		return chrt, exec.Command(chrt, "-r", "1", "true").Run()
	}
	chrt, err := raise()
	if err != nil {
		fmt.Fprintf(stderr, "benchloadgen: at ordinary priority, so other work on this machine is in the figures: %v\n", err)
		return nil
	}
	for i := range b.pin {
		b.pin[i] = append(b.pin[i], chrt, "-r", "1")
	}
	return nil
}
