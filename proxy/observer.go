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
// event by event. It belongs to the goroutine that serves the request. /streams
// reads the atomics and what newObserver sets, while the exchange is in Proxy.open.
type observer struct {
	hot
	meter stream.Meter
	cold
}

// hot is what every event touches, in one cache line before those of the meter:
// where thousands of streams take turns, each line costs a miss. (The line begins
// with a word of the allocator's.)
type hot struct {
	cut   *wire.Cut   // nil where the policy is not to cut
	blind atomic.Bool // the meter panicked; nothing is fed to it any more
	loops atomic.Bool // an acting verdict was reached; for /streams
	// foldedEvents is the number of generated events at the last fold: a log that
	// is full stands still, and would be asked for with every event.
	foldedEvents int
	foldedAt     stamp.Instant // of the read then
	latest       atomic.Int64  // stamp.Instant of the last generated event; for /streams
	events       atomic.Int64  // generated; for /streams
	p            *Proxy
}

// cold is what only some events touch.
type cold struct {
	id       string
	route    string
	upstream atomic.Pointer[string]
	begun    stamp.Instant // when the exchange's request was received
	received stamp.Instant
	sent     stamp.Instant

	// The request's facts are read beside the sending when the body is large.
	facts     sync.WaitGroup
	modelName string
	usage     bool // it asks for the usage of its stream
	model     atomic.Pointer[metrics.Model]
	active    *metrics.Gauge // of open streams, which counts this one

	folded  int    // entries of the meter's log whose gaps are in the metrics
	settled int    // those whose tokens are
	counted int    // tokens in the metrics
	steps   []step // by choice, as the log counts them
	watch   watch  // for the live page

	dialect wire.Dialect
	action  Action         // what is done, or was, about a loop
	ended   string         // what finish returned
	record  *stream.Record // once it is finished, until recycle; nil if metering failed

	// For /streams.
	ttft   atomic.Int64 // ns, 0 before the first generated event
	tokens atomic.Int64
}

// step is all events of a choice that share an instant. Its tokens are counted
// when the next one begins.
type step struct {
	seen       stamp.Instant // of the choice's last event, for its gaps
	before, at stamp.Instant // of the step before, and of this
	tokens     int
}

// The meter may go over its whole log when asked for it, so it is asked in
// batches that grow with the log: that costs the same per event however long
// the stream is. A slow stream is asked once a second.
const (
	foldBatch = 16
	foldShare = 64
	foldEvery = time.Second
)

// maxLog is the number of events kept of a stream: 10 MB for the longest.
const maxLog = 1 << 18

// newObserver returns an observer; the name upstream points to is not to change.
func (p *Proxy) newObserver(id, route string, upstream *string, dialect wire.Dialect) *observer {
	options := p.meterOptions(dialect)
	o, used := p.observers.Get().(*observer)
	switch {
	case !used:
		o = new(observer)
		o.meter.Init(options)
	case o.dialect != dialect:
		o.meter.Reset(options)
	}
	o.hot = hot{p: p}
	o.cold = cold{id: id, route: route, dialect: dialect, action: Observe, steps: o.steps[:0], watch: watch{live: p.live}}
	o.upstream.Store(upstream)
	return o
}

func (p *Proxy) meterOptions(dialect wire.Dialect) stream.Options {
	options := p.options
	options.Dialect = dialect
	return options
}

// finished holds the records of streams that have ended, to write others over them.
var finished = sync.Pool{New: func() any { return new(stream.Record) }}

// What an observer may keep for the next request. Short ones come in thousands, and
// keep less; if long ones left theirs, each observer would in time hold as much as the
// longest that it ever had.
const (
	keepMeter = 8 << 10 // bytes
	keepSteps = 8
)

// recycle lets another request have the observer. Nobody uses it any more: the loop has
// told its stream's end, and the exchange is not among the open ones.
func (o *observer) recycle() {
	if o.blind.Load() {
		return // after a panic its state is unknown
	}
	if o.record != nil && len(o.record.Loops) == 0 {
		finished.Put(o.record)
	}
	o.meter.Reset(o.p.meterOptions(o.dialect))
	if o.meter.Kept() > keepMeter || cap(o.steps) > keepSteps {
		return
	}
	o.p.observers.Put(o)
}

