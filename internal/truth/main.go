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

// settings are what the table is made with.
type settings struct {
	streams []int
	tokens  int           // of each stream
	itl     time.Duration // between two tokens
	bar     time.Duration // for the p99 of kernel stamps
	only    string        // vantage, "" for both
	pair    bool          // the pair alone
	rounds  int           // of the pair
	window  time.Duration // of the pair
	plain   bool          // no SCHED_RR
}

// realtime marks, in the environment, a process that runs under SCHED_RR.
const realtime = "TRUTH_UNDER_RR"

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	source, err := yard.Find("emitter/main.go")
	if err != nil {
		fmt.Fprintf(stderr, "truth: SKIPPED, NOTHING WAS MEASURED: %v\ntruth: set STREAMGAUGE_SHARED to the folder that holds yard/\n", err)
		return 0
	}
	if err := raise(s); err != nil {
		fmt.Fprintf(stderr, "truth: at ordinary priority, so other work on this machine is in the figures: %v\n", err)
	}
	missed, err := all(ctx, s, source, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "truth: %v\n", err)
		return 1
	}
	if missed > 0 {
		fmt.Fprintf(stderr, "truth: %d bars missed\n", missed)
		return 1
	}
	return 0
}

// all makes both tables.
func all(ctx context.Context, s settings, source string, stdout, stderr io.Writer) (missed int, err error) {
	dir, err := os.MkdirTemp("", "streamgauge-truth-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if !s.pair {
		if missed, err = measure(ctx, s, dir, source, stdout); err != nil || s.only != "" {
			return missed, err
		}
	}
	n, err := pair(ctx, s, dir, source, stdout, stderr)
	return missed + n, err
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	fs := flag.NewFlagSet("truth", flag.ContinueOnError)
	fs.SetOutput(stderr)
	streams := fs.String("streams", "1,8,128", "numbers of streams, the highest last")
	fs.IntVar(&s.tokens, "tokens", 500, "tokens of each stream")
	fs.DurationVar(&s.itl, "itl", 10*time.Millisecond, "time between two tokens of a stream")
	fs.DurationVar(&s.bar, "bar", 200*time.Microsecond, "bar for the p99 of kernel stamps at the highest number of streams")
	fs.StringVar(&s.only, "only", "", "loadgen or proxy: that vantage alone")
	fs.BoolVar(&s.pair, "pair", false, "only the same cells directly and through the proxy")
	fs.IntVar(&s.rounds, "rounds", 5, "rounds of each of those cells")
	fs.DurationVar(&s.window, "window", 4*time.Second, "window of those cells")
	fs.BoolVar(&s.plain, "plain", false, "do not run under SCHED_RR")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	if s.rounds < 1 || s.window < time.Second {
		err := errors.New("-rounds is at least 1 and -window at least 1s")
		fmt.Fprintln(stderr, err)
		return s, err
	}
	for f := range strings.SplitSeq(*streams, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			err = fmt.Errorf("-streams: %q is no number of streams", f)
			fmt.Fprintln(stderr, err)
			return s, err
		}
		s.streams = append(s.streams, n)
	}
	return s, nil
}

// raise starts this program again under SCHED_RR; on success it does not return.
func raise(s settings) error {
	switch {
	case s.plain:
		return errors.New("-plain")
	case os.Getenv(realtime) != "":
		return nil
	case os.Geteuid() != 0:
		return errors.New("not root")
	}
	chrt, err := exec.LookPath("chrt")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := exec.Command(chrt, "-r", "1", "true").Run(); err != nil {
		return fmt.Errorf("chrt -r 1: %w", err)
	}
	argv := append([]string{chrt, "-r", "1", self}, os.Args[1:]...)
	return syscall.Exec(chrt, argv, append(os.Environ(), realtime+"=1"))
}

// measure makes all rows of instants; over is how many of them are over the bar.
func measure(ctx context.Context, s settings, dir, source string, stdout io.Writer) (over int, err error) {
	emitter, err := startEmitter(ctx, dir, filepath.Join(source, "emitter"), nil)
	if err != nil {
		return 0, err
	}
	defer emitter.Stop(syscall.SIGTERM)
	fmt.Fprintf(stdout, "%d tokens a stream; errors in microseconds, of the events that are not coalesced\n\n", s.tokens)
	printHeader(stdout)
	for _, vantage := range []string{"loadgen", "proxy"} {
		if s.only != "" && s.only != vantage {
			continue
		}
		for _, user := range []bool{false, true} {
			n, err := rows(ctx, s, dir, emitter, vantage, user, stdout)
			if err != nil {
				return over, err
			}
			over += n
		}
	}
	return over, nil
}

// load is what the emitter is asked for.
type load struct {
	streams  int
	itl      time.Duration
	lockstep bool
	bar      time.Duration // for the p99; 0: none
}

// loads lists the loads of one vantage and kind of stamps. The last two are
// case R8 of the test plan: 128 streams of 200 events a second, p99 below 1 ms.
func loads(s settings, user bool) []load {
	var ls []load
	most := s.streams[len(s.streams)-1]
	for _, lockstep := range []bool{false, true} {
		for _, n := range s.streams {
			l := load{n, s.itl, lockstep, 0}
			if n == most && !user {
				l.bar = s.bar
			}
			ls = append(ls, l)
		}
	}
	if !user {
		for _, lockstep := range []bool{false, true} {
			ls = append(ls, load{most, s.itl / 2, lockstep, time.Millisecond})
		}
	}
	return ls
}

// rows makes the rows of one vantage and one kind of stamps.
func rows(ctx context.Context, s settings, dir string, emitter *yard.Emitter, vantage string, user bool, stdout io.Writer) (over int, err error) {
	addr := emitter.Addr
	var hop *proxyServer
	if vantage == "proxy" {
		if hop, err = startProxy(ctx, dir, emitter.Addr, nil, user); err != nil {
			return 0, err
		}
		defer hop.Stop(syscall.SIGTERM)
		addr = hop.addr
	}
	for _, l := range loads(s, user) {
		instants, err := drive(ctx, s, addr, l, user)
		if err != nil {
			return over, err
		}
		if hop != nil {
			if instants, err = hop.instants(ctx, l.streams); err != nil {
				return over, err
			}
		}
		truth, err := emitter.Log(ctx)
		if err != nil {
			return over, err
		}
		r, err := compare(truth, instants, l.streams, s.tokens)
		if err != nil {
			return over, fmt.Errorf("%s, %d streams: %w", vantage, l.streams, err)
		}
		r.load, r.vantage, r.user = l, vantage, user
		if r.over() {
			over++
		}
		r.print(stdout)
	}
	return over, nil
}
