package proxy

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/metrics"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// noDeadline takes a deadline away.
var noDeadline time.Time

// Proxy forwards requests and measures their streams. Make one with New, give it
// a listener with Serve, and end it with Shutdown.
type Proxy struct {
	cfg      Config
	log      zerolog.Logger
	faults   zerolog.Logger // log, a few lines a second: an engine that is down fails every request
	metrics  *metrics.Set
	backends []*backend
	turn     atomic.Uint64
	doubt    chan struct{} // an upstream has stopped answering: ask soon
	watcher  *stamp.Watcher
	rules    atomic.Pointer[rules]
	tls      atomic.Pointer[tls.Config] // of the data port; nil without
	options  stream.Options             // of the meters, but for the dialect
	// observers are those of requests that are over, for others.
	observers sync.Pool
	ring      *ring
	file      *recordFile // nil without one
	access    *accessLog  // nil without one
	live      *live
	data      *fasthttp.Server
	admin     *fasthttp.Server
	addr      atomic.Pointer[string] // of the data port

	runID string
	ids   atomic.Uint64

	openMu    sync.Mutex
	open      map[*exchange]struct{}
	draining  bool
	cut       int // requests that the end of the drain cut
	ebb       ebb
	listeners []net.Listener
	empty     chan struct{}  // closed when draining and nothing is open
	hijacked  sync.WaitGroup // exchanges in the hands of loops, and connections out of the server's
	relays    relays
	closer    closer
	resumed   sync.WaitGroup           // connections that a loop has given back
	back      map[*clientConn]struct{} // those, and the accepted ones, that are served
	cutting   bool                     // none is served any more

	background sync.WaitGroup
	stop       context.CancelFunc
}

// New makes a Proxy and starts its background work: the list of served models
// and the record file's writer. Shutdown ends it. What goes wrong is told to log by
// whoever meets it, the event loop too: its writer must not block, and Lines are one
// that does not.
func New(cfg Config, log zerolog.Logger) (*Proxy, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var run [6]byte
	if _, err := rand.Read(run[:]); err != nil {
		return nil, fmt.Errorf("run id: %w", err)
	}
	p := &Proxy{
		cfg: cfg, log: log, metrics: metrics.New(cfg.Version), runID: hex.EncodeToString(run[:]),
		open: map[*exchange]struct{}{}, back: map[*clientConn]struct{}{}, empty: make(chan struct{}), live: newLive(), doubt: make(chan struct{}, 1),
	}
	p.faults = log.Sample(&zerolog.BurstSampler{Burst: 5, Period: time.Second})
	p.options = stream.Options{Limits: cfg.Limits, NoDetect: cfg.NoDetect, StoreText: cfg.StoreText, MaxLog: maxLog}
	p.ring = newRing(p.runID, cfg.Records, cfg.RecordBytes)
	p.rules.Store(&rules{cfg.Policies, cfg.InjectUsage})
	p.tls.Store(cfg.TLS)
	p.metrics.SetModels(cfg.Models)
	for _, raw := range cfg.Upstreams {
		u, err := parseUpstream(raw)
		if err != nil {
			return nil, err
		}
		b := newBackend(u, &cfg, log, p.doubt)
		b.client.Spare = func() bool { return p.relays.spare(b.client) }
		p.backends = append(p.backends, b)
		p.metrics.UpstreamUp(b.name, func() float64 {
			if b.up(stamp.Now()) {
				return 1
			}
			return 0
		})
		p.metrics.UpstreamConnections(b.name, "in_use", func() float64 { s := b.client.Stats(); return float64(s.Open - s.Idle) })
		p.metrics.UpstreamConnections(b.name, "idle", func() float64 { return float64(b.client.Stats().Idle) })
	}
	var err error
	if p.watcher, err = stamp.NewWatcher(); err != nil {
		return nil, err
	}
	if cfg.RecordFile != "" {
		p.file, err = openRecordFile(cfg.RecordFile, cfg.RecordFileSize, cfg.RecordFileKeep, log, p.metrics.RecordsDropped.Inc)
		if err != nil {
			p.watcher.Close()
			return nil, err
		}
	}
	if cfg.AccessLog != nil {
		p.access = newAccessLog(cfg.AccessLog, cfg.AccessShare, log)
	}
	p.data = p.newData()
	p.admin = p.newAdmin()
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	if cfg.HealthPath != "" {
		for _, b := range p.backends {
			p.background.Go(func() { p.watchHealth(ctx, b) })
		}
	}
	if cfg.ModelsEvery > 0 {
		p.background.Go(func() { p.refreshModels(ctx) })
	}
	return p, nil
}

