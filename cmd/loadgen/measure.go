package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/stamp"
)

func newMeasure(s streams, name string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " --url URL",
		Short: "measure the speed test matrix of a server",
		Long: "Holds each number of concurrent streams steady over each context length and prints the matrix: prefill per\n" +
			"context, and for each context and concurrency total and per-request tok/s, TTFT, time between tokens, active\n" +
			"and completed requests, output tokens, and a status that says whether to believe it.",
		Example: "  loadgen --url http://127.0.0.1:8000 --concurrency 1..128\n" +
			"  loadgen --url http://127.0.0.1:9000 --proxy-admin http://127.0.0.1:9464 --contexts 8k,32k,max\n" +
			"  loadgen --resume streamgauge-20260102-030405/run.ndjson",
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, loaded, err := configs.LoadLoadgen(cmd.Flags())
			if err == nil && c.Resume == "" {
				err = loaded.Require("url")
			}
			if err != nil {
				return program.Usage(err)
			}
			for _, w := range loaded.Warnings {
				fmt.Fprintln(s.err, "warning:", w)
			}
			return s.heed(cmd.Context(), func(ctx context.Context, s streams) error {
				return s.measure(ctx, &c, &loaded)
			})
		},
	}
	configs.Register(cmd.Flags(), configs.LoadgenKeys())
	return cmd
}

func (s streams) measure(ctx context.Context, c *configs.Loadgen, loaded *configs.Loaded) (err error) {
	var file *runFile
	if c.Resume != "" {
		if file, err = s.reopen(c.Resume); err != nil {
			return err
		}
		// Until the first line is written the file is as it was.
		defer func() { err = errors.Join(err, file.close()) }()
		adoptServer(c, loaded, &file.old.Header)
	}
	t, err := target(c)
	if err != nil {
		return err
	}
	cfg := runConfig(c, loaded)
	if file != nil {
		adopt(&cfg, loaded, file.old)
	}
	if err := cfg.Validate(); err != nil {
		return program.Usage(err)
	}
	deps := loadgen.Deps{Target: t, Dialer: stamp.Dialer{User: c.Stamps == "user"}}
	if c.AdminTokenFile != "" {
		token, err := configs.ReadSecret(c.AdminTokenFile)
		if err != nil {
			return program.Usage(err)
		}
		deps.Admin = bearer{token, http.DefaultTransport}
	}
	info, err := engine.Probe(ctx, t, c.Model)
	if err != nil {
		return err
	}
	deps.Info = &info
	plan, err := loadgen.NewPlan(cfg, info)
	if err != nil {
		return err
	}
	if c.DryRun {
		return printPlan(s.out, &plan, file.cells())
	}
	if file == nil {
		dir := c.Out
		if dir == "" {
			dir = "streamgauge-" + time.Now().UTC().Format("20060102-150405")
		}
		if file, err = create(dir, ", or --resume "+filepath.Join(dir, runFileName)+" to go on with that run"); err != nil {
			return err
		}
	}
	run, err := s.measureInto(ctx, file, cfg, deps, look{quiet: c.Quiet, plain: c.NoTUI, alone: true})
	if run != nil && err != nil && !c.Quiet {
		fmt.Fprintln(s.err, "to go on: loadgen --resume "+file.path)
	}
	return err
}

// bearer adds the token of the proxy's admin port.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}
