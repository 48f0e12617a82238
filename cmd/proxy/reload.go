package main

import (
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/proxy"
)

// live are the settings that a running proxy takes from a reload.
var live = []string{"policy", "inject-usage", "listen-cert", "listen-key", "ca", "cert", "key", "insecure"}

// reload reads the configuration again, files and certificates included. What is
// wrong in it is logged, and then nothing changes; what cannot change in a running
// proxy is named.
func reload(p *proxy.Proxy, fs *pflag.FlagSet, begun configs.Loaded, log zerolog.Logger) {
	cfg, d, err := settings(fs)
	if err == nil {
		err = p.Reload(cfg)
	}
	if err != nil {
		log.Error().Str("mistakes", strings.ReplaceAll(err.Error(), "\n", "; ")).Msg("reload: nothing was changed")
		return
	}
	if names := changed(begun, d.loaded); len(names) > 0 {
		log.Warn().Strs("settings", names).Msg("reload: these are taken at the next start only")
	}
	log.Info().Int("policies", len(cfg.Policies)).Strs("inject_usage", cfg.InjectUsage).Msg("reload: policies and certificates are those of now")
}

// changed names the settings that differ and are not live.
func changed(was, is configs.Loaded) (names []string) {
	before := map[string]string{}
	for _, s := range was.Settings() {
		before[s.Name] = s.Value
	}
	for _, s := range is.Settings() {
		if before[s.Name] != s.Value && !slices.Contains(live, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}
