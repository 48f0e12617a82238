// Package child runs a test binary as the program that it tests, in a process of
// its own: for tests of signals, exit codes, pipes and terminals. TestMain looks
// at the variable Role and plays what it says.
package child

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Role is the variable that makes a test binary something else than tests.
const Role = "CMD_TEST_ROLE"

// Patience bounds each wait for a child, far above what any takes.
const Patience = time.Minute

// Child is this program as a process of its own.
type Child struct {
	t      testing.TB
	Cmd    *exec.Cmd
	lines  chan string // of stderr
	Stdout bytes.Buffer
	Stderr bytes.Buffer // whole, once ended
	ended  chan error
}

// Spawn starts the test binary in a role.
func Spawn(t testing.TB, dir, role string, args ...string) *Child {
	t.Helper()
	return Start(t, exec.CommandContext(t.Context(), os.Args[0], args...), dir, role)
}

// Start starts what cmd says, with the environment of a role: the program itself, or
// a shell that runs it.
func Start(t testing.TB, cmd *exec.Cmd, dir, role string) *Child {
	t.Helper()
	c := &Child{t: t, Cmd: cmd, lines: make(chan string, 1024), ended: make(chan error, 1)}
	cmd.Dir, cmd.Env = dir, Env(role)
	if cmd.Stdout == nil {
		cmd.Stdout = &c.Stdout
	}
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		in := bufio.NewScanner(pipe)
		for in.Scan() {
			c.Stderr.WriteString(in.Text() + "\n")
			select {
			case c.lines <- in.Text():
			default: // nobody waits for the thousandth line
			}
		}
		close(c.lines)
		c.ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // most have ended
		<-gone
	})
	return c
}

// Env is the environment of a role, without settings of ours.
func Env(role string) []string {
	env := []string{Role + "=" + role, "NO_PROXY=*"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "STREAMGAUGE_") && !strings.HasPrefix(v, "NO_COLOR=") && !strings.HasPrefix(v, Role) {
			env = append(env, v)
		}
	}
	return env
}

// Says waits for a line of stderr that contains text.
func (c *Child) Says(text string) string {
	c.t.Helper()
	limit := time.After(Patience)
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("the program ended without saying %q:\n%s", text, c.Stderr.String())
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-limit:
			c.t.Fatalf("the program does not say %q", text)
		}
	}
}

// Signal sends one.
func (c *Child) Signal(s os.Signal) {
	c.t.Helper()
	if err := c.Cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// Code waits for the end and returns the exit code.
func (c *Child) Code() int {
	c.t.Helper()
	select {
	case err := <-c.ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}
	case <-time.After(Patience):
		c.t.Fatal("the program does not end")
	}
	if p := c.Stderr.String(); strings.Contains(p, "goroutine ") || strings.Contains(p, "panic:") {
		c.t.Errorf("the program panicked:\n%s", p)
	}
	return c.Cmd.ProcessState.ExitCode()
}

// WantCode waits for the end and checks how it was.
func (c *Child) WantCode(want int) {
	c.t.Helper()
	if got := c.Code(); got != want {
		c.t.Errorf("exit code %d, want %d; stderr:\n%s", got, want, c.Stderr.String())
	}
}

// Complaints are the lines of stderr that begin with the program's name.
func (c *Child) Complaints(program string) []string {
	var out []string
	for line := range strings.Lines(c.Stderr.String()) {
		if strings.HasPrefix(line, program+": ") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}
