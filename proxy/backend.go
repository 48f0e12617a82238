package proxy

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// An upstream that fails ejectAfter times in a row is left alone for
// ejectFor, then tried again by the next request.
const (
	ejectAfter = 3
	ejectFor   = 5 * time.Second
)

// backend is one upstream.
type backend struct {
	base
	client   *upstream.Client
	settings atomic.Pointer[tls.Config] // of https upstreams

	open     atomic.Int64 // requests, observed or not
	failures atomic.Int64 // in a row: no connection, or no answer
	until    atomic.Int64 // stamp.Instant until which it is left alone

	served atomic.Pointer[[]ServedModel] // nil until it was asked
}

func newBackend(b base, cfg *Config) *backend {
	c := &upstream.Client{
		Addr: b.addr,
		Host: b.host,
		Dialer: stamp.Dialer{
			Timeout: cfg.ConnectTimeout,
			User:    cfg.UserStamps,
			Dial:    cfg.Dial,
		},
		HeaderWait: cfg.HeaderWait,
		ReadIdle:   cfg.BodyIdle,
		WriteLimit: cfg.ClientWrite,
		MaxIdle:    cfg.UpstreamIdle,
		MaxConns:   cfg.MaxConns,
	}
	be := &backend{base: b, client: c}
	if b.tls {
		be.settings.Store(upstreamTLS(cfg.UpstreamTLS))
		c.Dialer.TLSNow = be.settings.Load
	}
	return be
}

func upstreamTLS(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return cfg.Clone()
}

func (b *backend) up(now stamp.Instant) bool { return stamp.Instant(b.until.Load()) <= now }

func (b *backend) state(now stamp.Instant) UpstreamState {
	s := b.client.Stats()
	return UpstreamState{Upstream: b.name, Open: b.open.Load(), Up: b.up(now), Failures: b.failures.Load(),
		InUse: s.Open - s.Idle, Idle: s.Idle}
}

// failed notes that the upstream could not be reached or did not answer.
func (b *backend) failed() {
	if b.failures.Add(1) >= ejectAfter {
		b.until.Store(int64(stamp.Now().Add(ejectFor)))
	}
}

// answered notes a response, whatever its status: a 503 is the engine's own
// word, and clients know what to do with it.
func (b *backend) answered() {
	if b.failures.Load() != 0 {
		b.failures.Store(0)
		b.until.Store(0)
	}
}

// pick returns the upstream with the fewest open requests, among those that are
// up and not in tried; if all of them are ejected, among the ejected. Nil when
// all were tried.
func (p *Proxy) pick(tried []*backend) *backend {
	if len(p.backends) == 1 && len(tried) == 0 {
		return p.backends[0]
	}
	now := stamp.Now()
	var best *backend
	var bestUp bool
	var bestOpen int64
	// Start somewhere else each time, so that ties do not all go to the first.
	start := int(p.turn.Add(1) % uint64(len(p.backends)))
next:
	for i := range p.backends {
		b := p.backends[(start+i)%len(p.backends)]
		for _, t := range tried {
			if t == b {
				continue next
			}
		}
		up, open := b.up(now), b.open.Load()
		if best == nil || up && !bestUp || up == bestUp && open < bestOpen {
			best, bestUp, bestOpen = b, up, open
		}
	}
	return best
}
