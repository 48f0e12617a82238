package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

// onceKeys are the settings of a run that one request has too.
var onceKeys = append([]string{
	"max-tokens", "force-length", "respect-eos", "temperature", "top-p", "thinking", "reasoning-effort", "extra-body",
	"ttft-timeout", "stall-timeout", "connect-timeout", "stamps",
	"detect-cycles", "detect-chars", "detect-whitespace", "detect-period-bytes", "detect-period-chars",
}, serverKeys...)

func newOnce(s streams) *cobra.Command {
	var prompt string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "once --url URL",
		Short: "measure one request: its text, then its record",
		Long: "Sends one prompt, streams the reply to the terminal and prints its record: a curl -w for token streams.\n" +
			"With --json stdout holds the record alone. Exit code 0 when the reply completed, else 1.",
		Example: "  loadgen once --url http://127.0.0.1:8000 --prompt 'Why is the sky blue?' --max-tokens 200",
		Args:    program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, loaded, t, err := oneServer(cmd.Flags())
			if err != nil {
				return err
			}
			var show func(wire.Channel, int, []byte)
			if !asJSON {
				show = func(_ wire.Channel, _ int, text []byte) { _, _ = s.out.Write(text) }
			}
			deps := loadgen.Deps{Target: t, Dialer: stamp.Dialer{User: c.Stamps == "user"}}
			return s.heed(cmd.Context(), func(ctx context.Context, s streams) error {
				rec, err := loadgen.Once(ctx, runConfig(&c, &loaded), deps, prompt, show)
				if err != nil {
					return err
				}
				return s.printRecord(rec, asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&prompt, "prompt", "", "prompt to send as it stands; empty: a request for long, varied text")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the record alone, as one line")
	configs.Register(cmd.Flags(), configs.LoadgenKeys().Only(onceKeys...))
	return cmd
}

func (s streams) printRecord(rec *stream.Record, asJSON bool) error {
	if !asJSON {
		fmt.Fprintf(s.out, "\n\n%s\n\n", summary(rec))
	}
	if _, err := fmt.Fprintf(s.out, "%s\n", rec.Append(nil)); err != nil {
		return err
	}
	switch {
	case rec.End == stream.Completed:
		return nil
	case rec.Error != "":
		return fmt.Errorf("the stream ended as %s (%s): %s", rec.End, rec.Reason, rec.Error)
	}
	return fmt.Errorf("the stream ended as %s (%s)", rec.End, rec.Reason)
}

// summary is the record in one line for people.
func summary(r *stream.Record) string {
	ms := func(n stream.Null[int64]) string {
		if !n.OK {
			return "-"
		}
		return fmt.Sprintf("%.2f ms", float64(n.V)/1e6)
	}
	tbt := "-"
	if r.TBTNS.OK {
		tbt = fmt.Sprintf("%.2f ms (%.1f tok/s)", r.TBTNS.V/1e6, 1e9/r.TBTNS.V)
	}
	return fmt.Sprintf("%s: TTFT %s, time between tokens %s, gaps p50 %s p99 %s, %d tokens (%s) in %d events, %d coalesced, %s stamps",
		r.End, ms(r.TTFTNS), tbt, ms(r.Gaps.P50NS), ms(r.Gaps.P99NS), r.Tokens, r.TokensFrom, r.GeneratedEvents, r.CoalescedEvents, r.Stamps)
}
