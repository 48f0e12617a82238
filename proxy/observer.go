package proxy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamgauge/streamgauge/metrics"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
	"github.com/streamgauge/streamgauge/wire"
)

// observer meters one request and folds what the meter sees into the metrics,
// event by event. It belongs to the goroutine that serves the request, but for
// the atomics, which /streams reads.
type observer struct {
	p        *Proxy
	meter    *stream.Meter
	id       string
	route    string
	upstream atomic.Pointer[string]
	begun    stamp.Instant
	received stamp.Instant
	sent     stamp.Instant

	// The request's facts are read beside the sending when the body is large.
	facts     sync.WaitGroup
	modelName string
	model     atomic.Pointer[metrics.Model]

	folded   int                 // entries of the meter's log that are in the metrics
	foldedAt stamp.Instant       // of the read at that time
	counted  [wire.Tool0 + 1]int // tokens that are in the metrics, by channel
	last     []lastStep          // by choice

	blind atomic.Bool // the meter panicked; nothing is fed to it any more

	// For /streams.
	ttft   atomic.Int64 // ns, 0 before the first generated event
	latest atomic.Int64 // stamp.Instant of the last one
	events atomic.Int64
	tokens atomic.Int64
}

// lastStep is the instant of a choice's last generated event.
type lastStep struct {
	choice uint16
	at     stamp.Instant
}

// The meter resolves its whole log when asked for it, so it is asked in
// batches that grow with the log: that costs less than 0.2 µs an event however
// long the stream is. A slow stream is asked once a second.
const (
	foldBatch = 16
	foldShare = 64
	foldEvery = time.Second
)

// meters are reused: a Meter holds a decoder's buffers and the detectors'
// windows.
type meterPool struct{ sync.Pool }

func (mp *meterPool) get(o stream.Options) *stream.Meter {
	if m, ok := mp.Get().(*stream.Meter); ok {
		m.Reset(o)
		return m
	}
	return stream.NewMeter(o)
}

// maxLog is the number of events kept of a stream: 10 MB for the longest.
const maxLog = 1 << 18

func (p *Proxy) newObserver(id, route, upstream string, dialect wire.Dialect) *observer {
	o := &observer{p: p, id: id, route: route, begun: stamp.Now()}
	o.upstream.Store(&upstream)
	o.meter = p.meters.get(stream.Options{Dialect: dialect, Limits: p.cfg.Limits, NoDetect: p.cfg.NoDetect,
		StoreText: p.cfg.StoreText, EventLog: true, MaxLog: maxLog})
	return o
}

// moved notes that another upstream serves the request.
func (o *observer) moved(upstream string) {
	o.facts.Wait()
	m := o.model.Load()
	o.p.metrics.StreamsActive(m, *o.upstream.Load()).Dec()
	o.p.metrics.StreamsActive(m, upstream).Inc()
	o.upstream.Store(&upstream)
}

// answered notes the response's head.
func (o *observer) answered(r *upstream.Response, received stamp.Instant) {
	o.received = received
	o.sentAt(r.Sent)
	o.guard(func() {
		o.meter.RequestReceived(received)
		o.meter.Headers(r.Status, r.HeadersAt)
		o.meter.Stamps(r.HeadersSource)
	})
}

func (o *observer) sentAt(at stamp.Instant) {
	o.sent = at
	o.guard(func() { o.meter.Sent(at) })
}

// learn reads the model that the request names. What the request says is only
// ever a label value when it is on the list of served models.
func (o *observer) learn(body []byte) {
	name, _, _, _ := wire.RequestFacts(body)
	if len(name) > maxName {
		name = name[:maxName]
	}
	o.modelName = name
	m := o.p.metrics.Model([]byte(name))
	o.p.metrics.StreamsActive(m, *o.upstream.Load()).Inc()
	o.model.Store(m)
}

// maxName bounds names from requests in records.
const maxName = 256