// moved notes that another upstream serves the request.
func (o *observer) moved(upstream *string) {
	o.facts.Wait()
	o.countIn(o.model.Load(), upstream)
}

// answered notes the response's head.
func (o *observer) answered(r *upstream.Head, received stamp.Instant) {
	o.received = received
	o.sentAt(r.Sent)
	o.guard(func() {
		o.meter.RequestReceived(received)
		o.meter.Headers(r.Status, r.HeadersAt)
	})
}

func (o *observer) sentAt(at stamp.Instant) {
	o.sent = at
	o.guard(func() { o.meter.Sent(at) })
}

// learn reads the model that the request names. What the request says is only
// ever a label value when it is on the list of served models.
func (o *observer) learn(body []byte) {
	var name string
	o.guard(func() {
		var streams, ok bool
		name, streams, o.usage, ok = wire.RequestFacts(o.dialect, body)
		o.watch.learn(streams, ok)
	})
	if len(name) > maxName {
		name = name[:maxName]
	}
	o.modelName = name
	m := o.p.metrics.Model([]byte(name))
	o.active = o.p.metrics.StreamsActive(m, *o.upstream.Load())
	o.active.Inc()
	o.model.Store(m)
}

// named looks a model that is "other" up once more: the list of served ones may have
// come behind the request.
func (o *observer) named(m *metrics.Model) *metrics.Model {
	if m.Name != metrics.Other {
		return m
	}
	return o.p.metrics.Model([]byte(o.modelName))
}

// label returns the series that the stream is counted in, nil while its body is being
// scanned. They may change as long as none of its tokens are counted.
func (o *observer) label() *metrics.Model {
	m := o.model.Load()
	if m == nil || o.folded > 0 {
		return m
	}
	now := o.named(m)
	if now != m {
		o.countIn(now, o.upstream.Load())
	}
	return now
}

// countIn moves the open stream to another model or upstream.
func (o *observer) countIn(m *metrics.Model, upstream *string) {
	o.active.Dec()
	o.active = o.p.metrics.StreamsActive(m, *upstream)
	o.active.Inc()
	o.model.Store(m)
	o.upstream.Store(upstream)
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
func (o *observer) observe(p []byte, at stamp.Instant, src stamp.Source) {
	if o.blind.Load() {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			o.fail(r)
		}
	}()
	o.meter.Stamps(src)
	sig := o.meter.Observe(p, at)
	if o.cut != nil {
		o.cut.Follow(p)
	}
	if sig&stream.SigLoop != 0 {
		o.loops.Store(true)
	}
	if sig&(stream.SigToken|stream.SigFirstToken) == 0 {
		return
	}
	n := o.meter.GeneratedEvents()
	o.latest.Store(int64(at))
	o.events.Store(int64(n))
	if sig&stream.SigFirstToken != 0 || n-o.foldedEvents >= foldBatch+n/foldShare || at.Sub(o.foldedAt) >= foldEvery {
		o.foldedAt, o.foldedEvents = at, n
		o.fold()
	}
}

// fold takes the log's new entries into the metrics.
func (o *observer) fold() {
	log := o.meter.Log()
	if len(log) == 0 {
		return
	}
	m := o.label()
	if m == nil {
		return // the body is still being scanned: an event loop must not wait for that
	}
	if o.folded == 0 {
		d := log[0].At.Sub(o.sent)
		o.ttft.Store(int64(d))
		m.TTFT.Update(d.Seconds())
		if o.received != 0 {
			m.TTFTClient.Update(log[0].At.Sub(o.received).Seconds())
		}
		o.watch.ttft(log[0].At, d)
	}
	known := o.settled
	for i := o.folded; i < len(log); i++ {
		e := &log[i]
		if e.Flags&stream.SameEvent != 0 {
			continue
		}
		o.watch.event(e.At)
		s := o.step(e.Choice)
		if s.seen == 0 {
			o.watch.first(*o.upstream.Load(), e.At)
		}
		if s.seen != 0 && s.seen != e.At {
			m.EventGap.Update(e.At.Sub(s.seen).Seconds())
		}
		s.seen = e.At
	}
	if o.meter.Counts() {
		for known = len(log); known > o.settled && log[known-1].Tokens == 0; {
			known--
		}
	}
	o.folded = len(log)
	o.settle(m, log[:known])
	o.watch.flush()
}

