package metrics

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// Histogram is a histogram with le buckets; Update takes the unit of the
// family's name.
type Histogram = vm.PrometheusHistogram

// Gauge is a number that goes up and down.
type Gauge = vm.Gauge

// Set is all metrics of one proxy. It is safe for concurrent use.
type Set struct {
	// One library set a family: the library sorts and formats the series, and
	// HELP and TYPE, which it can only write empty, are ours.
	fams     [familyCount]*vm.Set
	models   models
	weighted [familyCount]weightedSeries

	// AddedDelay is the proxy's own share of a token's way, in seconds.
	AddedDelay *Histogram
	// Coalesced, Estimated, RecordsDropped and Panics are the counters of the
	// families without labels.
	Coalesced, Estimated, RecordsDropped, Panics *vm.Counter

	mu        sync.RWMutex
	byModel   map[string]*Model
	active    map[[2]string]*Gauge
	requests  map[requestKey]*vm.Counter
	durations map[[2]string]*Histogram
}

type requestKey struct {
	route, upstream string
	code            int
	end             string
}

// weightedSeries are the series of a family of Weighted histograms, which the
// library does not know.
type weightedSeries struct {
	mu     sync.Mutex
	labels []string
	series []*Weighted
}

// New makes an empty set; version goes into streamgauge_build_info.
func New(version string) *Set {
	s := &Set{
		byModel:   map[string]*Model{},
		active:    map[[2]string]*Gauge{},
		requests:  map[requestKey]*vm.Counter{},
		durations: map[[2]string]*Histogram{},
	}
	for i := range s.fams {
		s.fams[i] = vm.NewSet()
	}
	s.AddedDelay = s.histogram(addedDelay)
	s.Coalesced = s.counter(coalesced)
	s.Estimated = s.counter(estimated)
	s.RecordsDropped = s.counter(recordsDropped)
	s.Panics = s.counter(panics)
	s.stampsRefused(stamp.Refused)
	s.fams[buildInfo].NewGauge(s.name(buildInfo, version, runtime.Version()), nil).Set(1)
	return s
}

// name formats a series: the family's name and its labels with these values.
func (s *Set) name(fam int, values ...string) string {
	f := &families[fam]
	if len(values) != len(f.labels) {
		panic(fmt.Sprintf("metrics: %s has labels %v, got %d values", f.name, f.labels, len(values)))
	}
	if len(values) == 0 {
		return f.name
	}
	return f.name + "{" + strings.TrimSuffix(pairs(f.labels, values), ",") + "}"
}

