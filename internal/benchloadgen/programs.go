package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
	"github.com/streamgauge/streamgauge/matrix"
)

// The cores of the server and of its client.
const (
	serverCore = 0
	clientCore = 1
)

// command is a program of the bench, held to a core.
func (b *bench) command(ctx context.Context, core int, program string, args ...string) *exec.Cmd {
	return b.held(ctx, core, filepath.Join(b.dir, program), args...)
}

// held is any program, held to a core.
func (b *bench) held(ctx context.Context, core int, program string, args ...string) *exec.Cmd {
	argv := append(slices.Clone(b.pin[core]), program)
	argv = append(argv, args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// emitter starts one on the server's core.
func (b *bench) emitter(ctx context.Context, spec string) (*yard.Emitter, error) {
	return yard.StartEmitter(ctx, func(args ...string) *exec.Cmd { return b.command(ctx, serverCore, "emitter", args...) },
		"-spec", spec, "-kv", strconv.Itoa(1<<30))
}

// cost is what a process used from its start to its end.
type cost struct {
	began time.Time
	cpu   time.Duration
	rss   int // peak, bytes
}

// spend runs a program to its end. Its peak memory is read while it runs: what the
// system tells at the end (ru_maxrss) is at least what this process had when it
// started the other.
func spend(cmd *exec.Cmd) (cost, []byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	c := cost{began: time.Now()}
	if err := cmd.Start(); err != nil {
		return c, nil, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.rss = max(c.rss, peakOf(cmd.Process.Pid))
			continue
		case err := <-done:
			if err != nil {
				return c, nil, fmt.Errorf("%s: %w\n%s%s", filepath.Base(cmd.Path), err, stdout.Bytes(), stderr.Bytes())
			}
		}
		break
	}
	if c.rss == 0 {
		return c, nil, errors.New("this system does not tell a process's peak memory")
	}
	c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return c, stdout.Bytes(), nil
}

// loadgen runs one cell and returns what it wrote and cost.
func (b *bench) loadgen(ctx context.Context, e *yard.Emitter, l load, extra ...string) (*matrix.Run, cost, error) {
	out, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return nil, cost{}, err
	}
	args := append([]string{
		"--url", "http://" + e.Addr, "--contexts", "0", "--concurrency", strconv.Itoa(l.streams), "--no-prefill",
		"--duration", b.window.String(), "--settle", "1s", "--max-tokens", strconv.Itoa(1 << 16), "--no-tui", "--quiet", "--out", out,
	}, extra...)
	c, _, err := spend(b.command(ctx, clientCore, "loadgen", args...))
	if err != nil {
		return nil, c, err
	}
	run, err := matrix.ReadFile(filepath.Join(out, "run.ndjson"))
	return run, c, err
}

// drain reads as many streams for about as long and returns its cost a token.
func (b *bench) drain(ctx context.Context, e *yard.Emitter, l load) (time.Duration, error) {
	tokens := int((b.window+time.Second)/l.itl) / l.perChunk * l.perChunk
	c, _, err := spend(b.command(ctx, clientCore, "drain", "-url", "http://"+e.Addr+"/v1/chat/completions",
		"-n", strconv.Itoa(l.streams), "-tokens", strconv.Itoa(tokens), "-model", "steady:"+l.spec()))
	return c.cpu / time.Duration(l.streams*tokens), err
}

// starts measures how long loadgen takes from its start to the first byte sent.
func (b *bench) starts(ctx context.Context) ([]time.Duration, error) {
	var took []time.Duration
	for range 3 {
		d, err := b.start(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return took, nil
}

func (b *bench) start(ctx context.Context) (time.Duration, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	if err := ln.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, err
	}
	cmd := b.command(ctx, clientCore, "loadgen", "--url", "http://"+ln.Addr().String(), "--no-tui", "--quiet", "--out", filepath.Join(b.dir, "start"))
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	c, err := ln.Accept()
	if err != nil {
		return 0, fmt.Errorf("loadgen has not connected: %w", err)
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return 0, fmt.Errorf("loadgen has sent nothing: %w", err)
	}
	return time.Since(began), nil
}
