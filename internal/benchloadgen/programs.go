package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

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

// emitter is a running one.
type emitter struct {
	addr string
	cmd  *exec.Cmd
	said bytes.Buffer
	done chan struct{}
}

func (b *bench) emitter(ctx context.Context, spec string) (*emitter, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	e := &emitter{addr: addr, done: make(chan struct{})}
	e.cmd = b.command(ctx, serverCore, "emitter", "-addr", addr, "-spec", spec, "-kv", strconv.Itoa(1<<30))
	// Between its clock reading and its write the emitter allocates, and in a
	// cycle of its collector waits there: see internal/truth.
	e.cmd.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=1GiB")
	e.cmd.Stderr = &e.said
	if err := e.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = e.cmd.Wait()
		close(e.done)
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(10 * time.Second)
	for {
		if resp, err := http.Get("http://" + addr + "/health"); err == nil {
			_ = resp.Body.Close()
			return e, nil
		}
		select {
		case <-tick.C:
			continue
		case <-e.done:
		case <-patience:
			e.stop()
		}
		return nil, fmt.Errorf("the emitter does not answer on %s: %s", addr, e.said.Bytes())
	}
}

func (e *emitter) stop() {
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.done:
	case <-time.After(5 * time.Second):
		_ = e.cmd.Process.Kill()
		<-e.done
	}
}

// stream is the emitter's log of one: CLOCK_REALTIME in nanoseconds, and for
// each event the reading before it was made.
type stream struct {
	ID       string  `json:"id"`
	Read     int64   `json:"read_ns"`
	Emits    []int64 `json:"emit_ns"`
	PerChunk int64   `json:"tokens_per_chunk"`
}

// log takes the emitter's log and empties it.
func (e *emitter) log(ctx context.Context) (map[string]stream, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://"+e.addr+"/truth", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	all := map[string]stream{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var s stream
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("emitter's log: %w", err)
		}
		all[s.ID] = s
	}
	return all, lines.Err()
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
func (b *bench) loadgen(ctx context.Context, e *emitter, l load, extra ...string) (*matrix.Run, cost, error) {
	out, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return nil, cost{}, err
	}
	args := append([]string{
		"--url", "http://" + e.addr, "--contexts", "0", "--concurrency", strconv.Itoa(l.streams), "--no-prefill",
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
func (b *bench) drain(ctx context.Context, e *emitter, l load) (time.Duration, error) {
	tokens := int((b.window+time.Second)/l.itl) / l.perChunk * l.perChunk
	c, _, err := spend(b.command(ctx, clientCore, "drain", "-url", "http://"+e.addr+"/v1/chat/completions",
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

// freeAddr returns a loopback address that was free a moment ago.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}
