package matrix

import (
	"fmt"
	"slices"
	"time"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stream"
)

// Least share of a cell's stream-time that must be clean for its salvaged
// numbers to be valid.
const minCleanShare = 0.5

// A stream enters the medians with at least this many tokens in the window, those
// of its first event included, and this long between its first and last event in it.
const (
	minRateTokens = 16
	minRateSpan   = time.Second
)

// DecodeInput is what FoldDecode needs beside the records.
type DecodeInput struct {
	Context, Concurrency, Repeat int

	Records  []stream.Record // all streams of the cell, window parts filled
	Gaps     *hist.H         // gaps between events inside the window, loops excluded; nil when unknown
	OpenNS   int64           // window opening since the header line
	Duration time.Duration

	Discard     bool    // --on-loop=discard
	ForceLength bool    // --force-length: short applies
	MaxTokens   int     // asked of each stream
	MaxFailed   float64 // share of streams that may fail
}

// FoldDecode computes a decode cell from its records' window parts and sets the
// statuses that follow from them: failed, looped, short, valid. What only the
// generator knows (admission, lag, drain) it raises itself.
func FoldDecode(in DecodeInput) Cell {
	c := Cell{
		Type: "cell", V: Version, Phase: Decode, Context: in.Context, Concurrency: in.Concurrency, Repeat: in.Repeat,
		Status: Valid, OpenNS: stream.Some(in.OpenNS), Warnings: []Warning{}, PerSecond: []float64{},
	}
	s := sumWindow(in)
	window := in.Duration.Seconds()
	c.MeasuredS = stream.Some(window)
	c.OutputTokens = stream.Some(s.tokens)
	c.Completed = stream.Some(s.completed)
	c.AvgActive = stream.Some(s.activeNS / float64(in.Duration))
	c.AvgDecoding = stream.Some(s.decodingNS / float64(in.Duration))
	c.Streams, c.FailedStreams, c.Loops = s.streams, s.failed, s.loops
	c.Stamps, c.TokensFrom = s.stamps, s.from

	capacity := float64(in.Concurrency) * float64(in.Duration)
	share := s.cleanNS / capacity
	c.CleanShare = stream.Some(share)
	switch {
	case s.trimmed == 0 && s.loops == 0 && s.events == 0:
		// Not 0 tok/s: nothing was measured, see below.
	case s.trimmed == 0 && s.loops == 0:
		c.TotalTokS = stream.Some(s.tokens / window)
	case s.cleanNS > 0:
		c.TotalTokS = stream.Some(float64(in.Concurrency) * s.cleanTokens / (s.cleanNS / 1e9))
	}

	c.RequestTokS = median(s.rates)
	c.TBTMS = scale(median(s.tbts), 1e-6)
	c.Hist = Hists{TTFT: &s.ttft, TBT: &s.tbt, Gaps: in.Gaps}
	c.TTFT, c.TBT, c.Gaps = QuantilesOf(&s.ttft), QuantilesOf(&s.tbt), QuantilesOf(in.Gaps)
	c.TTFTSteady = QuantilesOf(&s.ttftSteady)
	c.TTFTMS = scale(median(s.burst), 1e-6)
	// The cell's medians are exact; the histogram's own are near them. One cell
	// must not print two.
	if c.TTFTMS.OK {
		c.TTFT.P50 = c.TTFTMS
	}
	if c.TBTMS.OK {
		c.TBT.P50 = c.TBTMS
	}
	if s.events > 0 {
		c.TokensPerEvent = stream.Some(s.tokens / float64(s.events))
	}
	if s.generated > 0 {
		c.CoalescedShare = stream.Some(float64(s.coalesced) / float64(s.generated))
	}
	if len(s.prompts) > 0 {
		c.PromptTokens = stream.Some(medianInt(s.prompts))
	}
	if len(s.cached) > 0 {
		c.CachedTokens = stream.Some(medianInt(s.cached))
	}

	judgeLoops(&c, in, share)
	if in.ForceLength && s.selfEnded > 0 {
		if mean := s.askedShare / float64(s.selfEnded); mean < 0.95 {
			c.Raise(Short, "short", fmt.Sprintf(
				"streams that ended by themselves gave %.1f %% of the %d tokens asked", 100*mean, in.MaxTokens))
		}
	}
	if s.streams > 0 && float64(s.failed) > in.MaxFailed*float64(s.streams) {
		c.Raise(Failed, "streams_failed", fmt.Sprintf(
			"%d of %d streams failed, more than the %.3g %% allowed: %s", s.failed, s.streams, 100*in.MaxFailed, s.failure))
	}
	if s.cold > 0 {
		c.Warn("burst_cold", fmt.Sprintf("the prompt cache was cold for %d of the %d streams of the start burst, whose TTFT holds a prefill", s.cold, len(s.burst)))
	}
	if s.trimmed == 0 && s.loops == 0 && s.events == 0 {
		c.Raise(Failed, "no_token", "no token came inside the window")
	}
	if s.hidden > 0 {
		c.Warn("hidden_reasoning", fmt.Sprintf(
			"%d streams generated tokens out of sight: they have no rate and no time between tokens", s.hidden))
	}
	if len(s.rates) == 0 && s.hidden == 0 && s.events > 0 {
		c.Warn("no_rate", fmt.Sprintf(
			"no stream had %d tokens and %v between its first and last event in the window, so there is no rate per request", minRateTokens, minRateSpan))
	}
	if n := waitShare(s); n > 0.1 {
		c.Warn("many_restarts", fmt.Sprintf("waits for first tokens of restarted streams took %.0f %% of the stream-time", 100*n))
	}
	return c
}

