package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/proxy"
)

// run is the program: main calls it, and tests do. It ends when ctx is done and
// the streams have drained.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return program.Execute(ctx, newRoot(stdout, stderr), args, strings.NewReader(""), stdout, stderr)
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:     "proxy --upstream URL",
		Short:   "transparent, measuring reverse proxy for inference servers",
		Long:    "Forwards every byte between clients and an inference server unchanged, and measures every token on its way.",
		Example: "  proxy --upstream http://127.0.0.1:8000 --listen :9000\n  curl http://127.0.0.1:9464/metrics",
		Args:    program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, listen, err := settings(cmd.Flags())
			if err != nil {
				return program.Usage(err)
			}
			lines := proxy.NewLines(stderr)
			defer lines.Close()
			log, err := program.Log(lines, program.Terminal(stderr), listen.logLevel, listen.logFormat)
			if err != nil {
				return program.Usage(err)
			}
			defer func() {
				if n := lines.Dropped(); n > 0 {
					log.Warn().Int64("lines", n).Msg("log: lines lost")
				}
			}()
			for _, w := range listen.warnings {
				log.Warn().Msg(w)
			}
			if listen.accessLog {
				cfg.AccessLog = lines
			}
			again := func(p *proxy.Proxy) { reload(p, cmd.Flags(), listen.loaded, log) }
			return serve(cmd.Context(), cfg, listen, log, again)
		},
	}
	configs.Register(root.Flags(), configs.ProxyKeys())
	check := &cobra.Command{
		Use: "check-config", Short: "read the settings, say every mistake, and print what holds", Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return checkConfig(cmd.Flags(), stdout) },
	}
	configs.Register(check.Flags(), configs.ProxyKeys())
	root.AddCommand(check)
	return root
}

// doors are the settings that belong to the program, not to the proxy itself.
type doors struct {
	data, admin         string // admin "off": none
	logLevel, logFormat string
	accessLog           bool
	drain               time.Duration
	warnings            []string
	loaded              configs.Loaded
}

// settings reads the configuration and makes the proxy's. Its error is every
// mistake, a line each, that names the setting.
func settings(fs *pflag.FlagSet) (proxy.Config, doors, error) {
	c, loaded, err := configs.LoadProxy(fs)
	errs := []error{err}
	read := func(name string) bool { return loaded.Sources[name] != "" } // else it is among err
	if read("upstream") {
		errs = append(errs, loaded.Require("upstream"))
	}
	cfg := proxy.Config{
		Upstreams: c.Upstreams,
		MaxBody:   c.MaxBody, BufferBody: int(c.BufferBody), MaxHeader: int(c.MaxHeader), MaxConns: c.MaxConns,
		ConnectTimeout: c.ConnectTimeout, HeaderWait: off(c.HeaderTimeout), BodyIdle: off(c.IdleTimeout),
		ClientWrite: off(c.WriteTimeout), ClientRead: off(c.ReadTimeout), ClientIdle: off(c.ClientIdle),
		UpstreamIdle: c.KeepaliveIdle, Drain: off(c.Drain), KeepHalfClosed: c.HalfClose == "stay",
		NoRelay:    read("event-loop") && !c.EventLoop,
		HealthPath: c.HealthPath, HealthEvery: c.HealthEvery,
		UserStamps: c.Stamps == "user", Models: c.Models, ModelsEvery: off(c.ModelsEvery),
		Limits: c.Limits(), NoDetect: read("detect") && !c.Detect,
		Records: c.Ring, RecordBytes: c.RingBytes,
		RecordFile: c.Record, RecordFileSize: c.RecordMaxSize, RecordFileKeep: c.RecordKeep,
		StoreText: c.StoreText, AccessShare: c.AccessLogSample,
		Version: program.Version(),
	}
	secret := func(path string, to *string) {
		if path != "" {
			var err error
			*to, err = configs.ReadSecret(path)
			errs = append(errs, err)
		}
	}
	for _, s := range c.Policies {
		policy, err := proxy.ParsePolicy(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("--policy: %w", err))
			continue
		}
		cfg.Policies = append(cfg.Policies, policy)
	}
	cfg.InjectUsage = c.InjectUsage
	errs = append(errs, partMistakes(&cfg)...)
	secret(c.AdminTokenFile, &cfg.AdminToken)
	secret(c.ModelsKeyFile, &cfg.ModelsKey)
	cfg.UpstreamTLS, err = program.ClientTLS(c.CA, c.Cert, c.TLSKey, c.Insecure)
	errs = append(errs, err)
	cfg.TLS, err = serverTLS(c.ListenCert, c.ListenKey)
	errs = append(errs, err, recordMistake(c.Record))
	if read("admin-token-file") && c.AdminTokenFile == "" && public(c.Admin) {
		errs = append(errs, publicAdmin(c.Admin))
	}
	errs = append(errs, selfMistakes(c.Upstreams, c.Listen, c.Admin)...)
	if err := errors.Join(errs...); err != nil {
		return proxy.Config{}, doors{}, err
	}
	d := doors{c.Listen, c.Admin, c.LogLevel, c.LogFormat, c.AccessLog, c.Drain, loaded.Warnings, loaded}
	return cfg, d, cfg.Validate()
}

