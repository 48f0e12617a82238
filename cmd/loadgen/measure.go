package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/report"
	"github.com/streamgauge/streamgauge/stamp"
)

// runFile is the name of the run file in the folder of --out.
const runFile = "run.ndjson"

func newMeasure(s streams, name string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " --url URL",
		Short: "measure the speed test matrix of a server",
		Long: "Holds each number of concurrent streams steady over each context length and prints the matrix: prefill per\n" +
			"context, and for each context and concurrency total and per-request tok/s, TTFT, time between tokens, active\n" +
			"and completed requests, output tokens, and a status that says whether to believe it.",
		Example: "  loadgen --url http://127.0.0.1:8000 --concurrency 1..128\n" +
			"  loadgen --url http://127.0.0.1:9000 --proxy-admin http://127.0.0.1:9464 --contexts 8k,32k,max",
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, loaded, err := configs.LoadLoadgen(cmd.Flags())
			if err == nil {
				err = loaded.Require("url")
			}
			if err != nil {
				return program.Usage(err)
			}
			for _, w := range loaded.Warnings {
				fmt.Fprintln(s.err, "warning:", w)
			}
			return s.measure(cmd.Context(), &c, &loaded)
		},
	}
	configs.Register(cmd.Flags(), configs.LoadgenKeys())
	return cmd
}

func (s streams) measure(ctx context.Context, c *configs.Loadgen, loaded *configs.Loaded) error {
	t, err := target(c)
	if err != nil {
		return err
	}
	cfg := runConfig(c, loaded)
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
	if c.DryRun {
		plan, err := loadgen.NewPlan(cfg, info)
		if err != nil {
			return err
		}
		return printPlan(s.out, &plan)
	}
	dir := c.Out
	if dir == "" {
		dir = "streamgauge-" + time.Now().UTC().Format("20060102-150405")
	}
	show := &screen{w: s.err, quiet: c.Quiet, live: !c.NoTUI && program.Terminal(s.err)}
	_, err = s.runInto(ctx, dir, cfg, deps, show)
	return err
}

// runInto runs a matrix into a folder, writes the reports beside the run file
// and prints the matrix. The error carries the exit code.
func (s streams) runInto(ctx context.Context, dir string, cfg loadgen.Config, deps loadgen.Deps, show *screen) (*matrix.Run, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, program.Usage(fmt.Errorf("--out: %w", err))
	}
	path := filepath.Join(dir, runFile)
	w, err := matrix.Create(path)
	if err != nil {
		return nil, program.Usage(fmt.Errorf("--out: %w", err))
	}
	deps.Writer, deps.Live, deps.Progress = w, &loadgen.Live{}, show.event
	stop := show.watch(deps.Live)
	outcome, failed := loadgen.Run(ctx, cfg, deps)
	stop()
	failed = errors.Join(failed, w.Close())
	if outcome.Header.Type == "" { // nothing was begun: leave nothing behind
		return nil, errors.Join(failed, os.Remove(path), removeIfEmpty(dir))
	}
	run, err := matrix.ReadFile(path)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	err = errors.Join(report.Write(s.out, "text", run), writeReports(dir, run))
	show.line("run file and reports: " + dir + string(filepath.Separator))
	return run, errors.Join(verdict(outcome, failed), err)
}

// writeReports writes every format beside the run file.
func writeReports(dir string, run *matrix.Run) error {
	var errs []error
	for _, format := range report.Formats() {
		errs = append(errs, writeFile(filepath.Join(dir, "report."+report.Extension(format)), func(w io.Writer) error {
			return report.Write(w, format, run)
		}))
	}
	return errors.Join(errs...)
}

// removeIfEmpty takes a folder back that was made for nothing; one that holds
// something stays.
func removeIfEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return nil
	}
	return os.Remove(dir)
}

// verdict maps the end of a run to an exit code.
func verdict(o loadgen.Outcome, failed error) error {
	switch {
	case failed != nil:
		return &program.Exit{Code: program.Failed, Err: failed}
	case o.Outcome == loadgen.Stopped:
		return &program.Exit{Code: program.Interrupted}
	}
	n := 0
	for i := range o.Cells {
		if o.Cells[i].Status == matrix.Failed {
			n++
		}
	}
	if n > 0 {
		return &program.Exit{Code: program.Failed, Err: fmt.Errorf("%d of %d cells failed; the report says why", n, len(o.Cells))}
	}
	return nil
}

// runConfig makes a run's settings. Where the configuration's 0 says "none" and
// the run's 0 says "default", a negative value says none.
func runConfig(c *configs.Loadgen, loaded *configs.Loaded) loadgen.Config {
	cfg := loadgen.Config{
		Model: c.Model, Endpoint: c.Endpoint, Concurrency: c.Concurrency,
		Duration: c.Duration, Settle: none(c.Settle), MaxTokens: c.MaxTokens, MaxTime: c.MaxTime,
		ForceLength: c.ForceLength, OnLoop: loadgen.OnLoop(c.OnLoop), Prefix: loadgen.Prefix(c.Prefix),
		KVRule: matrix.KVRule(c.KVRule), KVTokens: c.KVTokens,
		Temperature: c.Temperature, TopP: c.TopP, Thinking: c.Thinking, Effort: c.ReasoningEffort,
		Extra: c.ExtraBody, Ask: c.Ask,
		TTFTTimeout: c.TTFTTimeout, StallTimeout: c.StallTimeout, ConnectTimeout: c.ConnectTimeout,
		MaxFailed: none(c.MaxFailed), Repeat: c.Repeat, Seed: c.Seed,
		Limits:     c.Limits(),
		ProxyAdmin: c.ProxyAdmin, Tool: "streamgauge " + program.Version(), Notes: map[string]string{},
	}
	if loaded.Given("contexts") {
		cfg.Contexts = contexts(c.Contexts)
	}
	// A seed that somebody chose gives the same bodies again; else every run has
	// a salt of its own, so that its prefill rows do not meet a warm cache.
	if src := loaded.Sources["seed"]; src != configs.FromFlag && src != configs.FromEnv && !loaded.Given("seed") {
		cfg.Salt = time.Now().UTC().Format("20060102150405.000000000")
	}
	for _, p := range c.Notes {
		cfg.Notes[p.Name] = p.Value
	}
	return cfg
}

func none[T float64 | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

// contexts maps the configuration's word for the largest context to the run's.
func contexts(in []int) []int {
	out := make([]int, len(in))
	for i, l := range in {
		if out[i] = l; l == configs.Max {
			out[i] = loadgen.Max
		}
	}
	return out
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

// printPlan prints what a run would do, with each cell's fit arithmetic.
func printPlan(w io.Writer, p *loadgen.Plan) error {
	var b strings.Builder
	for _, s := range p.Steps {
		what := fmt.Sprintf("%-7s %8d × %-4d", s.Phase, s.Context, s.Concurrency)
		if s.Fit.OK {
			fmt.Fprintf(&b, "%s  run, about %s: %s\n", what, s.Estimate.Round(time.Second), s.Fit.Message)
		} else {
			fmt.Fprintf(&b, "%s  over capacity (%s): %s\n", what, s.Fit.Reason, s.Fit.Message)
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	fmt.Fprintf(&b, "%d of %d steps run, at least %s and the waits for first tokens; nothing was sent but the probe\n",
		p.Runnable(), len(p.Steps), p.Estimate.Round(time.Second))
	_, err := io.WriteString(w, b.String())
	return err
}
