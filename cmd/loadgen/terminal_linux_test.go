package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/cmd/internal/child"
)

// terminal is a pseudo terminal with a program in its foreground.
type terminal struct {
	t             *testing.T
	master, slave *os.File
	before        unix.Termios
	cmd           *exec.Cmd

	mu     sync.Mutex
	screen bytes.Buffer  // all that was written to it
	more   chan struct{} // has a token when something was
}

// onTerminal starts the program of a role on a terminal of 80 × 24.
func onTerminal(t *testing.T, role, dir string, env []string, args ...string) *terminal {
	t.Helper()
	x := &terminal{t: t, more: make(chan struct{}, 1)}
	var err error
	// Opened for the poller, so that closing it ends the read.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("no pseudo terminals here: ", err)
	}
	x.master = os.NewFile(uintptr(fd), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if x.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	x.resize(80, 24)
	x.before = x.mode()
	x.cmd = exec.CommandContext(t.Context(), os.Args[0], args...)
	x.cmd.Dir = dir
	x.cmd.Env = append(append(child.Env(role), "TERM=xterm-256color"), env...)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = x.slave, x.slave, x.slave
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go x.read(done)
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		_ = x.master.Close()
		<-done
		_ = x.slave.Close()
	})
	return x
}

func (x *terminal) read(done chan<- struct{}) {
	defer close(done)
	p := make([]byte, 4096)
	for {
		n, err := x.master.Read(p)
		x.mu.Lock()
		x.screen.Write(p[:n])
		x.mu.Unlock()
		select {
		case x.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

// shows waits until text was written to the terminal.
func (x *terminal) shows(text string) {
	x.t.Helper()
	limit := time.After(child.Patience)
	for !strings.Contains(x.text(), text) {
		select {
		case <-x.more:
		case <-limit:
			x.t.Fatalf("the terminal does not show %q:\n%q", text, x.text())
		}
	}
}

func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) resize(width, height uint16) {
	x.t.Helper()
	raw, err := x.master.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width})
		})
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) mode() unix.Termios {
	x.t.Helper()
	m, err := unix.IoctlGetTermios(int(x.slave.Fd()), unix.TCGETS)
	if err != nil {
		x.t.Fatal(err)
	}
	return *m
}

// DEC private modes: the alternate screen, and the cursor.
const (
	altScreen, mainScreen  = "\x1b[?1049h", "\x1b[?1049l"
	hideCursor, showCursor = "\x1b[?25l", "\x1b[?25h"
)

// ends waits for the program and checks its exit code and that the terminal is
// as it was; it returns what was written after the live screen.
func (x *terminal) ends(code int) string {
	x.t.Helper()
	timer := time.AfterFunc(child.Patience, func() { _ = x.cmd.Process.Kill() })
	_ = x.cmd.Wait() // an exit code is no surprise
	timer.Stop()
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("exit code %d, want %d", got, code)
	}
	if got := x.mode(); got != x.before {
		x.t.Errorf("the terminal's mode is %+v, and was %+v", got, x.before)
	}
	_, _ = x.slave.WriteString("END")
	x.shows("END")
	text := x.text()
	if on, off := strings.LastIndex(text, altScreen), strings.LastIndex(text, mainScreen); on < 0 || off < on {
		x.t.Errorf("the alternate screen was not left: entered at %d, left at %d", on, off)
	}
	if off, on := strings.LastIndex(text, hideCursor), strings.LastIndex(text, showCursor); on < off {
		x.t.Error("the cursor is still hidden")
	}
	_, after, _ := strings.Cut(text, mainScreen)
	return after
}

// TestLiveScreen runs a matrix on a terminal and stops it by key.
func TestLiveScreen(t *testing.T) {
	t.Parallel()
	f := frontOf(t)
	for _, tc := range []struct{ name, key string }{{"q", "q"}, {"Ctrl-C, a key in raw mode", "\x03"}} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			x := onTerminal(t, "loadgen", dir, nil, small(f.URL)...)
			x.shows("measuring: context 256, concurrency 1")
			x.shows("1 active, 1 decoding")
			if x.mode() == x.before {
				t.Error("the terminal still waits for whole lines")
			}
			x.resize(120, 30)
			x.shows("q stops")
			x.press(tc.key)
			after := x.ends(130)
			if !strings.Contains(after, "All measurements") || !strings.Contains(after, "to go on: loadgen --resume out/run.ndjson") {
				t.Errorf("behind the live screen there is no report:\n%s", after)
			}
			if before, _, _ := strings.Cut(x.text(), mainScreen); strings.Contains(before, "All measurements") {
				t.Error("the report was printed into the live screen")
			}
			if run := runIn(t, filepath.Join(dir, "out")); run.End == nil || run.End.Outcome != "interrupted" {
				t.Errorf("footer %+v, want an interrupted run", run.End)
			}
		})
	}
}

// TestSecondStopLeavesTheScreen uses a run that never ends by itself: two wishes
// to stop, by whatever way, give the terminal back and end the program.
func TestSecondStopLeavesTheScreen(t *testing.T) {
	for _, tc := range []struct {
		name string
		stop func(*terminal)
	}{
		{"q", func(x *terminal) { x.press("q") }},
		{"Ctrl-C", func(x *terminal) { x.press("\x03") }},
		{"SIGTERM", func(x *terminal) {
			if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				x.t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := onTerminal(t, "stuck", t.TempDir(), nil)
			x.shows("q stops")
			tc.stop(x)
			x.shows("again leaves at once")
			tc.stop(x)
			x.ends(130)
		})
	}
}

// TestTerminalIsNotAsked: our terminal answers no question. A library that asks
// one at its start would wait five seconds for it, and the question would stand
// in the output.
func TestTerminalIsNotAsked(t *testing.T) {
	x := onTerminal(t, "loadgen", t.TempDir(), nil, "version")
	begun := time.Now()
	if err := x.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if d := time.Since(begun); d > 4*time.Second {
		t.Errorf("the version took %v", d)
	}
	x.shows("loadgen ")
	if text := x.text(); strings.Contains(text, "\x1b") {
		t.Errorf("control sequences in %q", text)
	}
}

// TestNoLiveScreen: where it would be in the way there are lines.
func TestNoLiveScreen(t *testing.T) {
	t.Parallel()
	f := frontOf(t)
	for _, tc := range []struct {
		name string
		env  []string
		args []string
	}{
		{"--no-tui", nil, []string{"--no-tui"}},
		{"colour refused", []string{"NO_COLOR=1"}, nil},
		{"a terminal that knows nothing", []string{"TERM=dumb"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := onTerminal(t, "loadgen", t.TempDir(), tc.env, small(f.URL, tc.args...)...)
			x.shows("concurrency 1 …")
			x.press("\x03") // a signal: the terminal's mode is its own
			x.shows("press Ctrl-C again")
			_ = x.cmd.Wait() // an exit code is no surprise
			if got := x.cmd.ProcessState.ExitCode(); got != 130 {
				t.Errorf("exit code %d, want 130", got)
			}
			if strings.Contains(x.text(), altScreen) {
				t.Error("the alternate screen was entered")
			}
		})
	}
}
