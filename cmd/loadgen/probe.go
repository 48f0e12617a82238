package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/engine"
)

// serverKeys are the settings that say how to reach a server.
var serverKeys = []string{"url", "model", "endpoint", "header", "api-key-file", "ca", "cert", "key", "insecure", "engine-metrics"}

func newProbe(s streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "probe --url URL",
		Short:   "say what a server is, with the source of each fact",
		Example: "  loadgen probe --url http://127.0.0.1:8000",
		Args:    program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, t, err := oneServer(cmd.Flags())
			if err != nil {
				return err
			}
			return s.heed(cmd.Context(), func(ctx context.Context, s streams) error {
				info, err := engine.Probe(ctx, t, c.Model)
				if err != nil {
					return err
				}
				sw, err := engine.Negotiate(ctx, t, info, engine.Defaults(info.Kind, false), engine.BodyInput{
					Endpoint: c.Endpoint, Model: info.Model, Prompt: "Hello", MaxTokens: 1,
				})
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(s.out).Encode(struct {
						engine.Info
						Switches engine.Switches `json:"switches"`
					}{info, sw})
				}
				return printFacts(s, info, sw)
			})
		},
	}
	configs.Register(cmd.Flags(), configs.LoadgenKeys().Only(serverKeys...))
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func printFacts(s streams, info engine.Info, sw engine.Switches) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, f := range info.Facts {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, f.Value, f.Source)
	}
	fmt.Fprintf(w, "sends\t%s\taccepted in a one-token request\n", strings.Join(sw.Sent(), " "))
	if len(sw.Dropped) > 0 {
		fmt.Fprintf(w, "refused\t%s\twill not be sent\n", strings.Join(sw.Dropped, " "))
	}
	return w.Flush()
}
