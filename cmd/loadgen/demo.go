package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/proxy"
	"github.com/streamgauge/streamgauge/sim"
)

func newDemo(s streams) *cobra.Command {
	var out string
	var l look
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "a whole small matrix with nothing installed, in under a minute",
		Long: "Starts a simulated engine, our proxy in front of it and a run against that, all in this process on loopback\n" +
			"ports of the system's choice. The matrix has valid, looped, salvaged and over-capacity cells. What the engine\n" +
			"really did is written beside the run file as truth.json.",
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				out = "streamgauge-demo-" + time.Now().UTC().Format("20060102-150405")
			}
			return s.heed(cmd.Context(), func(ctx context.Context, s streams) error {
				_, _, err := s.demo(ctx, out, l)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder for the run file and the reports (default streamgauge-demo-<UTC time>/)")
	cmd.Flags().BoolVar(&l.quiet, "quiet", false, "no progress on stderr")
	cmd.Flags().BoolVar(&l.plain, "no-tui", false, "plain lines instead of a live screen")
	return cmd
}

// demo runs the demo profile's suggested matrix into dir and returns the run
// beside the engine's own log.
func (s streams) demo(ctx context.Context, dir string, l look) (*matrix.Run, *sim.Log, error) {
	profile, err := sim.Lookup("demo")
	if err != nil {
		return nil, nil, err
	}
	file, err := create(dir, "") // the engine of an earlier demo is gone, so its run cannot go on
	if err != nil {
		return nil, nil, err
	}
	stage, err := raise(ctx, profile)
	if err != nil {
		return nil, nil, errors.Join(err, file.discard())
	}
	t, err := engine.ParseURL("http://" + stage.data.Addr().String())
	if err != nil {
		return nil, nil, errors.Join(err, file.discard(), stage.strike(ctx))
	}
	plan := profile.Suggested
	cfg := loadgen.Config{
		Contexts: plan.Contexts, Concurrency: plan.Concurrency, MaxTokens: plan.MaxTokens,
		Duration: plan.Duration, Settle: plan.Settle, PrefillTime: 2 * time.Second,
		ProxyAdmin: "http://" + stage.admin.Addr().String(),
		Tool:       "streamgauge " + program.Version(),
		Notes:      map[string]string{"engine": "simulated, profile " + profile.Name},
	}
	if !l.quiet {
		fmt.Fprintf(s.err, "simulated engine %s behind a proxy on http://%s, metrics on http://%s/metrics\n",
			profile.Model, stage.data.Addr(), stage.admin.Addr())
	}
	run, err := s.measureInto(ctx, file, cfg, loadgen.Deps{Target: &t}, l)
	err = errors.Join(err, stage.strike(ctx))
	if run == nil {
		return nil, nil, err
	}
	truth := stage.engine.Truth()
	return run, truth, errors.Join(err, writeFile(filepath.Join(dir, "truth.json"), truth.WriteJSON))
}

// stage is a simulated engine behind a proxy, on loopback.
type stage struct {
	engine      *sim.Server
	proxy       *proxy.Proxy
	data, admin net.Listener
	done        chan error
	servers     int
}

// raise starts the engine and the proxy.
func raise(ctx context.Context, p sim.Profile) (*stage, error) {
	st := &stage{engine: sim.New(p, sim.Options{Seed: 1}), done: make(chan error, 3)}
	listen := func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	back, err := listen()
	if err != nil {
		return nil, err
	}
	st.serve(func() error { return st.engine.Serve(back) })
	st.proxy, err = proxy.New(proxy.Config{
		Upstreams: []string{"http://" + back.Addr().String()}, Drain: time.Second, Version: program.Version(),
	}, zerolog.Nop())
	if err != nil {
		return nil, errors.Join(err, st.strike(ctx))
	}
	if st.data, err = listen(); err == nil {
		st.serve(func() error { return st.proxy.Serve(st.data) })
		if st.admin, err = listen(); err == nil {
			st.serve(func() error { return st.proxy.ServeAdmin(st.admin) })
		}
	}
	if err != nil {
		return nil, errors.Join(err, st.strike(ctx))
	}
	return st, nil
}

func (st *stage) serve(f func() error) {
	st.servers++
	go func() { st.done <- f() }()
}

// strike stops everything and waits for it.
func (st *stage) strike(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), simShutdown)
	defer cancel()
	var errs []error
	if st.proxy != nil {
		errs = append(errs, st.proxy.Shutdown(ctx))
	}
	errs = append(errs, st.engine.Shutdown(ctx))
	for range st.servers {
		errs = append(errs, <-st.done)
	}
	return errors.Join(errs...)
}
