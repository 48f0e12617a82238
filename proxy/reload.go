package proxy

import (
	"errors"
	"fmt"
)

// Reload takes from cfg what can change while the proxy runs: Policies,
// InjectUsage, TLS and UpstreamTLS. They hold for requests and connections from
// now on; open ones go on as they began, and idle connections to the upstreams
// are closed. On an error nothing has changed.
func (p *Proxy) Reload(cfg Config) error {
	if (cfg.TLS != nil) != (p.cfg.TLS != nil) {
		return errors.New("reload: TLS on the data port cannot be switched on or off")
	}
	r := &rules{cfg.Policies, cfg.InjectUsage}
	if err := r.validate(!p.cfg.NoDetect); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	p.rules.Store(r)
	p.tls.Store(cfg.TLS)
	for _, b := range p.backends {
		if b.tls {
			b.settings.Store(upstreamTLS(cfg.UpstreamTLS))
			b.client.CloseIdle()
		}
	}
	return nil
}