func (p *Proxy) newData() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:      p.handle,
		ErrorHandler: p.refuseRequest,
		ConnState:    p.serving,
		Logger:       quiet{p.log},
		// Bounds the header and is re-armed for the body; nothing is read from
		// a client while it is being answered.
		ReadTimeout: p.cfg.ClientRead,
		IdleTimeout: p.cfg.ClientIdle,
		// WriteTimeout would bound the whole stream; the connection bounds
		// each write.
		ReadBufferSize: max(p.cfg.MaxHeader, 4<<10),
		// It holds a header; tokens go past it. Each connection has one.
		WriteBufferSize: 1 << 10,
		Concurrency:     1 << 20,
		// Bodies are read by the handler, which has the limits. This is how
		// much the server reads before it: the least there is.
		StreamRequestBody:  true,
		MaxRequestBodySize: 1,

		DisablePreParseMultipartForm:  true,
		DisableHeaderNamesNormalizing: true,
		NoDefaultServerHeader:         true,
		NoDefaultDate:                 true,
		NoDefaultContentType:          true,
		SecureErrorLogMessage:         true,
		CloseOnShutdown:               true,
	}
}

// Serve serves the data port until Shutdown.
func (p *Proxy) Serve(ln net.Listener) error {
	if !p.listening(ln) {
		return nil
	}
	addr := ln.Addr().String()
	p.addr.Store(&addr)
	accepted, err := p.accept(ln)
	if err != nil {
		return err
	}
	if accepted {
		if ln = newDeaf(ln.Addr()); !p.listening(ln) {
			return nil
		}
	}
	err = p.data.Serve(&listener{Listener: patient{stamp.WrapListener(ln, p.cfg.UserStamps), p.faults}, writeLimit: p.cfg.ClientWrite,
		tls: p.tls.Load, handshake: p.cfg.HandshakeTimeout})
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// listening notes a listener, so that a Shutdown finds it even if the server has
// not begun to serve it; after one it closes it and reports false.
func (p *Proxy) listening(ln net.Listener) bool {
	p.openMu.Lock()
	defer p.openMu.Unlock()
	if p.draining {
		_ = ln.Close()
		return false
	}
	p.listeners = append(p.listeners, ln)
	return true
}

func (p *Proxy) dataAddr() string {
	if p.cfg.Data != "" {
		return p.cfg.Data
	}
	if a := p.addr.Load(); a != nil {
		return *a
	}
	return ""
}

// Metrics is the proxy's set, for those who serve it elsewhere.
func (p *Proxy) Metrics() *metrics.Set { return p.metrics }

// refuseRequest answers what fasthttp could not read as a request.
func (p *Proxy) refuseRequest(ctx *fasthttp.RequestCtx, err error) {
	f := faultRequest
	var small *fasthttp.ErrSmallBuffer
	var ne net.Error
	switch {
	case errors.As(err, &small):
		f = faultHeaderSize
	case errors.As(err, &ne) && ne.Timeout():
		f = faultSlow
	}
	f.reply(ctx, true)
	p.metrics.Request(metrics.Other, "", f.status, string(stream.Failed), 0)
}

// admit enters an exchange, unless the proxy is shutting down.
func (p *Proxy) admit(x *exchange) bool {
	p.openMu.Lock()
	defer p.openMu.Unlock()
	if p.draining {
		return false
	}
	p.open[x] = struct{}{}
	p.ebb.open(len(p.open))
	return true
}

func (p *Proxy) forget(x *exchange) {
	p.openMu.Lock()
	defer p.openMu.Unlock()
	_, was := p.open[x]
	delete(p.open, x)
	p.ebb.open(len(p.open))
	if was && p.draining && len(p.open) == 0 {
		close(p.empty)
	}
}

// leaving reports whether the proxy shuts down.
func (p *Proxy) leaving() bool {
	p.openMu.Lock()
	defer p.openMu.Unlock()
	return p.draining
}

// notReady says why the proxy wants no new requests, "" when it does.
func (p *Proxy) notReady() string {
	if p.leaving() {
		return "draining"
	}
	if p.relays.broken() {
		return "an event loop is out of use"
	}
	now := stamp.Now()
	// Where nothing is asked, an upstream counts as answering until it is set
	// aside: not ready for want of traffic would keep the traffic away.
	asks := p.cfg.ModelsEvery > 0
	for _, b := range p.backends {
		if b.up(now) && (b.answers.Load() || !asks) {
			return ""
		}
	}
	return "no upstream answers"
}

// keep hands a finished record to the ring and the file.
func (p *Proxy) keep(rec *stream.Record, log []stream.Event, sent stamp.Instant) {
	p.ring.put(pack(rec, log, sent))
	if p.file != nil {
		p.file.put(pack(rec, nil, sent)) // its queue is bounded by number only
	}
}

// newID names a request that brought no X-Request-Id, for its record only.
func (p *Proxy) newID() string {
	var b [48]byte
	return string(strconv.AppendUint(append(append(b[:0], p.runID...), '-'), p.ids.Add(1), 10))
}

// Cut returns how many requests a Shutdown that is over had to cut.
func (p *Proxy) Cut() int {
	p.openMu.Lock()
	defer p.openMu.Unlock()
	return p.cut
}

// Shutdown ends the proxy: /readyz says no, no request is accepted any more, and
// open ones go on for the drain period, or until ctx ends. What is open then is
// cut: clients see a broken body, never a clean end. It returns when all is
// over; the admin port is served until then.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.openMu.Lock()
	if p.draining {
		p.openMu.Unlock()
		return errors.New("shutdown was called before")
	}
	p.draining = true
	open := len(p.open)
	if open == 0 {
		close(p.empty)
	}
	p.openMu.Unlock()
	p.relays.dismiss()
	p.log.Info().Stringer("drain", p.cfg.Drain).Int("open", open).Msg("draining: no request is taken, open ones go on")

	var wait sync.WaitGroup
	var dataErr error
	served, done := context.WithCancel(context.Background())
	wait.Go(func() { dataErr = p.data.ShutdownWithContext(served) })

	drain := time.NewTimer(p.cfg.Drain)
	defer drain.Stop()
	select {
	case <-p.empty:
	case <-drain.C:
	case <-ctx.Done():
	}
	p.openMu.Lock()
	for x := range p.open {
		x.stop(errDrained)
	}
	cut := len(p.open)
	p.cut = cut
	p.openMu.Unlock()
	if cut > 0 {
		p.log.Warn().Int("requests", cut).Msg("the drain period is over, open requests are cut")
	}
	<-p.empty
	p.hijacked.Wait()
	// Connections that only wait for their handler's return are gone in a
	// moment; a client that does not read its last bytes is not waited for
	// longer than a write may take.
	soon := time.AfterFunc(halfRequest, func() { p.cutBack(false) })
	late := time.AfterFunc(max(p.cfg.ClientWrite, halfRequest), func() { done(); p.cutBack(true) })
	wait.Wait()
	p.resumed.Wait()
	soon.Stop()
	late.Stop()
	done()
	if errors.Is(dataErr, context.Canceled) {
		dataErr = nil // that was late: such a client is no fault of ours
	}
	p.relays.close()

	p.stop()
	p.ebb.stop()
	p.background.Wait()
	close(p.live.done)
	adminErr := p.admin.ShutdownWithContext(ctx)
	for _, ln := range p.listeners {
		_ = ln.Close() // of a Serve that had only begun
	}
	p.watcher.Close()
	for _, b := range p.backends {
		b.client.CloseIdle()
	}
	if p.file != nil {
		p.file.close()
	}
	if p.access != nil {
		p.access.close()
	}
	p.log.Info().Int("ended", open-cut).Int("cut", cut).Msg("drained")
	return errors.Join(dataErr, adminErr)
}

// quiet gives fasthttp's own messages to the log, at a level that is off by
// default: it logs each client's reset.
type quiet struct{ log zerolog.Logger }

func (q quiet) Printf(format string, args ...any) { q.log.Debug().Msgf("server: "+format, args...) }
