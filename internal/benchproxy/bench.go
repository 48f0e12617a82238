package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/streamgauge/streamgauge/internal/yard"
)

// emitter is where the yard's scripts start it.
const emitter = "http://127.0.0.1:9500"

// peer is what is measured beside ours, with the port that the yard gives it.
type peer struct{ name, url string }

var peers = []peer{{"nginx", "http://127.0.0.1:9510"}, {"haproxy", "http://127.0.0.1:9511"}, {"gorp", "http://127.0.0.1:9514"}}

// The proxies of ours. What the others are for needs many tokens or many streams:
// they sit out the rounds with few.
const (
	ours       = "ours"
	nodetect   = "ours-nodetect"
	unobserved = "ours-unobserved"
)

var own = []struct {
	name, data string
	// path is put before the one that the scripts append. The emitter decodes a
	// path before it looks it up, so it serves the same stream under this one;
	// the proxy looks at a path as it came.
	path  string
	flags []string
	few   bool
}{
	{name: ours, data: "127.0.0.1:9540", few: true},
	// Beside ours, since the bar on observing is a difference of the two, and the
	// machine's speed drifts.
	{name: unobserved, data: "127.0.0.1:9542", path: "/v1/chat/completion%73?"},
	{name: nodetect, data: "127.0.0.1:9541", flags: []string{"--detect", "off"}},
}

// fewStreams are the configurations that the proxies for comparison with
// ourselves sit out.
var fewStreams = map[string]bool{"1": true, "16": true}

// largeRounds is how often the largest configuration is run: an interval needs more
// than one round.
const largeRounds = 3

// wideStreams are the configurations before which all proxies start anew: what one
// keeps of earlier load, of ours the records of streams that are over above all, is
// not these streams' memory.
var wideStreams = map[string]bool{"1000w": true, "5000w": true}

// target is an argument of the yard's scripts.
type target struct {
	arg string
	few bool
}

// measure fills the files of rows.
func (b *bench) measure(ctx context.Context, s settings) error {
	if err := b.build(ctx); err != nil {
		return err
	}
	addrs := []string{strings.TrimPrefix(emitter, "http://")}
	for _, p := range peers {
		addrs = append(addrs, strings.TrimPrefix(p.url, "http://"))
	}
	for _, o := range own {
		addrs = append(addrs, o.data)
	}
	unlock, err := b.alone(addrs...)
	if err != nil {
		return err
	}
	defer unlock()
	down, err := b.up(ctx, "emitter")
	if err != nil {
		return err
	}
	defer down()
	targets, stop, err := b.proxies(ctx)
	defer func() { stop() }() // those that run then
	if err != nil {
		return err
	}
	for _, f := range []string{b.streams(), b.short()} {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	// What the scripts print is in their files; here one line says where they are.
	log, err := os.Create(filepath.Join(b.work, "out", "bench.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	for round := 1; round <= s.rounds; round++ {
		confs := strings.Fields(s.confs)
		if round <= largeRounds {
			confs = append(confs, strings.Fields(s.large)...)
		}
		for _, conf := range confs {
			fmt.Fprintf(b.log, "round %d of %d: %s streams\n", round, s.rounds, conf)
			if wideStreams[conf] {
				stop()
				if targets, stop, err = b.proxies(ctx); err != nil {
					return err
				}
			}
			cmd := b.script(ctx, filepath.Join("scripts", "bench.sh"), append([]string{"-f", strconv.Itoa(round), "-r", strconv.Itoa(round), "-c", conf, "-o", b.streams()},
				turn(targets, round, fewStreams[conf])...)...)
			// A group of its runs is to hold all targets: each has its own direct.
			cmd.Env = append(cmd.Env, "MAXGROUP=1000")
			if s.plain {
				cmd.Env = append(cmd.Env, "PRIO=none")
			}
			cmd.Stdout, cmd.Stderr = log, log
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("bench.sh, %s streams (%s): %w", conf, log.Name(), err)
			}
		}
	}
	if !s.posts {
		return nil
	}
	for round := 1; round <= s.rounds; round++ {
		fmt.Fprintf(b.log, "round %d of %d: short POSTs\n", round, s.rounds)
		cmd := b.command(ctx, "python3", append([]string{filepath.Join(b.scripts, "scripts", "rps.py"), "-r", "1", "-o", b.short()}, turn(targets, round, true)...)...)
		cmd.Env = append(cmd.Env, "ROUND0="+strconv.Itoa(round))
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("rps.py (%s): %w", log.Name(), err)
		}
	}
	return nil
}

// proxies starts ours and the peers; stop ends those that were started, also after an
// error.
func (b *bench) proxies(ctx context.Context) (targets []target, stop func(), err error) {
	var names []string
	var running []*yard.Program
	down := func() {}
	stop = func() {
		for _, p := range running {
			p.Stop(syscall.SIGTERM)
		}
		down()
	}
	for _, p := range peers {
		names = append(names, p.name)
	}
	ended, err := b.up(ctx, names...)
	if err != nil {
		return nil, stop, err
	}
	down = ended
	for _, o := range own {
		p, err := b.start(ctx, emitter, o.data, o.flags...)
		if err != nil {
			return nil, stop, err
		}
		running = append(running, p)
		targets = append(targets, target{fmt.Sprintf("%s=http://%s%s=%d", o.name, o.data, o.path, p.PID()), o.few})
	}
	for _, p := range peers {
		pid, err := b.pid(p.name)
		if err != nil {
			return nil, stop, err
		}
		targets = append(targets, target{p.name + "=" + p.url + "=" + pid, true})
	}
	return targets, stop, nil
}

// turn is the order of a round: each begins with the next one, so that no proxy
// always runs on the machine as the same other left it.
func turn(targets []target, round int, few bool) []string {
	var args []string
	for i := range targets {
		if t := targets[(i+round-1)%len(targets)]; t.few || !few {
			args = append(args, t.arg)
		}
	}
	return args
}
