package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
	"github.com/streamgauge/streamgauge/matrix"
)

// cell is a cell that is run in each way.
type cell struct {
	streams int
	itl     time.Duration
	length  int // tokens of a stream; 0: it outlasts the cell
}

// cells are those of the pair. In the last one streams end and start again all
// the time, at instants of their own.
var cells = []cell{
	{128, 10 * time.Millisecond, 0},
	{32, 20 * time.Millisecond, 0},
	{128, 10 * time.Millisecond, 100},
}

func (c cell) String() string {
	s := fmt.Sprintf("%d x %v", c.streams, c.itl)
	if c.length > 0 {
		s += fmt.Sprintf(", %d tokens", c.length)
	}
	return s
}

// spec is the cell in the emitter's words.
func (c cell) spec() string {
	s := fmt.Sprintf("ttft=200ms,itl=%v", c.itl)
	if c.length > 0 {
		s += fmt.Sprintf(",n=%d,jitter=0.5", c.length)
	}
	return s
}

// way is how a cell's requests get to the emitter, and whose stamps count.
type way int

const (
	direct    way = iota
	forwarded     // through the proxy; loadgen knows nothing of it
	joined        // through the proxy, its records joined
	ways
)

func (w way) String() string { return [...]string{"direct", "forwarded", "joined"}[w] }

// pairing is what the runs of a pair share.
type pairing struct {
	settings
	dir, source string
	// argv that holds a program to its core: the emitter to one, loadgen and the
	// proxy to the other.
	emitter, loadgen, proxy []string
}

// pair runs each cell in each way, s.rounds times, one after the other, and
// returns how many bars are missed.
func pair(ctx context.Context, s settings, dir, source string, stdout, stderr io.Writer) (missed int, err error) {
	p := &pairing{settings: s, dir: dir, source: source}
	if err := p.arrange(); err != nil {
		fmt.Fprintf(stderr, "truth: emitter, proxy and loadgen are in each other's way: %v\n", err)
	}
	if err := yard.Build(ctx, ".", "github.com/streamgauge/streamgauge/cmd/loadgen", filepath.Join(dir, "loadgen")); err != nil {
		return 0, err
	}
	fmt.Fprintf(stdout, "\nthe same cells directly and through our proxy, windows of %v, medians of %d rounds\n\n", s.window, s.rounds)
	printPairHeader(stdout)
	for _, c := range cells {
		all, err := p.rounds(ctx, c)
		if err != nil {
			return missed, fmt.Errorf("%v: %w", c, err)
		}
		missed += printPair(stdout, c, all)
	}
	printPairLegend(stdout)
	return missed, nil
}

// arrange finds out how to hold a program to a core. loadgen and the proxy have
// to share one. There the proxy goes first: loadgen's stamps are the kernel's
// and do not care when it comes to read, but a token or a request that waits in
// the proxy for loadgen to yield is late, by up to the work of 128 streams.
func (p *pairing) arrange() error {
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return err
	}
	if n := runtime.NumCPU(); n < 2 {
		return fmt.Errorf("%d core", n)
	}
	p.emitter, p.loadgen = []string{taskset, "-c", "0"}, []string{taskset, "-c", "1"}
	p.proxy = p.loadgen
	if os.Getenv(realtime) == "" {
		return errors.New("no SCHED_RR, so the proxy waits for loadgen to yield the core that they share")
	}
	p.proxy = append(slices.Clone(p.loadgen), "chrt", "-r", "2")
	return nil
}

// rounds runs a cell: readings[w] are those of way w, round by round.
func (p *pairing) rounds(ctx context.Context, c cell) (readings [ways][]reading, err error) {
	e, err := startEmitter(ctx, p.dir, filepath.Join(p.source, "emitter"), p.emitter, "-spec", c.spec(), "-kv", strconv.Itoa(1<<30))
	if err != nil {
		return readings, err
	}
	defer e.Stop(syscall.SIGTERM)
	hop, err := startProxy(ctx, p.dir, e.Addr, p.proxy, false)
	if err != nil {
		return readings, err
	}
	defer hop.Stop(syscall.SIGTERM)
	for range p.settings.rounds {
		for w := direct; w < ways; w++ {
			r, err := p.read(ctx, e, hop, c, w)
			if err != nil {
				return readings, fmt.Errorf("%v: %w", w, err)
			}
			readings[w] = append(readings[w], r)
		}
	}
	return readings, nil
}

// read runs the cell once and lays it beside the emitter's log.
func (p *pairing) read(ctx context.Context, e *yard.Emitter, hop *proxyServer, c cell, w way) (reading, error) {
	if _, err := e.Log(ctx); err != nil { // what came before is not of this cell
		return reading{}, err
	}
	out, err := os.MkdirTemp(p.dir, "run-")
	if err != nil {
		return reading{}, err
	}
	addr, args := e.Addr, []string{
		"--contexts", "0", "--concurrency", strconv.Itoa(c.streams), "--no-prefill", "--duration", p.window.String(),
		"--settle", "1s", "--max-tokens", strconv.Itoa(1 << 16), "--no-tui", "--quiet", "--out", out,
	}
	if w != direct {
		addr = hop.addr
	}
	if w == joined {
		args = append(args, "--proxy-admin", "http://"+hop.admin)
	}
	if err := finish(ctx, command(p.loadgen, filepath.Join(p.dir, "loadgen"), append(args, "--url", "http://"+addr)...)); err != nil {
		return reading{}, err
	}
	run, err := matrix.ReadFile(filepath.Join(out, "run.ndjson"))
	if err != nil {
		return reading{}, err
	}
	log, err := e.Log(ctx)
	if err != nil {
		return reading{}, err
	}
	left := make(map[string]int64) // when each request left for the emitter
	if w == direct {
		for i := range run.Records {
			left[run.Records[i].ID] = run.Records[i].SentRealNS.V
		}
	} else if err := hop.await(ctx, len(run.Records), left); err != nil {
		return reading{}, err
	}
	return readingOf(run, log, left, c.length > 0)
}