func publicAdmin(address string) error {
	return fmt.Errorf("--admin: %s can be reached from other hosts: give --admin-token-file, or listen on 127.0.0.1", address)
}

// public reports whether an address is other hosts' to reach. A name is not looked
// up: what it turns out to be is judged when the port is open.
func public(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "" || ip != nil && !ip.IsLoopback()
}

// openAdmin opens the admin port. A name may turn out to be an address that other
// hosts reach.
func openAdmin(address string, guarded bool) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	if at := ln.Addr().String(); !guarded && public(at) {
		return nil, errors.Join(publicAdmin(at), ln.Close())
	}
	return ln, nil
}

// serve runs the proxy until ctx is done, then drains it. reload is called at
// SIGHUP.
func serve(ctx context.Context, cfg proxy.Config, d doors, log zerolog.Logger, reload func(*proxy.Proxy)) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	p, err := proxy.New(cfg, log)
	if err != nil {
		return program.Usage(err)
	}
	data, err := net.Listen("tcp", d.data)
	if err != nil {
		return errors.Join(fmt.Errorf("--listen: %w", err), p.Shutdown(ctx))
	}
	// No request is taken before both ports are known to be right.
	var admin net.Listener
	if d.admin != "off" {
		if admin, err = openAdmin(d.admin, cfg.AdminToken != ""); err != nil {
			return errors.Join(err, data.Close(), p.Shutdown(ctx))
		}
	}
	done := make(chan error, 2)
	running := 1
	go func() { done <- p.Serve(data) }()
	if admin != nil {
		running++
		go func() { done <- p.ServeAdmin(admin) }()
		log.Info().Str("admin", "http://"+admin.Addr().String()).Msg("metrics and records")
	}
	log.Info().Str("listen", data.Addr().String()).Strs("upstreams", cfg.Upstreams).Msg("forwarding")

	var errs []error
	for open := true; open; {
		select {
		case <-hup:
			reload(p)
			continue
		case <-ctx.Done():
			log.Info().Msg("told to stop, another signal does it at once")
		case err := <-done:
			running--
			errs = append(errs, err)
		}
		open = false
	}
	errs = append(errs, p.Shutdown(context.WithoutCancel(ctx)))
	for range running {
		errs = append(errs, <-done)
	}
	if n := p.Cut(); n > 0 {
		errs = append(errs, fmt.Errorf("requests that were open after --drain %v, and cut: %d", d.drain, n))
	}
	if err := errors.Join(errs...); err != nil {
		return &program.Exit{Code: program.Failed, Err: err}
	}
	return nil
}
