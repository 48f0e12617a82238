package proxy

import (
	"crypto/tls"
	"math"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// An upstream that fails ejectAfter times in a row is set aside. It is taken back
// when it says that it is well (health.go); without a path to ask at, after
// ejectFor, when the next request tries it.
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
	until    atomic.Int64 // stamp.Instant until which it is set aside, or forEver
	probed   bool         // it is asked for its health
	answers  atomic.Bool  // it has answered since the start and since its last failure
	doubt    chan<- struct{}
	log      zerolog.Logger

	served atomic.Pointer[[]ServedModel] // nil until it was asked
}

// forEver is the until of an upstream that a probe will take back.
const forEver = math.MaxInt64

// newBackend makes an upstream that tells doubt when it stops answering.
func newBackend(b base, cfg *Config, log zerolog.Logger, doubt chan<- struct{}) *backend {
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
	be := &backend{base: b, client: c, probed: cfg.HealthPath != "", log: log, doubt: doubt}
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
	n := b.failures.Add(1)
	if b.answers.Swap(false) {
		select {
		case b.doubt <- struct{}{}:
		default: // it is known already
		}
	}
	if n < ejectAfter {
		return
	}
	until := int64(forEver)
	if !b.probed {
		until = int64(stamp.Now().Add(ejectFor))
	}
	if b.until.Swap(until) == 0 {
		b.log.Warn().Str("upstream", b.name).Int64("failures", n).Msg("upstream set aside")
	}
}

// ejected reports whether a probe should ask.
func (b *backend) ejected() bool { return b.until.Load() != 0 }

// answered notes a response, whatever its status: a 503 is the engine's own
// word, and clients know what to do with it.
func (b *backend) answered() {
	if !b.answers.Load() {
		b.answers.Store(true)
	}
	if b.failures.Load() != 0 {
		b.failures.Store(0)
		if b.until.Swap(0) != 0 {
			b.log.Info().Str("upstream", b.name).Msg("upstream taken back")
		}
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
