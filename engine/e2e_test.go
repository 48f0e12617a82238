package engine

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/enginetest"
)

// What is asked of real engines here, the captures cannot show: that the answers
// agree with each other.
func TestRealEngines(t *testing.T) {
	for _, tc := range []struct {
		kind    enginetest.Kind
		want    Kind
		opts    enginetest.Options
		kv      int // 0: only known to be more than the context
		running int
	}{
		{enginetest.LlamaCPP, LlamaCPP, enginetest.Options{Slots: 8, ContextTotal: 65536}, 65536, 8},
		{enginetest.LlamaCPP, LlamaCPP, enginetest.Options{Slots: 4, ContextTotal: 32768, Args: []string{"--kv-unified"}}, 32768, 4},
		{enginetest.VLLM, VLLM, enginetest.Options{}, 0, 0},
		{enginetest.SGLang, SGLang, enginetest.Options{}, 0, 128},
	} {
		t.Run(string(tc.kind), func(t *testing.T) {
			server := enginetest.Run(t, tc.kind, tc.opts)
			target := &Target{URL: server.URL}
			info, err := Probe(t.Context(), target, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range info.Facts {
				t.Logf("%-14s %-28s %s", f.Name, f.Value, f.Source)
			}
			if info.Kind != tc.want || info.Version == "" || info.MaxModelLen == 0 || !info.HasMetrics || !info.HasTokenize {
				t.Errorf("probe: %+v", info)
			}
			if tc.kv != 0 && info.KVTokens != tc.kv || info.KVTokens < info.MaxModelLen || info.MaxRunning != tc.running {
				t.Errorf("kv %d, running %d, want %d, %d", info.KVTokens, info.MaxRunning, tc.kv, tc.running)
			}
			switches, err := Negotiate(t.Context(), target, info, Defaults(info.Kind, true), BodyInput{Prompt: " story", RID: "r1", Cold: true})
			if err != nil || len(switches.Dropped) > 0 {
				t.Errorf("switches: dropped %v, %v", switches.Dropped, err)
			}
			byRequest := info
			byRequest.HasTokenize = false
			count := func(ctx context.Context, text string) (int, error) {
				return CountTokens(ctx, target, info, Prompt{Text: text})
			}
			for _, size := range []int{512, 2048, 8000} {
				fit, err := Calibrate(t.Context(), size, info.MaxModelLen-16, words(7, latin), count)
				if err != nil {
					t.Errorf("%d tokens: %v", size, err)
					continue
				}
				sent, err := CountTokens(t.Context(), target, byRequest, Prompt{Text: words(7, latin)(fit.Units)})
				if err != nil || sent != fit.Tokens {
					t.Errorf("%d tokens: counted %d, usage says %d, %v", size, fit.Tokens, sent, err)
				}
				t.Logf("%5d tokens: %d in %d probes", size, fit.Tokens, fit.Probes)
			}
			scraper := NewScraper(target, info.Kind)
			defer scraper.Close()
			sample, err := scraper.Scrape(t.Context())
			if err != nil || sample.Running != 0 || sample.Waiting != 0 || math.IsNaN(sample.PromptTokens) {
				t.Errorf("idle after counting: %+v, %v", sample, err)
			}
			_, err = CountTokens(t.Context(), target, byRequest, Prompt{Text: strings.Repeat("river ", 2*info.MaxModelLen)})
			if !Is(err, Overflow) {
				t.Errorf("twice the context: %v, want %s", err, Overflow)
			}
			if _, err = Probe(t.Context(), target, "another"); !Is(err, NoModel) {
				t.Errorf("wrong model: %v, want %s", err, NoModel)
			}
			if info.CanAbort {
				if err := Abort(t.Context(), target, "nobody"); err != nil {
					t.Errorf("abort: %v", err)
				}
			}
		})
	}
}