// guard runs f, which meters. A panic in it makes the stream unobserved.
func (o *observer) guard(f func()) {
	if o.blind.Load() {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			o.fail(r)
		}
	}()
	f()
}

func (o *observer) fail(r any) {
	o.blind.Store(true)
	o.p.metrics.Panics.Inc()
	o.p.metrics.Blind("panic")
	// The value may quote what was being parsed; its type does not.
	o.p.log.Error().Str("panic", fmt.Sprintf("%T", r)).Str("id", o.id).Msg("metering failed, the stream goes on unobserved")
}

// observe meters bytes that have been forwarded.
func (o *observer) observe(p []byte, at stamp.Instant) {
	if o.blind.Load() {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			o.fail(r)
		}
	}()
	sig := o.meter.Observe(p, at)
	if sig&(stream.SigToken|stream.SigFirstToken) == 0 {
		return
	}
	n := o.meter.GeneratedEvents()
	o.latest.Store(int64(at))
	o.events.Store(int64(n))
	if sig&stream.SigFirstToken != 0 || n-o.folded >= foldBatch+o.folded/foldShare || at.Sub(o.foldedAt) >= foldEvery {
		o.foldedAt = at
		o.fold()
	}
}

// fold takes the log's new entries into the metrics.
func (o *observer) fold() {
	log := o.meter.Log()
	if len(log) == 0 {
		return
	}
	o.facts.Wait()
	m := o.model.Load()
	if o.folded == 0 {
		d := log[0].At.Sub(o.sent)
		o.ttft.Store(int64(d))
		m.TTFT.Update(d.Seconds())
		if o.received != 0 {
			m.TTFTClient.Update(log[0].At.Sub(o.received).Seconds())
		}
	}
	tokens := 0
	for i := o.folded; i < len(log); i++ {
		e := &log[i]
		if e.Flags&stream.SameEvent != 0 {
			continue
		}
		if last := o.lastOf(e.Choice); last.at != e.At {
			if last.at != 0 {
				m.EventGap.Update(e.At.Sub(last.at).Seconds())
			}
			last.at = e.At
		}
		c := min(wire.Channel(e.Channel), wire.Tool0)
		m.Tokens(c).Add(int(e.Tokens))
		o.counted[c] += int(e.Tokens)
		tokens += int(e.Tokens)
	}
	o.folded = len(log)
	o.tokens.Add(int64(tokens))
}

func (o *observer) lastOf(choice uint16) *lastStep {
	for i := range o.last {
		if o.last[i].choice == choice {
			return &o.last[i]
		}
	}
	o.last = append(o.last, lastStep{choice: choice})
	return &o.last[len(o.last)-1]
}

// finish ends the record, books what is only known at the end, and returns the
// record's end.
func (o *observer) finish(cause stream.Cause, at stamp.Instant, retries int) string {
	o.facts.Wait()
	m := o.model.Load()
	o.p.metrics.StreamsActive(m, *o.upstream.Load()).Dec()
	end := string(stream.Failed)
	if o.blind.Load() {
		return end
	}
	o.guard(func() {
		rec := o.meter.Finish(cause, at)
		o.fold()
		end = string(rec.End)
		o.book(m, rec)
		rec.ID, rec.Route, rec.Upstream = o.id, o.route, *o.upstream.Load()
		rec.Phase, rec.Retries = stream.Live, retries
		if rec.Model == "" {
			rec.Model = o.modelName
		}
		log := rec.EventLog
		rec.EventLog = nil
		o.p.keep(rec, log)
	})
	if !o.blind.Load() {
		// After a panic its state is unknown: not one for the pool.
		o.p.meters.Put(o.meter)
	}
	return end
}

