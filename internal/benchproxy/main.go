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

// bench is one run of the scripts.
type bench struct {
	scripts string // the yard's folder gateways
	work    string // where its programs, logs and results are
	log     io.Writer
}

// The ports of the yard's scripts, and ours beside them.
const (
	emitter = "http://127.0.0.1:9500"
	data    = "127.0.0.1:9540"
	admin   = "127.0.0.1:9541"
)

// peer is what is measured beside ours.
type peer struct{ name, url string }

var peers = []peer{{"nginx", "http://127.0.0.1:9510"}, {"haproxy", "http://127.0.0.1:9511"}, {"gorp", "http://127.0.0.1:9514"}}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("benchproxy", flag.ContinueOnError)
	fs.SetOutput(stderr)
	rounds := fs.Int("rounds", 5, "rounds; the largest configuration has one")
	confs := fs.String("streams", "1 16 128 1000w", "configurations of the yard's bench.sh; empty for none")
	large := fs.String("large", "5000w", "configuration that is run once; empty for none")
	posts := fs.Bool("posts", true, "short POSTs too")
	plain := fs.Bool("plain", false, "do not raise what is measured over other work (SCHED_RR)")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	b, err := find(stderr)
	if err != nil {
		fmt.Fprintf(stderr, "benchproxy: SKIPPED, NOTHING WAS MEASURED: %v\nbenchproxy: set STREAMGAUGE_SHARED to the folder that holds yard/\n", err)
		return 0
	}
	if err := b.measure(ctx, *rounds, *confs, *large, *posts, *plain, stdout); err != nil {
		fmt.Fprintf(stderr, "benchproxy: %v\n", err)
		return 1
	}
	return 0
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

func (b *bench) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "YARD="+b.work)
	cmd.Stdout, cmd.Stderr = b.log, b.log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (b *bench) script(ctx context.Context, name string, args ...string) *exec.Cmd {
	return b.command(ctx, filepath.Join(b.scripts, name), args...)
}

func (b *bench) measure(ctx context.Context, rounds int, confs, large string, posts, plain bool, stdout io.Writer) error {
	if err := b.build(ctx); err != nil {
		return err
	}
	names := []string{"emitter"}
	for _, p := range peers {
		names = append(names, p.name)
	}
	up := filepath.Join("scripts", "up.sh")
	defer func() {
		// Also after an interrupt: who starts something ends it.
		if err := b.script(context.WithoutCancel(ctx), up, append([]string{"stop"}, names...)...).Run(); err != nil {
			fmt.Fprintf(b.log, "stop: %v\n", err)
		}
	}()
	if err := b.script(ctx, up, append([]string{"start"}, names...)...).Run(); err != nil {
		return fmt.Errorf("up.sh start: %w", err)
	}
	own, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = own.Process.Signal(syscall.SIGTERM); _ = own.Wait() }()

	targets := []string{fmt.Sprintf("ours=http://%s=%d", data, own.Process.Pid)}
	for _, p := range peers {
		pid, err := os.ReadFile(filepath.Join(b.work, "run", p.name+".pid"))
		if err != nil {
			return err
		}
		targets = append(targets, fmt.Sprintf("%s=%s=%s", p.name, p.url, strings.TrimSpace(string(pid))))
	}
	streams := filepath.Join(b.work, "out", "ours.jsonl")
	short := filepath.Join(b.work, "out", "ours-rps.jsonl")
	for _, f := range []string{streams, short} {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	sh := func(rounds int, confs string) error {
		cmd := b.script(ctx, filepath.Join("scripts", "bench.sh"), append([]string{"-r", strconv.Itoa(rounds), "-c", confs, "-o", streams}, targets...)...)
		if plain {
			cmd.Env = append(cmd.Env, "PRIO=none")
		}
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("bench.sh: %w", err)
		}
		return nil
	}
	if confs != "" {
		if err := sh(rounds, confs); err != nil {
			return err
		}
	}
	if large != "" {
		if err := sh(1, large); err != nil {
			return err
		}
	}
	if posts {
		args := append([]string{filepath.Join(b.scripts, "scripts", "rps.py"), "-r", strconv.Itoa(rounds), "-o", short}, targets...)
		if err := b.command(ctx, "python3", args...).Run(); err != nil {
			return fmt.Errorf("rps.py: %w", err)
		}
	}
	return report(stdout, streams, short)
}

// build makes the yard's programs, unless they are there, and ours.
func (b *bench) build(ctx context.Context) error {
	for _, name := range []string{"emitter", "drain2", "gorp"} {
		if _, err := os.Stat(filepath.Join(b.work, name)); err != nil {
			if err := b.script(ctx, "build.sh").Run(); err != nil {
				return fmt.Errorf("build.sh: %w", err)
			}
			break
		}
	}
	for _, name := range []string{"nginx", "haproxy", "wrk", "flock", "chrt"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: apt-get install nginx-light haproxy wrk util-linux", err)
		}
	}
	if err := b.command(ctx, "go", "build", "-trimpath", "-o", filepath.Join(b.work, "streamgauge-proxy"), "./cmd/proxy").Run(); err != nil {
		return fmt.Errorf("go build ./cmd/proxy: %w", err)
	}
	return nil
}

// start runs the proxy as it comes: metering, detection and metrics on.
func (b *bench) start(ctx context.Context) (*exec.Cmd, error) {
	cmd := b.command(ctx, "nice", "-n", "-15", filepath.Join(b.work, "streamgauge-proxy"),
		"--upstream", emitter, "--listen", data, "--admin", admin, "--models-every", "off", "--model", "m", "--drain", "1s", "--log-level", "warn")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 200 {
		<-tick.C
		if err := exec.CommandContext(ctx, "bash", "-c", "exec 3<>/dev/tcp/"+strings.Replace(data, ":", "/", 1)).Run(); err == nil {
			return cmd, nil
		}
	}
	return nil, fmt.Errorf("the proxy does not listen on %s", data)
}
