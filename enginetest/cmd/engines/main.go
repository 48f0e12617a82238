// Engines installs and runs the real inference engines that tests use.
//
//	engines install KIND...            put engines into the cache folder
//	engines list                       say what is there
//	engines models [DIR]               write the tiny models
//	engines start KIND [flags]         run one until interrupted
//	engines with KIND... -- COMMAND    run a command while they run
//	engines capture KIND DIR           keep its raw responses as test data
//
// "with" sets STREAMGAUGE_<KIND>_URL for the command, so that the tests of many
// packages share one vLLM, whose start takes a minute:
//
//	go run ./enginetest/cmd/engines with llamacpp vllm -- go test ./...
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
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/enginetest"
)

const usage = `usage: engines install KIND... | list | models [DIR] | start KIND [flags] | with KIND... -- COMMAND | capture KIND DIR
KIND is llamacpp, vllm or sglang; "engines start KIND -h" lists its flags`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if c := (commandError{}); errors.As(err, &c) && c.err.ExitCode() > 0 {
		os.Exit(c.err.ExitCode()) // the command has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch cmd, args := args[0], args[1:]; cmd {
	case "install":
		return install(ctx, args, stderr)
	case "list":
		return list(stdout)
	case "models":
		return models(args, stdout)
	case "start":
		return start(ctx, args, stdout, stderr)
	case "capture":
		return capture(ctx, args, stderr)
	case "with":
		return with(ctx, args, stdout, stderr)
	default:
		return fmt.Errorf("unknown command %q\n%s", cmd, usage)
	}
}

func parseKinds(args []string) ([]enginetest.Kind, error) {
	if len(args) == 0 {
		return nil, errors.New(usage)
	}
	kinds := make([]enginetest.Kind, len(args))
	for i, a := range args {
		k, err := enginetest.ParseKind(a)
		if err != nil {
			return nil, err
		}
		kinds[i] = k
	}
	return kinds, nil
}

// install goes on after an engine that the disk has no room for: the others are
// still worth having, and the tests of the missing one skip with the same words.
func install(ctx context.Context, args []string, stderr io.Writer) error {
	kinds, err := parseKinds(args)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		e, err := enginetest.Install(ctx, k, stderr)
		if errors.Is(err, enginetest.ErrDiskSpace) {
			fmt.Fprintf(stderr, "SKIPPED: %v\n", err)
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(stderr, "%s %s is in %s\n", k, e.Version, e.Dir)
	}
	return nil
}

func list(stdout io.Writer) error {
	for _, k := range enginetest.Kinds {
		e, err := enginetest.Installed(k)
		switch {
		case errors.Is(err, enginetest.ErrNotInstalled):
			fmt.Fprintln(stdout, err)
		case err != nil:
			return err
		default:
			fmt.Fprintf(stdout, "%s: %s in %s\n", k, e.Version, e.Dir)
		}
	}
	return nil
}

func models(args []string, stdout io.Writer) error {
	dir := ""
	switch len(args) {
	case 0:
		cache, err := enginetest.CacheDir()
		if err != nil {
			return err
		}
		dir = filepath.Join(cache, "models")
	case 1:
		dir = args[0]
	default:
		return errors.New(usage)
	}
	paths, err := enginetest.Models(dir)
	for _, p := range paths {
		fmt.Fprintln(stdout, p)
	}
	return err
}

func start(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	kind, err := enginetest.ParseKind(args[0])
	if err != nil {
		return err
	}
	var o enginetest.Options
	fs := flag.NewFlagSet("engines start "+args[0], flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.Model, "model", "tiny-loop", "a tiny model's name, or the absolute path of a model")
	fs.StringVar(&o.Name, "name", "tiny", "the name the model is served under")
	fs.IntVar(&o.Slots, "slots", 0, "sequences at once (default 8 for llamacpp, 128 for vllm)")
	fs.IntVar(&o.ContextTotal, "context-total", 0, "KV cache in tokens (default 65536 for llamacpp, 1048576 for vllm)")
	fs.IntVar(&o.ContextPerSeq, "context-per-seq", 0, "longest sequence, vllm only (default 8192)")
	fs.IntVar(&o.Port, "port", 0, "port on 127.0.0.1 (default: a free one)")
	fs.StringVar(&o.LogDir, "log-dir", "", "existing folder for the engine's output (default: a temporary one)")
	if err := fs.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	o.Args = fs.Args() // after "--": for the engine

	e, err := enginetest.Install(ctx, kind, stderr)
	if err != nil {
		return err
	}
	s, err := e.Start(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s %s is ready after %s, pid %d, output in %s\n",
		kind, e.Version, s.StartTime.Round(time.Millisecond), s.PID, s.LogPath)
	fmt.Fprintln(stdout, s.URL)
	select {
	case <-ctx.Done():
		return s.Stop()
	case <-s.Exited():
		return errors.Join(fmt.Errorf("%s ended by itself; the end of its output:\n%s", kind, s.LogTail(4<<10)), s.Stop())
	}
}

// commandError is the failure of the command that "with" ran, whose exit code
// becomes this program's.
type commandError struct{ err *exec.ExitError }

func (e commandError) Error() string { return "the command failed: " + e.err.Error() }

func with(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	dash := slices.Index(args, "--")
	if dash < 0 || dash == len(args)-1 {
		return errors.New(usage)
	}
	kinds, err := parseKinds(args[:dash])
	if err != nil {
		return err
	}
	argv := args[dash+1:]

	servers := make([]*enginetest.Server, len(kinds))
	defer func() {
		for i, s := range servers {
			if s == nil {
				continue
			}
			select {
			case <-s.Exited():
				fmt.Fprintf(stderr, "%s ended by itself; the end of its output:\n%s\n", kinds[i], s.LogTail(4<<10))
			default:
			}
			err = errors.Join(err, s.Stop())
		}
	}()
	// Installing one after the other keeps the disk check true; starting all
	// together hides llama.cpp's second behind vLLM's minute.
	var wg sync.WaitGroup
	startErrs := make([]error, len(kinds))
	for i, k := range kinds {
		if os.Getenv(k.URLVar()) != "" {
			continue // the command inherits it
		}
		e, err := enginetest.Install(ctx, k, stderr)
		if errors.Is(err, enginetest.ErrDiskSpace) {
			fmt.Fprintf(stderr, "SKIPPED: %v\n", err)
			continue
		}
		if err != nil {
			startErrs[i] = err
			break
		}
		wg.Go(func() { servers[i], startErrs[i] = e.Start(ctx, enginetest.Options{}) })
	}
	wg.Wait()
	if err := errors.Join(startErrs...); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.Env = os.Environ()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	for i, s := range servers {
		if s == nil {
			continue
		}
		fmt.Fprintf(stderr, "%s %s is ready after %s at %s\n", kinds[i], s.Engine.Version, s.StartTime.Round(time.Millisecond), s.URL)
		cmd.Env = append(cmd.Env, kinds[i].URLVar()+"="+s.URL)
	}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return commandError{exit}
	}
	return err
}