// pairs gives `a="x",b="y",`.
func pairs(labels, values []string) string {
	var b strings.Builder
	for i, l := range labels {
		b.WriteString(l)
		b.WriteString(`="`)
		b.WriteString(escape(values[i]))
		b.WriteString(`",`)
	}
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// escape makes a label value safe for the text format, which is UTF-8.
func escape(v string) string { return escaper.Replace(strings.ToValidUTF8(v, "�")) }

func (s *Set) counter(fam int, values ...string) *vm.Counter {
	return s.fams[fam].GetOrCreateCounter(s.name(fam, values...))
}

func (s *Set) histogram(fam int, values ...string) *Histogram {
	return s.fams[fam].GetOrCreatePrometheusHistogramExt(s.name(fam, values...), families[fam].buckets)
}

func (s *Set) weightedHistogram(fam int, values ...string) *Weighted {
	w := newWeighted(families[fam].buckets)
	ws := &s.weighted[fam]
	ws.mu.Lock()
	ws.labels = append(ws.labels, pairs(families[fam].labels, values))
	ws.series = append(ws.series, w)
	ws.mu.Unlock()
	return w
}

// SetModels replaces the list of served models. Series of models that are no
// longer served stay, as counters must.
func (s *Set) SetModels(names []string) { s.models.set(names) }

// Model holds the series of one value of the label "model".
type Model struct {
	// Name is the label value: a served model, or Other.
	Name string

	TTFT, TTFTClient, TTFE, EventGap *Histogram
	// Rate takes tokens per second.
	Rate *Histogram
	// InterToken takes one sample a token.
	InterToken *Weighted

	PromptTokens, CachedTokens *vm.Counter

	tokens [wire.Tool0 + 1]*vm.Counter
}

// Tokens is the counter of one channel; all tools share one.
func (m *Model) Tokens(c wire.Channel) *vm.Counter { return m.tokens[min(c, wire.Tool0)] }

// Model resolves the series of a model by the name that a request gave.
func (s *Set) Model(name []byte) *Model {
	label := s.models.label(name)
	s.mu.RLock()
	m := s.byModel[label]
	s.mu.RUnlock()
	if m != nil {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.byModel[label]; m != nil {
		return m
	}
	m = &Model{
		Name:         label,
		TTFT:         s.histogram(ttft, label),
		TTFTClient:   s.histogram(ttftClient, label),
		TTFE:         s.histogram(ttfe, label),
		EventGap:     s.histogram(eventGap, label),
		Rate:         s.histogram(requestRate, label),
		InterToken:   s.weightedHistogram(interToken, label),
		PromptTokens: s.counter(promptTokens, label),
		CachedTokens: s.counter(cachedTokens, label),
	}
	for c := range m.tokens {
		m.tokens[c] = s.counter(tokens, label, Channel(wire.Channel(c).String()))
	}
	s.byModel[label] = m
	return m
}

// StreamsActive is the gauge of open observed requests of a model at an upstream.
func (s *Set) StreamsActive(m *Model, upstream string) *Gauge {
	k := [2]string{m.Name, upstream}
	s.mu.RLock()
	g := s.active[k]
	s.mu.RUnlock()
	if g != nil {
		return g
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g = s.active[k]; g == nil {
		g = s.fams[streamsActive].GetOrCreateGauge(s.name(streamsActive, m.Name, upstream), nil)
		s.active[k] = g
	}
	return g
}

// Request counts a finished request. code is the HTTP status that the client
// saw, 0 when it left before one; end is a record's end, or "plain" for
// requests that are not observed.
func (s *Set) Request(route, upstream string, code int, end string, took time.Duration) {
	k := requestKey{route, upstream, code, bound(ends, end)}
	d := [2]string{route, upstream}
	s.mu.RLock()
	c, h := s.requests[k], s.durations[d]
	s.mu.RUnlock()
	if c == nil || h == nil {
		s.mu.Lock()
		c = s.counter(requests, route, upstream, strconv.Itoa(code), k.end)
		h = s.histogram(requestDuration, route, upstream)
		s.requests[k], s.durations[d] = c, h
		s.mu.Unlock()
	}
	c.Inc()
	h.Update(took.Seconds())
}

// NoFirstToken counts an observed request that ended without a token.
func (s *Set) NoFirstToken(m *Model, reason string) {
	s.counter(noFirstToken, m.Name, Reason(reason)).Inc()
}

// Loop counts a verdict; action is observe, tag or cut.
func (s *Set) Loop(m *Model, verdict, channel, action string) {
	s.counter(loops, m.Name, bound(verdicts, verdict), Channel(channel), action).Inc()
}

// Blind counts a response that could not be read.
func (s *Set) Blind(reason string) { s.counter(blind, Reason(reason)).Inc() }

// ClientGone counts a client that left; phase is request, prefill, decode or other.
func (s *Set) ClientGone(phase string) { s.counter(clientGone, phase).Inc() }

// UpstreamRetry counts a request that was sent a second time.
func (s *Set) UpstreamRetry(reason string) { s.counter(upstreamRetries, reason).Inc() }

// UpstreamConnections makes read the source of the gauge of an upstream's
// connections; state is in_use or idle. read is called at each scrape.
func (s *Set) UpstreamConnections(upstream, state string, read func() float64) {
	s.fams[upstreamConns].GetOrCreateGauge(s.name(upstreamConns, upstream, state), read)
}

// UpstreamUp makes read the source of the gauge of an upstream's health.
func (s *Set) UpstreamUp(upstream string, read func() float64) {
	s.fams[upstreamUp].GetOrCreateGauge(s.name(upstreamUp, upstream), read)
}

// stampsRefused makes read the source of the counters of kernel stamps that were not
// used. They are the process's: a socket does not say whose it is.
func (s *Set) stampsRefused(read func() stamp.Refusals) {
	for _, r := range []struct {
		reason string
		of     func(stamp.Refusals) int64
	}{
		{"missing", func(r stamp.Refusals) int64 { return r.Missing }},
		{"late", func(r stamp.Refusals) int64 { return r.Late }},
		{"early", func(r stamp.Refusals) int64 { return r.Early }},
		{"step", func(r stamp.Refusals) int64 { return r.Step }},
	} {
		// The library has no counter with a callback; the TYPE line is ours.
		s.fams[stampsRefused].NewGauge(s.name(stampsRefused, r.reason), func() float64 { return float64(r.of(read())) })
	}
}

// WritePrometheus writes all metrics in the text format 0.0.4. Families without
// a series are left out.
func (s *Set) WritePrometheus(w io.Writer) {
	var b bytes.Buffer
	for i := range families {
		b.Reset()
		s.fams[i].WritePrometheus(&b)
		s.weighted[i].write(&b, families[i].name)
		if b.Len() == 0 {
			continue
		}
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", families[i].name, families[i].help, families[i].name, families[i].kind)
		_, _ = w.Write(b.Bytes())
	}
}

func (ws *weightedSeries) write(w io.Writer, name string) {
	ws.mu.Lock()
	labels, series := ws.labels, ws.series
	ws.mu.Unlock()
	for i := range series {
		series[i].write(w, name, labels[i])
	}
}
