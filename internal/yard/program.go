package yard

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// patience bounds the wait for a program to begin and to end.
const patience = 10 * time.Second

// Program is a child process that serves.
type Program struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how, once ended is closed
}

// Start runs cmd and waits until answers returns nil. An error says how the program
// ended, or what answers said last, and what stood on stderr if cmd does not say
// where that goes. The program has then been stopped.
func Start(ctx context.Context, cmd *exec.Cmd, answers func() error) (*Program, error) {
	var said bytes.Buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &said
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Program{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	if err := p.await(ctx, answers); err != nil {
		p.Stop(syscall.SIGTERM)
		err = fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
		if said.Len() > 0 {
			err = fmt.Errorf("%w\n%s", err, said.Bytes())
		}
		return nil, err
	}
	return p, nil
}

func (p *Program) await(ctx context.Context, answers func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for {
		err := answers()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return fmt.Errorf("it ended at once: %w", p.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit:
			return fmt.Errorf("it does not answer: %w", err)
		}
	}
}

// Stop tells the program to end, waits for that, and reports whether it did: one
// that does not is killed. It may be called again.
func (p *Program) Stop(by os.Signal) (ended bool) {
	_ = p.cmd.Process.Signal(by) // an error: it has ended
	select {
	case <-p.ended:
		return true
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return false
	}
}

// Alive reports whether the program has not ended.
func (p *Program) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// PID is the process's number.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Answers asks url, for Start; any answer will do.
func Answers(url string) func() error {
	return func() error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}

// Listens connects to addr, for Start.
func Listens(addr string) func() error {
	return func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// FreeAddr returns a loopback address that was free a moment ago.
func FreeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// Build compiles the package pkg of the module in dir to the file program.
func Build(ctx context.Context, dir, pkg, program string) error {
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", dir, "-o", program, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("go build -C %s %s: %w\n%s", dir, pkg, err, out)
	}
	return nil
}