// book counts what the finished record tells.
func (o *observer) book(m *metrics.Model, rec *stream.Record) {
	set := o.p.metrics
	o.bookTokens(m, rec.Tokens)
	if rec.TTFENS.OK {
		m.TTFE.Update(seconds(rec.TTFENS.V))
	}
	if rec.PromptTokens.OK {
		m.PromptTokens.Add(rec.PromptTokens.V)
	}
	if rec.CachedTokens.OK {
		m.CachedTokens.Add(rec.CachedTokens.V)
	}
	if rec.End == stream.Completed && rec.TBTNS.OK && rec.TBTNS.V > 0 {
		m.Rate.Update(1e9 / rec.TBTNS.V)
	}
	if rec.GeneratedEvents == 0 {
		reason := rec.Reason
		if reason == "" {
			reason = string(rec.End)
		}
		set.NoFirstToken(m, reason)
	}
	if rec.TokensFrom == stream.FromEstimate && rec.Tokens > 0 {
		set.Estimated.Inc()
	}
	set.Coalesced.Add(rec.CoalescedEvents)
	for _, l := range rec.Loops {
		set.Loop(m, l.Verdict, l.Channel, "observe")
	}
	if why := o.meter.Blind(); why != "" {
		set.Blind(why)
	}
}

// bookTokens brings the token counters to the record's total and books the
// times between tokens. Where a stream tells its total at the end only, the
// tokens of its events are not known before.
func (o *observer) bookTokens(m *metrics.Model, total int) {
	log := o.meter.Log()
	var final [len(o.counted)]int
	for i := range log {
		final[min(wire.Channel(log[i].Channel), wire.Tool0)] += int(log[i].Tokens)
	}
	sum := 0
	for c := range final {
		sum += final[c]
	}
	if len(log) > 0 && total > sum {
		// Counted by the engine, but in no event of the log.
		final[min(wire.Channel(log[len(log)-1].Channel), wire.Tool0)] += total - sum
	}
	for c := range final {
		// Counters do not go down. An engine whose total is less than the
		// number of its events is over-counted by that much.
		if rest := final[c] - o.counted[c]; rest > 0 {
			m.Tokens(wire.Channel(c)).Add(rest)
		}
	}
	interTokens(log, m.InterToken.ObserveN)
}

// interTokens calls f with each gap between two steps of a choice, divided by
// the tokens of the second, and their number. A step is all events that share an
// instant.
func interTokens(log []stream.Event, f func(seconds float64, tokens int)) {
	type step struct {
		before, at stamp.Instant
		tokens     int
	}
	var few [4]step
	steps := few[:0]
	book := func(s *step) {
		if s.before != 0 && s.tokens > 0 {
			f(s.at.Sub(s.before).Seconds()/float64(s.tokens), s.tokens)
		}
	}
	for i := range log {
		e := &log[i]
		for int(e.Choice) >= len(steps) {
			steps = append(steps, step{})
		}
		s := &steps[e.Choice]
		if s.at == e.At {
			s.tokens += int(e.Tokens)
			continue
		}
		book(s)
		*s = step{before: s.at, at: e.At, tokens: int(e.Tokens)}
	}
	for i := range steps {
		book(&steps[i])
	}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// phase says where in its life the request is.
func (o *observer) phase() string {
	if o.events.Load() == 0 {
		return "prefill"
	}
	return "decode"
}

// state is the request's line of /streams.
func (o *observer) state(now stamp.Instant) OpenStream {
	s := OpenStream{ID: o.id, Route: o.route, Upstream: *o.upstream.Load(), Model: metrics.Other,
		Events: o.events.Load(), Tokens: o.tokens.Load(), Observe: !o.blind.Load(), AgeNS: int64(now.Sub(o.begun))}
	if m := o.model.Load(); m != nil {
		s.Model = m.Name
	}
	if ttft := o.ttft.Load(); ttft != 0 {
		s.TTFTNS = stream.Some(ttft)
		s.QuietNS = stream.Some(int64(now.Sub(stamp.Instant(o.latest.Load()))))
	}
	return s
}
