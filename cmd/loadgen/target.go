package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/engine"
)

// target builds the server's address, credentials and TLS from the settings.
func target(c *configs.Loadgen) (*engine.Target, error) {
	t, err := engine.ParseURL(c.URL)
	if err != nil {
		return nil, program.Usage(fmt.Errorf("--url: %w", err))
	}
	if t.Key, err = c.APIKey(); err != nil {
		return nil, program.Usage(err)
	}
	t.MetricsURL, t.Header = c.EngineMetrics, c.Header
	if t.TLS, err = program.ClientTLS(c.CA, c.Cert, c.TLSKey, c.Insecure); err != nil {
		return nil, program.Usage(err)
	}
	return &t, nil
}

// oneServer reads the settings of a command that asks one server something.
func oneServer(fs *pflag.FlagSet) (configs.Loadgen, configs.Loaded, *engine.Target, error) {
	c, loaded, err := configs.LoadLoadgen(fs)
	if err == nil {
		err = loaded.Require("url")
	}
	if err != nil {
		return c, loaded, nil, program.Usage(err)
	}
	t, err := target(&c)
	return c, loaded, t, err
}
