package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/proxy"
	"golang.org/x/sys/unix"
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

// partMistakes asks the proxy about the settings whose rules are its own, one flag
// at a time, so that each sentence names the flag.
func partMistakes(cfg *proxy.Config) (errs []error) {
	for _, part := range []struct {
		flag string
		cfg  proxy.Config
	}{
		{"policy", proxy.Config{Policies: cfg.Policies, NoDetect: cfg.NoDetect}},
		{"inject-usage", proxy.Config{InjectUsage: cfg.InjectUsage}},
		{"health-path", proxy.Config{HealthPath: cfg.HealthPath}},
		{"admin-token-file", proxy.Config{AdminToken: cfg.AdminToken}},
	} {
		part.cfg.Upstreams = []string{"http://any"} // it wants one
		if err := part.cfg.Validate(); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				errs = append(errs, fmt.Errorf("--%s: %s", part.flag, line))
			}
		}
	}
	return errs
}

// recordMistake says why the record file could not be written, without making it.
func recordMistake(path string) error {
	if path == "" {
		return nil
	}
	st, err := os.Stat(path)
	switch {
	case err == nil && st.IsDir():
		return fmt.Errorf("--record: %s is a folder, not a file", path)
	case err == nil:
		err = unix.Access(path, unix.W_OK)
	case errors.Is(err, os.ErrNotExist):
		err = unix.Access(filepath.Dir(path), unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return fmt.Errorf("--record: %s cannot be written: %w", path, err)
	}
	return nil
}
