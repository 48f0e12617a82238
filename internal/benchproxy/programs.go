package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
)

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

// up starts programs by the yard's script; down ends them, also after an
// interrupt: who starts something ends it.
func (b *bench) up(ctx context.Context, names ...string) (down func(), err error) {
	script := filepath.Join("scripts", "up.sh")
	down = func() {
		if err := b.script(context.WithoutCancel(ctx), script, append([]string{"stop"}, names...)...).Run(); err != nil {
			fmt.Fprintf(b.log, "up.sh stop: %v\n", err)
		}
	}
	if err := b.script(ctx, script, append([]string{"start"}, names...)...).Run(); err != nil {
		down()
		return nil, fmt.Errorf("up.sh start: %w", err)
	}
	return down, nil
}

// pid is that of a program of up's.
func (b *bench) pid(name string) (string, error) {
	pid, err := os.ReadFile(filepath.Join(b.work, "run", name+".pid"))
	return strings.TrimSpace(string(pid)), err
}

// build makes the yard's programs, unless they are there, and ours.
func (b *bench) build(ctx context.Context) error {
	for _, name := range []string{"emitter", "drain2", "gorp", "beh", "kar"} {
		if _, err := os.Stat(filepath.Join(b.work, name)); err != nil {
			if err := b.script(ctx, "build.sh").Run(); err != nil {
				return fmt.Errorf("build.sh: %w", err)
			}
			break
		}
	}
	for _, name := range []string{"nginx", "haproxy", "wrk", "flock", "chrt", "python3"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: apt-get install nginx-light haproxy wrk util-linux python3", err)
		}
	}
	if err := b.command(ctx, "go", "build", "-trimpath", "-o", b.proxy(), "./cmd/proxy").Run(); err != nil {
		return fmt.Errorf("go build ./cmd/proxy: %w", err)
	}
	return nil
}

func (b *bench) proxy() string { return filepath.Join(b.work, "streamgauge-proxy") }

// launch starts a program that is to listen on addr.
func (b *bench) launch(ctx context.Context, addr string, cmd *exec.Cmd) (*yard.Program, error) {
	return yard.Start(ctx, cmd, yard.Listens(addr))
}

// start runs a proxy of ours as it comes, metering, detection and metrics on, but
// for what the flags say; as nice as up.sh's.
func (b *bench) start(ctx context.Context, upstream, data string, flags ...string) (*yard.Program, error) {
	host, port, err := net.SplitHostPort(data)
	if err != nil {
		return nil, err
	}
	// Each has its admin port ten thousand above.
	return b.launch(ctx, data, b.command(ctx, "nice", append([]string{"-n", "-15", b.proxy(), "--upstream", upstream, "--listen", data, "--admin", host + ":1" + port,
		"--models-every", "off", "--model", "m", "--drain", "1s", "--log-level", "warn"}, flags...)...))
}

// alone makes sure that no other run uses the yard's ports or folder: each would
// measure the other's programs and end them. The lock goes with the process.
func (b *bench) alone(addrs ...string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(b.work, "run"), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(b.work, "run", "benchproxy.lock"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another run of this program holds %s: %w", f.Name(), err)
	}
	for _, addr := range addrs {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("a port of the yard is taken: %w", err)
		}
		ln.Close()
	}
	return func() { f.Close() }, nil
}
