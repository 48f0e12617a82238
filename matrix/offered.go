package matrix

import (
	"fmt"
	"math"
	"time"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stream"
)

// OfferedLoad is what a cell of paced load was offered: requests are sent at
// instants that were chosen beforehand, whether or not earlier ones have ended.
// The cell's Concurrency is the bound on open streams.
//
// A stream belongs to the window in which it was intended to be sent.
type OfferedLoad struct {
	Rate    float64 `json:"rate"`     // requests a second
	Arrival string  `json:"arrival"`  // poisson, constant
	Stage   int     `json:"stage"`    // 0 first; stages follow one another without a pause
	LengthS float64 `json:"length_s"` // of the stage, as asked

	Intended   int `json:"intended"`   // sends in the window
	Sent       int `json:"sent"`       // of these, for whom a place was free: Intended − Dropped
	Late       int `json:"late"`       // of those sent, by us, over LateAfter behind the intended instant
	Dropped    int `json:"dropped"`    // intended, but no place was free
	Unanswered int `json:"unanswered"` // without a token when the load ended

	// IntendedTTFT is from the intended instant to the first token. Unanswered
	// streams are in it with the time they had waited, a lower bound.
	IntendedTTFT Quantiles `json:"intended_ttft"`
	Hist         *hist.H   `json:"hist"` // of IntendedTTFT
	SendLag      Quantiles `json:"send_lag"`
}

// PacedConfig is the settings of paced load.
type PacedConfig struct {
	Rates   []float64     `json:"rates,omitempty"` // a second
	Stages  []StageConfig `json:"stages,omitempty"`
	Arrival string        `json:"arrival"`
	MaxOpen int           `json:"max_open"`
}

// StageConfig is one stage of it.
type StageConfig struct {
	Rate    float64 `json:"rate"`
	LengthS float64 `json:"length_s"`
}

// SLOConfig is the targets of a search, of 95th percentiles; 0: none.
type SLOConfig struct {
	TTFTMS float64 `json:"ttft_ms"`
	TBTMS  float64 `json:"tbt_ms"`
}

// LateAfter is how far behind its intended instant a send is late.
const LateAfter = 5 * time.Millisecond

// maxLate is the share of late sends beyond which the generator was the
// bottleneck.
const maxLate = 0.05

func (l *OfferedLoad) same(m *OfferedLoad) bool {
	if l == nil || m == nil {
		return l == m
	}
	return l.Rate == m.Rate && l.Arrival == m.Arrival && l.Stage == m.Stage && l.LengthS == m.LengthS
}

// own reports whether a stream was intended in the stage that opened at openNS.
func (l *OfferedLoad) own(r *stream.Record, openNS int64) bool {
	at := r.IntendedNS
	return at.OK && at.V >= openNS && at.V < openNS+int64(math.Round(l.LengthS*1e9))
}

// count fills in what the stage's own records say: how many there are, one for each
// send that was not dropped, and how long they took from their intended instants. A
// request that had no connection when the load ended had waited until then; one that
// never got one is among the failed streams.
func (l *OfferedLoad) count(own []stream.Record, endNS int64) {
	var h hist.H
	l.Sent, l.Unanswered = len(own), 0
	for i := range own {
		r := &own[i]
		switch end := r.SentNS.V + r.EndNS.V; {
		case r.End == stream.Failed:
		case r.TTFTNS.OK:
			h.Record(r.SentNS.V + r.TTFTNS.V - r.IntendedNS.V)
		case r.End == stream.Cancelled:
			if !r.SentNS.OK || !r.EndNS.OK {
				end = max(endNS, r.IntendedNS.V)
			}
			l.Unanswered++
			h.Record(end - r.IntendedNS.V)
		}
	}
	l.Hist, l.IntendedTTFT = &h, QuantilesOf(&h)
}

