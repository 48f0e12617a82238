package sim_test

import (
	"context"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/sim"
)

// serve starts a simulated engine on loopback TCP.
func serve(t *testing.T, p sim.Profile, o sim.Options) (*sim.Server, *engine.Target) {
	t.Helper()
	srv := sim.New(p, o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // t's own is over
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return srv, &engine.Target{URL: "http://" + ln.Addr().String(), Key: o.APIKey}
}

// TestTheProductCannotTell: the probe takes each dialect for its engine and
// learns the profile's facts, and the server's count is the truth's.
func TestTheProductCannotTell(t *testing.T) {
	for _, c := range []struct {
		profile string
		dialect sim.Dialect
		kv      func(sim.Profile) int
	}{
		{"laguna-xs-vllm", sim.VLLM, func(p sim.Profile) int { return p.KVTokens }},
		{"gemma-4-e2b-sglang", sim.SGLang, func(p sim.Profile) int { return p.KVTokens }},
		{"plain", sim.LlamaCPP, func(p sim.Profile) int { return 0 }},
	} {
		t.Run(string(c.dialect), func(t *testing.T) {
			p, err := sim.Lookup(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			p.Dialect = c.dialect
			p.Speed.TTFT = sim.NewSurface([]sim.Sample{{Time: time.Millisecond}})
			srv, target := serve(t, p, sim.Options{APIKey: "sk-test"})
			info, err := engine.Probe(t.Context(), target, "")
			if err != nil {
				t.Fatal(err)
			}
			if string(info.Kind) != string(c.dialect) || info.Model != p.Model || info.MaxModelLen != p.MaxModelLen || !info.HasMetrics || !info.HasTokenize {
				t.Errorf("probe: %+v", info)
			}
			if want := c.kv(p); want != 0 && info.KVTokens != want {
				t.Errorf("probe: %d KV tokens, want %d", info.KVTokens, want)
			}
			s, err := engine.Negotiate(t.Context(), target, info, engine.Defaults(info.Kind, true), engine.BodyInput{})
			if err != nil || len(s.Dropped) > 0 {
				t.Errorf("negotiate: dropped %v, error %v", s.Dropped, err)
			}
			text := strings.Repeat("The harbor was calm, at 5 in the morning. ", 50)
			n, err := engine.CountTokens(t.Context(), target, info, engine.Prompt{Text: text})
			if err != nil {
				t.Fatal(err)
			}
			body, err := s.Body(engine.BodyInput{Model: info.Model, Prompt: text, MaxTokens: 3, NoStream: true})
			if err != nil {
				t.Fatal(err)
			}
			post(t, target, string(body))
			rs := srv.Truth().Requests()
			if got := rs[len(rs)-1].Prompt; got != n {
				t.Errorf("%d tokens counted, the server saw %d", n, got)
			}
			scraper := engine.NewScraper(target, info.Kind)
			defer scraper.Close()
			sample, err := scraper.Scrape(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			totals := srv.Truth().Totals()
			if sample.Running != 0 || sample.Waiting != 0 || sample.GenerationTokens != float64(totals.Generated) {
				t.Errorf("scrape: %+v, truth %+v", sample, totals)
			}
			if math.IsNaN(sample.PromptTokens) {
				t.Errorf("scrape: no prompt tokens")
			}
		})
	}
}
