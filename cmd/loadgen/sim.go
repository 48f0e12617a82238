package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/sim"
)

func newSim(s streams) *cobra.Command {
	var profile, listen, truth string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "serve a simulated engine",
		Long: "Serves a simulated engine that speaks as vLLM, SGLang or llama.cpp do, with known speeds, KV capacity,\n" +
			"prompt cache and loops, until Ctrl-C. --profile list names the profiles; three are the published matrices.",
		Example: "  loadgen sim --profile laguna-xs-vllm --listen 127.0.0.1:8000\n  loadgen --url http://127.0.0.1:8000 --contexts 8k,32k --concurrency 1..8",
		Args:    program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if profile == "list" {
				return listProfiles(s.out)
			}
			p, err := sim.Lookup(profile)
			if err != nil {
				return program.Usage(err)
			}
			return s.heed(cmd.Context(), func(ctx context.Context, s streams) error {
				return serveSim(ctx, s.err, p, sim.Options{Seed: seed}, listen, truth)
			})
		},
	}
	cmd.Flags().StringVar(&profile, "profile", "demo", "engine to simulate; list names them")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8000", "address to serve on")
	cmd.Flags().StringVar(&truth, "truth", "", "file that takes the log of what was served, as JSON, at the end")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of texts, lengths and loops")
	return cmd
}

func listProfiles(w io.Writer) error {
	for _, name := range sim.Profiles() {
		p, err := sim.Lookup(name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%-20s %-8s limit %d, KV %d tokens\n", name, p.Dialect, p.MaxModelLen, p.KVTokens); err != nil {
			return err
		}
	}
	return nil
}

// simShutdown bounds the wait for open streams of the simulated engine.
const simShutdown = 5 * time.Second

func serveSim(ctx context.Context, log io.Writer, p sim.Profile, o sim.Options, listen, truth string) error {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("the simulated engine cannot listen: %w", err)
	}
	srv := sim.New(p, o)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	fmt.Fprintf(log, "simulating %s (%s) on http://%s, Ctrl-C ends it\n", p.Name, strings.TrimSpace(p.Model), ln.Addr())
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), simShutdown)
	defer cancel()
	err = errors.Join(srv.Shutdown(stop), <-done)
	if truth != "" {
		err = errors.Join(err, writeFile(truth, srv.Truth().WriteJSON))
	}
	return err
}

// writeFile makes a file of what write gives, whole or not at all: a disk that
// fills up leaves no half of one.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Close()); err == nil {
		return nil
	}
	if info, serr := os.Stat(path); serr == nil && info.Mode().IsRegular() {
		_ = os.Remove(path) // what is told is why it is not whole
	}
	var known *fs.PathError
	if errors.As(err, &known) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
