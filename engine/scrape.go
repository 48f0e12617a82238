package engine

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"github.com/valyala/fastjson"
)

// Unknowns is a Sample in which nothing is known.
func Unknowns() Sample {
	nan := math.NaN()
	return Sample{nan, nan, nan, nan, nan, nan, nan, nan, nan}
}

// Scraper reads a server's own counters, on one kept-alive connection. It is
// for one goroutine.
type Scraper struct {
	c      *call
	kind   Kind
	dia    *dialect
	source string
	// instead reads the same from somewhere else, when there is no /metrics.
	instead func(context.Context, *call) (Sample, error)
}

// NewScraper returns a scraper for a server of that kind. Of an unknown kind the
// names of the metrics decide.
func NewScraper(t *Target, kind Kind) *Scraper {
	s := &Scraper{c: t.open(), kind: kind}
	switch kind {
	case VLLM:
		s.dia = &vllmMetrics
	case SGLang:
		s.dia = &sglangMetrics
	case LlamaCPP:
		s.dia = &llamacppMetrics
	}
	return s
}

// Close gives the connection up.
func (s *Scraper) Close() { s.c.close() }

// Source says where the last sample came from: a path of the server.
func (s *Scraper) Source() string { return s.source }

// Scrape takes one sample. A server started without metrics is asked another
// way where it has one: SGLang's /v1/loads, llama.cpp's /slots.
func (s *Scraper) Scrape(ctx context.Context) (Sample, error) {
	if s.instead != nil {
		return s.instead(ctx, s.c)
	}
	sample, err := s.metrics(ctx)
	if err == nil || !Is(err, NotFound) && !Is(err, BadAnswer) {
		return sample, err
	}
	var instead func(context.Context, *call) (Sample, error)
	var source string
	switch s.kind {
	case SGLang:
		instead, source = sglangLoads, "/v1/loads"
	case LlamaCPP:
		instead, source = llamacppSlots, "/slots"
	default:
		return sample, err
	}
	other, err2 := instead(ctx, s.c)
	if err2 != nil {
		return sample, err
	}
	s.instead, s.source = instead, source
	return other, nil
}

func (s *Scraper) metrics(ctx context.Context) (Sample, error) {
	all, err := s.c.metrics(ctx)
	if err != nil {
		return Unknowns(), err
	}
	if s.dia == nil {
		s.dia = dialectOf(all)
	}
	if s.dia == nil {
		return Unknowns(), &Error{Kind: BadAnswer, Status: http.StatusOK, Message: "the server's /metrics has no running gauge of an engine we know"}
	}
	sample := s.dia.sample(all)
	if math.IsNaN(sample.Running) {
		return Unknowns(), &Error{Kind: BadAnswer, Status: http.StatusOK, Message: fmt.Sprintf("the server's /metrics does not have %s", s.dia.running)}
	}
	s.source = "/metrics"
	return sample, nil
}

// metrics reads the series we know from the server's metrics.
func (c *call) metrics(ctx context.Context) ([]Series, error) {
	address, own, err := c.t.metricsURL()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, introspectionWait)
	defer cancel()
	a, err := c.do(ctx, http.MethodGet, address, nil, own)
	if err != nil {
		return nil, err
	}
	if f := c.fault(a); f != nil {
		return nil, f
	}
	all, _ := ParseExposition(a.body, wantedName)
	return all, nil
}

// number returns the number under a key, NaN when it is not one.
func number(v *fastjson.Value, key string) float64 {
	if n := v.Get(key); n != nil && n.Type() == fastjson.TypeNumber {
		return n.GetFloat64()
	}
	return math.NaN()
}