func (o *observer) step(choice uint16) *step {
	for int(choice) >= len(o.steps) {
		o.steps = append(o.steps, step{})
	}
	return &o.steps[choice]
}

// settle books the tokens of the log's entries that were not booked before.
func (o *observer) settle(m *metrics.Model, log []stream.Event) {
	for i := o.settled; i < len(log); i++ {
		e := &log[i]
		if e.Flags&stream.SameEvent != 0 {
			continue
		}
		m.Tokens(wire.Channel(e.Channel)).Add(int(e.Tokens))
		o.watch.tokens(e.At, int(e.Tokens))
		o.counted += int(e.Tokens)
		s := o.step(e.Choice)
		if s.at != e.At {
			s.close(m, &o.watch)
			s.before, s.at, s.tokens = s.at, e.At, 0
		}
		s.tokens += int(e.Tokens)
		if i%foldBatch == foldBatch-1 {
			o.watch.flush() // a whole stream may be settled at its end
		}
	}
	o.settled = len(log)
	o.tokens.Store(int64(o.counted))
}

// close counts the step's time between tokens, if there is a step before it.
func (s *step) close(m *metrics.Model, w *watch) {
	if s.before != 0 && s.tokens > 0 {
		w.gap(s.at, s.at.Sub(s.before), s.tokens)
		m.InterToken.ObserveN(s.at.Sub(s.before).Seconds()/float64(s.tokens), s.tokens)
	}
}

// finish ends the record, books what is only known at the end, and returns the
// record's end. Only its first call does.
func (o *observer) finish(cause stream.Cause, at stamp.Instant, retries int) string {
	if o.ended != "" {
		return o.ended
	}
	o.facts.Wait()
	m := o.label()
	o.active.Dec()
	end := string(stream.Failed)
	defer func() { o.ended = end }()
	defer o.watch.drop(at) // of a stream that is blind, or becomes it here
	if o.blind.Load() {
		return end
	}
	o.guard(func() {
		rec := finished.Get().(*stream.Record)
		o.meter.FinishInto(rec, cause, at)
		o.fold()
		end = string(rec.End)
		o.book(m, rec)
		rec.ID, rec.Route, rec.Upstream = o.id, o.route, *o.upstream.Load()
		rec.Phase, rec.Retries = stream.Live, retries
		if rec.Model == "" {
			rec.Model = o.modelName
		}
		log := o.meter.Log()
		o.watch.end(rec, log, o.sent, o.named(m).Name) // which books the whole stream now
		o.p.keep(rec, log, o.sent)
		o.record = rec
	})
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
		reason := string(rec.Reason)
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
		action := Observe
		if l.Acts() {
			action = o.action
		}
		set.Loop(m, l.Verdict, l.Channel, string(action))
	}
	if why := o.meter.Blind(); why != "" {
		set.Blind(why)
	}
}

// bookTokens brings the token counters to the record's total. Where a stream
// tells its total at the end only, the tokens of its events are known now and
// not before.
func (o *observer) bookTokens(m *metrics.Model, total int) {
	log := o.meter.Log()
	o.settle(m, log)
	for i := range o.steps {
		o.steps[i].close(m, &o.watch)
	}
	if rest := total - o.counted; rest > 0 && len(log) > 0 {
		// Counted by the engine, but in no event of the log.
		m.Tokens(wire.Channel(log[len(log)-1].Channel)).Add(rest)
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
		Events: o.events.Load(), Tokens: o.tokens.Load(), Loop: o.loops.Load(), Observe: !o.blind.Load(), Whole: o.watch.asked.Load() == whole, AgeNS: int64(now.Sub(o.begun))}
	if m := o.model.Load(); m != nil {
		s.Model = m.Name
	}
	if ttft := o.ttft.Load(); ttft != 0 {
		s.TTFTNS = stream.Some(ttft)
		s.QuietNS = stream.Some(int64(now.Sub(stamp.Instant(o.latest.Load()))))
	}
	return s
}
