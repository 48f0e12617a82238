package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/report"
)

func newReport(s streams) *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "report RUN.ndjson…",
		Short: "remake a report from run files",
		Long: "Remakes any report from run files alone; several files stand one after the other.\n" +
			"A file is a run file, a JSON report of one run, or the JSON of a published matrix.",
		Example: "  loadgen report streamgauge-20260102-030405/run.ndjson --format markdown -o matrix.md",
		Args:    program.SomeFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			var runs []*report.Source
			for _, path := range args {
				r, err := report.ReadFile(path)
				if err != nil {
					return err
				}
				for _, bad := range r.Bad {
					fmt.Fprintf(s.err, "%s: line %d is left out: %v\n", path, bad.Line, bad.Err)
				}
				runs = append(runs, r)
			}
			if err := report.Write(io.Discard, format); err != nil {
				return program.Usage(err)
			}
			write := func(w io.Writer) error { return report.WriteSources(w, format, runs...) }
			if out == "" || out == "-" {
				return write(s.out)
			}
			return writeFile(out, write)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", strings.Join(report.Formats(), ", "))
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write; empty or - is stdout")
	return cmd
}