// judgeLoops applies docs/measuring.md, "Loops", to a folded cell.
func judgeLoops(c *Cell, in DecodeInput, share float64) {
	if c.Loops == 0 {
		judgeCandidates(c, in, share)
		return
	}
	what := fmt.Sprintf("%d of %d streams looped; %.0f %% of the stream-time is clean", c.Loops, c.Streams, 100*share)
	switch {
	case in.Discard:
		c.Raise(Looped, "loop_discarded", what+"; --on-loop=discard leaves no numbers")
		c.TotalTokS, c.RequestTokS, c.TBTMS, c.TTFTMS = stream.Null[float64]{}, stream.Null[float64]{}, stream.Null[float64]{}, stream.Null[float64]{}
		c.AvgActive, c.OutputTokens, c.Completed = stream.Null[float64]{}, stream.Null[float64]{}, stream.Null[int]{}
		c.AvgDecoding, c.MeasuredS, c.TokensPerEvent = stream.Null[float64]{}, stream.Null[float64]{}, stream.Null[float64]{}
		c.TTFT, c.TTFTSteady, c.TBT, c.Gaps, c.Hist = Quantiles{}, Quantiles{}, Quantiles{}, Quantiles{}, Hists{}
	case share < minCleanShare:
		c.Raise(Looped, "loop", what+": less than half, so the numbers are provisional")
	default:
		c.Warn("salvaged", what+"; total is C · clean tokens / clean stream-seconds, not output / measured")
	}
}

// judgeCandidates looks at a cell without a verdict, some of whose streams were
// repeating themselves when the window closed. What is certain of them is too
// little to retire a stream, and enough not to call a cell valid that is made of
// nothing else.
func judgeCandidates(c *Cell, in DecodeInput, share float64) {
	trimmed := 0
	for i := range in.Records {
		if w := in.Records[i].Window; w != nil && w.Trimmed {
			trimmed++
		}
	}
	if trimmed == 0 {
		return
	}
	what := fmt.Sprintf("%d of %d streams were starting to repeat themselves when the window closed, and are left out from there on; %.0f %% of the stream-time is clean",
		trimmed, c.Streams, 100*share)
	if share < minCleanShare {
		c.Raise(Looped, "loop_suspected", what+": less than half, so the numbers are provisional")
		return
	}
	c.Warn("loop_suspected", what)
}

// sums is what one pass over the records of a cell gathers.
type sums struct {
	tokens, cleanTokens, cleanNS float64
	activeNS, decodingNS, waitNS float64
	events, generated, coalesced int
	streams, failed, completed   int
	loops, trimmed               int
	selfEnded, hidden            int
	askedShare                   float64
	rates, tbts, burst           []float64
	cold                         int // streams of the burst
	ttft, ttftSteady, tbt        hist.H
	prompts, cached              []int
	stamps, failure              string
	from                         stream.TokensFrom
}

func sumWindow(in DecodeInput) *sums {
	s := &sums{}
	open, end := in.OpenNS, in.OpenNS+int64(in.Duration)
	for i := range in.Records {
		r := &in.Records[i]
		s.streams++
		s.outcome(r, in)
		if r.HeadersNS.OK { // else nothing of it was stamped
			s.stamps = mixed(s.stamps, r.Stamps)
		}
		if r.PromptTokens.OK {
			s.prompts = append(s.prompts, r.PromptTokens.V)
		}
		if r.CachedTokens.OK {
			s.cached = append(s.cached, r.CachedTokens.V)
		}
		s.times(r, open, end) // a stream that failed was open until then
		if r.End == stream.Failed {
			continue
		}
		s.latencies(r, open, end)
		if r.Seq == 0 && r.TTFTNS.OK && cold(r, in.Context) {
			s.cold++
		}
		s.window(r)
	}
	return s
}

// unshared is a generous bound of what a prompt holds behind the context that the
// cell's streams share, in tokens.
const unshared = 256

// cold reports whether the server, by its own word, read most of a context anew
// that the prime had shown it. A llama-server keeps a cache for each slot: the
// prime warms one.
func cold(r *stream.Record, context int) bool {
	return r.CachedTokens.OK && 2*r.CachedTokens.V < context-unshared
}