// FoldOffered computes a cell of paced load. in.Records are all streams that were
// open in the window, with their window parts. Those that were intended in it make
// the latencies (TBT over their whole lives), the endings and the statuses, all
// make the tokens. Of load it takes what the records cannot tell: what was
// offered, what was dropped or late, and by how much. Where streams looped, what
// came from the onset on is left out, and the server had less to do than was
// offered: no total can be salvaged from that, so beyond in.MaxFailed the cell is
// looped.
func FoldOffered(in DecodeInput, load OfferedLoad) Cell {
	c := Cell{
		Type: "cell", V: Version, Phase: Offered, Context: in.Context, Concurrency: in.Concurrency, Repeat: in.Repeat,
		Status: Valid, OpenNS: stream.Some(in.OpenNS), Warnings: []Warning{}, PerSecond: []float64{}, Offered: &load,
	}
	all := sumWindow(in)
	window := in.Duration.Seconds()
	mine := in
	mine.Records = nil
	var ttfts, tbts, rates []float64
	var ttft, tbt hist.H
	tokens := 0.0
	for i := range in.Records {
		r := &in.Records[i]
		if w := r.Window; w != nil && r.End != stream.Failed {
			tokens += w.Tokens
			if w.Trimmed {
				tokens += w.CleanTokens - w.Tokens
			}
		}
		if !load.own(r, in.OpenNS) {
			continue
		}
		mine.Records = append(mine.Records, *r)
		if r.TTFTNS.OK && r.End != stream.Failed {
			ttfts = append(ttfts, float64(r.TTFTNS.V))
			ttft.Record(r.TTFTNS.V)
		}
		// Of the whole stream: replies may be shorter than a part of a window
		// must be to have a rate.
		if r.TBTNS.OK && r.TBTNS.V > 0 && r.Tokens >= minRateTokens && (r.End == stream.Completed || r.End == stream.Cancelled) {
			tbts = append(tbts, r.TBTNS.V)
			rates = append(rates, 1e9/r.TBTNS.V)
			tbt.Record(int64(r.TBTNS.V))
		}
	}
	load.count(mine.Records, in.OpenNS+int64(in.Duration))
	s := sumWindow(mine)
	c.MeasuredS, c.OutputTokens = stream.Some(window), stream.Some(tokens)
	c.Completed = stream.Some(all.completed)
	c.AvgActive = stream.Some(all.activeNS / float64(in.Duration))
	c.AvgDecoding = stream.Some(all.decodingNS / float64(in.Duration))
	c.Streams, c.FailedStreams, c.Loops = s.streams, s.failed, s.loops
	c.Stamps, c.TokensFrom = all.stamps, all.from
	c.RequestTokS, c.TBTMS = median(rates), scale(median(tbts), 1e-6)
	c.TTFTMS = scale(median(ttfts), 1e-6)
	c.Hist = Hists{TTFT: &ttft, TBT: &tbt, Gaps: in.Gaps}
	c.TTFT, c.TBT, c.Gaps = QuantilesOf(&ttft), QuantilesOf(&tbt), QuantilesOf(in.Gaps)
	if all.events > 0 {
		c.TotalTokS = stream.Some(tokens / window)
		c.TokensPerEvent = stream.Some(all.tokens / float64(all.events))
	}
	if all.generated > 0 {
		c.CoalescedShare = stream.Some(float64(all.coalesced) / float64(all.generated))
	}
	if len(s.prompts) > 0 {
		c.PromptTokens = stream.Some(medianInt(s.prompts))
	}
	if len(s.cached) > 0 {
		c.CachedTokens = stream.Some(medianInt(s.cached))
	}
	judgeOffered(&c, in, s)
	return c
}

// judgeOffered sets the statuses that follow from the numbers.
func judgeOffered(c *Cell, in DecodeInput, s *sums) {
	l := c.Offered
	if s.loops > 0 {
		what := fmt.Sprintf("%d of %d streams looped and were ended: the server had less to do than it was offered", s.loops, s.streams)
		if in.Discard || float64(s.loops) > in.MaxFailed*float64(s.streams) {
			c.Raise(Looped, "loop", what)
		} else {
			c.Warn("loops", what)
		}
	}
	if s.streams > 0 && float64(s.failed) > in.MaxFailed*float64(s.streams) {
		c.Raise(Failed, "streams_failed", fmt.Sprintf(
			"%d of %d streams failed, more than the %.3g %% allowed: %s", s.failed, s.streams, 100*in.MaxFailed, s.failure))
	}
	if l.Dropped > 0 {
		what := fmt.Sprintf("%d of %d sends found all %d places taken and were dropped", l.Dropped, l.Intended, c.Concurrency)
		if float64(l.Dropped) > in.MaxFailed*float64(l.Intended) {
			c.Raise(OverCapacity, "dropped", what+": the server does not keep up with the rate")
		} else {
			c.Warn("dropped", what)
		}
	}
	if l.Late > 0 {
		what := fmt.Sprintf("%d of %d sends left us over %v late", l.Late, l.Sent, LateAfter)
		if float64(l.Late) > maxLate*float64(l.Sent) {
			c.Raise(Limited, "late_sends", what)
		} else {
			c.Warn("late_sends", what)
		}
	}
	if l.Unanswered > 0 {
		c.Warn("unanswered", fmt.Sprintf("%d of %d streams had no token when the load ended; they are counted with the time they had waited", l.Unanswered, l.Sent))
	}
	if !c.TotalTokS.OK && l.Intended > 0 && c.Status == Valid {
		c.Raise(Failed, "no_token", "no token came inside the window")
	}
	if l.Intended == 0 {
		c.Raise(Failed, "no_send", fmt.Sprintf("no send fell into the window of %.3g s", c.MeasuredS.V))
	}
}
