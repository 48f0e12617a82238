package matrix

import (
	"fmt"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stream"
)

// A prefill sample is cold when fewer than this share of its prompt came from
// the server's prompt cache.
const maxCachedShare = 0.01

// FoldPrefill computes a prefill row from its samples, one request each:
// prompt tok/s = usage.prompt_tokens / ttft, medians over the cold ones. A row
// with only cached samples has no rate.
func FoldPrefill(context int, records []stream.Record) Cell {
	c := Cell{
		Type: "cell", V: Version, Phase: Prefill, Context: context, Concurrency: 1,
		Status: Valid, Warnings: []Warning{}, PerSecond: []float64{},
	}
	var rates, ttfts []float64
	var prompts, cached []int
	var h hist.H
	warm, failed, failure := 0, 0, ""
	for i := range records {
		r := &records[i]
		c.Streams++
		c.Stamps = mixed(c.Stamps, r.Stamps)
		if r.End == stream.Failed || r.End == stream.Truncated || !r.TTFTNS.OK || r.TTFTNS.V <= 0 {
			failed++
			failure = firstOf(failure, string(r.Error), string(r.Reason), "its first token is not later than its request")
			continue
		}
		if !r.PromptTokens.OK {
			c.Warn("prompt_tokens_unknown", "the server reports no prompt token count, so there is no prefill rate")
			continue
		}
		if r.CachedTokens.OK && float64(r.CachedTokens.V) >= maxCachedShare*float64(r.PromptTokens.V) && r.CachedTokens.V > 0 {
			warm++
			cached = append(cached, r.CachedTokens.V)
			continue
		}
		rates = append(rates, float64(r.PromptTokens.V)/(float64(r.TTFTNS.V)/1e9))
		ttfts = append(ttfts, float64(r.TTFTNS.V))
		prompts = append(prompts, r.PromptTokens.V)
		h.Record(r.TTFTNS.V)
		c.TokensFrom = worse(c.TokensFrom, r.TokensFrom)
	}
	c.FailedStreams = failed
	c.TotalTokS, c.TTFTMS = median(rates), scale(median(ttfts), 1e-6)
	c.Completed = stream.Some(len(rates))
	c.TTFT, c.Hist.TTFT = QuantilesOf(&h), &h
	if c.TTFTMS.OK {
		c.TTFT.P50 = c.TTFTMS
	}
	if len(prompts) > 0 {
		c.PromptTokens = stream.Some(medianInt(prompts))
	}
	if warm > 0 {
		c.CachedTokens = stream.Some(medianInt(cached))
		c.Warn("prefill_cached", fmt.Sprintf("%d of %d samples were served from the prompt cache and are left out", warm, c.Streams))
	}
	switch {
	case len(rates) == 0 && failed > 0:
		c.Raise(Failed, "streams_failed", fmt.Sprintf("%d of %d samples failed: %s", failed, c.Streams, failure))
	case len(rates) == 0 && warm > 0:
		c.Raise(Failed, "prefill_cached", "no sample was cold")
	case len(rates) == 0:
		c.Raise(Failed, "no_sample", "no sample gave a prompt rate")
	case failed > 0:
		c.Warn("streams_failed", fmt.Sprintf("%d of %d samples failed: %s", failed, c.Streams, failure))
	}
	return c
}