// outcome counts how a stream ended.
func (s *sums) outcome(r *stream.Record, in DecodeInput) {
	open, end := in.OpenNS, in.OpenNS+int64(in.Duration)
	switch r.End {
	case stream.Failed, stream.Truncated:
		s.failed++
		if s.failure == "" {
			s.failure = firstOf(string(r.Error), string(r.Reason), string(r.End))
		}
	case stream.Completed:
		if at := r.SentNS.V + r.EndNS.V; r.EndNS.OK && at >= open && at < end {
			s.completed++
		}
		if in.MaxTokens > 0 {
			s.selfEnded++
			s.askedShare += float64(r.Tokens) / float64(in.MaxTokens)
		}
	}
	if slices.ContainsFunc(r.Loops, stream.Loop.Acts) {
		s.loops++
	}
}

// times adds the stream's share of the open, decoding and waiting integrals.
func (s *sums) times(r *stream.Record, open, end int64) {
	if !r.SentNS.OK {
		return
	}
	sent := r.SentNS.V
	if r.EndNS.OK {
		s.activeNS += overlap(sent, sent+r.EndNS.V, open, end)
	}
	if r.TTFTNS.OK && r.LastTokenNS.OK {
		s.decodingNS += overlap(sent+r.TTFTNS.V, sent+r.LastTokenNS.V, open, end)
	}
	if r.Phase == stream.InWin {
		wait := r.EndNS // of one that still waited when it ended
		if r.TTFTNS.OK {
			wait = r.TTFTNS
		}
		s.waitNS += overlap(sent, sent+wait.V, open, end)
	}
}

// latencies files the stream's TTFT: the start burst is each slot's first
// stream; streams sent inside the window are the steady ones.
func (s *sums) latencies(r *stream.Record, open, end int64) {
	if !r.TTFTNS.OK {
		return
	}
	switch {
	case r.Seq == 0:
		s.burst = append(s.burst, float64(r.TTFTNS.V))
		s.ttft.Record(r.TTFTNS.V)
	case r.SentNS.V >= open && r.SentNS.V < end:
		s.ttftSteady.Record(r.TTFTNS.V)
	}
}

// window adds the stream's part inside the window.
func (s *sums) window(r *stream.Record) {
	w := r.Window
	if w == nil {
		return
	}
	s.tokens += w.Tokens
	s.events += w.Events
	s.cleanTokens += w.CleanTokens
	s.cleanNS += float64(w.CleanNS)
	s.generated += r.GeneratedEvents
	s.coalesced += r.CoalescedEvents
	if w.Trimmed {
		s.trimmed++
	}
	if w.Events > 0 {
		s.from = worse(s.from, r.TokensFrom)
	}
	if slices.Contains(r.Flags, "hidden_reasoning") {
		s.hidden++ // its tbt is null, so it has no rate
		return
	}
	tokens, span := rateParts(w)
	if tokens > 0 && tokens+w.FirstTokens >= minRateTokens && span >= int64(minRateSpan) {
		s.rates = append(s.rates, tokens/(float64(span)/1e9))
		s.tbts = append(s.tbts, float64(span)/tokens)
		s.tbt.Record(int64(float64(span) / tokens))
	}
}

// rateParts returns the tokens and the time that a stream's rate comes from: its
// events inside the window behind the first, up to the onset where a loop was cut
// off.
func rateParts(w *stream.Window) (tokens float64, span int64) {
	if w.Trimmed {
		return w.CleanTokens, w.CleanNS
	}
	if !w.FirstNS.OK || !w.LastNS.OK {
		return 0, 0
	}
	return w.Tokens - w.FirstTokens, w.LastNS.V - w.FirstNS.V
}

// waitShare is the part of the open stream-time spent waiting for the first
// tokens of streams restarted inside the window.
func waitShare(s *sums) float64 {
	if s.activeNS == 0 {
		return 0
	}
	return s.waitNS / s.activeNS
}

func overlap(a, b, open, end int64) float64 {
	return float64(max(min(b, end)-max(a, open), 0))
}

func mixed(have, next string) string {
	switch {
	case have == "" || have == next:
		return next
	case next == "":
		return have
	}
	return "mixed"
}

// trust orders the token sources, best first.
var trust = []stream.TokensFrom{
	stream.FromTokenIDs, stream.FromUsageContinuous, stream.FromLogprobs,
	stream.FromNative, stream.FromUsageFinal, stream.FromEstimate,
}

// worse returns the less trustworthy of two sources: a cell is as good as its
// worst stream.
func worse(a, b stream.TokensFrom) stream.TokensFrom {
	if a == "" || slices.Index(trust, b) > slices.Index(trust, a) {
		return b
	}
	return a
}

func firstOf(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}
