package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/streamgauge/streamgauge/upstream"
)

// probeLimit bounds one question after an upstream's health.
const probeLimit = 5 * time.Second

// watchHealth asks an upstream that is set aside for its health, until ctx ends,
// and takes it back when it answers well. One that is not set aside is not asked:
// its requests tell, and asking makes some engines generate.
func (p *Proxy) watchHealth(ctx context.Context, b *backend) {
	tick := time.NewTicker(p.cfg.HealthEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !b.ejected() {
			continue
		}
		if err := p.askHealth(ctx, b); err != nil {
			p.log.Debug().Err(err).Str("upstream", b.name).Msg("still set aside")
			continue
		}
		b.answered()
	}
}

func (p *Proxy) askHealth(ctx context.Context, b *backend) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	r, err := b.client.Do(ctx, &upstream.Request{Target: []byte(b.prefix + p.cfg.HealthPath)})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if r.Status < 200 || r.Status > 299 {
		return fmt.Errorf("health: status %d", r.Status)
	}
	return nil
}
