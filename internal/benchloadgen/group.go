package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// group is what a program and the processes it started used together.
type group struct {
	began     time.Time
	samples   []use
	rss       int // peak, bytes
	processes int // most at once
}

// use is the processor time of a group up to an instant.
type use struct {
	at  time.Time
	cpu time.Duration
}

// sampleEvery is how often a group is looked at. A process that is born and gone
// in between is not seen: its parent's account has its time.
const sampleEvery = 100 * time.Millisecond

// ticks is the unit of processor time in /proc: USER_HZ, 100 on every Linux that
// Go runs on.
const ticks = 100

// watchGroup runs a program to its end in a session of its own, and keeps
// account of all processes in it.
func watchGroup(cmd *exec.Cmd) (group, error) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	g := group{began: time.Now()}
	if err := cmd.Start(); err != nil {
		return g, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	seen := map[int]time.Duration{} // by process, those that are gone too
	for {
		select {
		case err := <-done:
			if err != nil {
				return g, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, tail(said.Bytes(), 4<<10))
			}
			g.finish(cmd.ProcessState)
			return g, nil
		case now := <-tick.C:
			g.sample(now, cmd.Process.Pid, seen)
		}
	}
}

// finish adds what the parent's own account says at the end, if that is more
// than was seen.
func (g *group) finish(s *os.ProcessState) {
	last := use{at: time.Now(), cpu: s.UserTime() + s.SystemTime()}
	if n := len(g.samples); n > 0 {
		last.cpu = max(last.cpu, g.samples[n-1].cpu)
	}
	g.samples = append(g.samples, last)
}

// since is the processor time from an instant to the end, to the pace of sampling.
func (g *group) since(at time.Time) time.Duration {
	if len(g.samples) == 0 {
		return 0
	}
	var before time.Duration
	for _, u := range g.samples {
		if u.at.After(at) {
			break
		}
		before = u.cpu
	}
	return g.samples[len(g.samples)-1].cpu - before
}

// sample looks at the processes of a session.
func (g *group) sample(now time.Time, session int, seen map[int]time.Duration) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return
	}
	rss, n := 0, 0
	for _, dir := range dirs {
		p, err := readStat(dir)
		if err != nil || p.session != session {
			continue // gone meanwhile, or another's
		}
		seen[p.pid] = p.cpu
		rss += p.rss
		n++
	}
	var cpu time.Duration
	for _, d := range seen {
		cpu += d
	}
	g.samples = append(g.samples, use{now, cpu})
	g.rss, g.processes = max(g.rss, rss), max(g.processes, n)
}

// process is a line of /proc/PID/stat (proc_pid_stat(5)).
type process struct {
	pid, session int
	cpu          time.Duration
	rss          int // bytes
}

func readStat(dir string) (process, error) {
	line, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, err
	}
	return parseStat(string(line))
}

// parseStat reads the line. The name, in brackets, may hold brackets and spaces.
func parseStat(line string) (process, error) {
	head, _, _ := strings.Cut(line, " ")
	i := strings.LastIndexByte(line, ')')
	if i < 0 {
		return process{}, fmt.Errorf("%q is no line of stat", line)
	}
	f := strings.Fields(line[i+1:]) // f[0] is the third field, the state
	if len(f) < 22 {
		return process{}, fmt.Errorf("%q has %d fields behind its name", line, len(f))
	}
	var v [5]int
	for j, s := range []string{head, f[3], f[11], f[12], f[21]} {
		n, err := strconv.Atoi(s)
		if err != nil {
			return process{}, fmt.Errorf("%q: %w", line, err)
		}
		v[j] = n
	}
	return process{
		pid: v[0], session: v[1],
		cpu: time.Duration(v[2]+v[3]) * time.Second / ticks,
		rss: v[4] * os.Getpagesize(),
	}, nil
}

// peakOf is the most memory that a process has had, bytes; 0 when it has ended.
func peakOf(pid int) int {
	p, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(p), "VmHWM:")
	f := strings.Fields(rest)
	if len(f) < 2 || f[1] != "kB" {
		return 0
	}
	n, err := strconv.Atoi(f[0])
	if err != nil {
		return 0
	}
	return n << 10
}

// tail is the end of p, at most n bytes.
func tail(p []byte, n int) []byte { return p[max(len(p)-n, 0):] }
