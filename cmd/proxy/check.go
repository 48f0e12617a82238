package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
)

// off turns the configuration's 0 (off) into the proxy's negative (no limit);
// its own 0 means a default.
func off(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// checkConfig prints every setting with its source, or every mistake.
func checkConfig(fs *pflag.FlagSet, stdout io.Writer) error {
	_, d, err := settings(fs)
	if err != nil {
		return program.Usage(err)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, s := range d.loaded.Settings() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, s.Value, s.Source)
	}
	for _, warning := range d.warnings {
		fmt.Fprintf(w, "warning\t%s\t\n", warning)
	}
	return w.Flush()
}
