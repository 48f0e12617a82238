package matrix

import (
	"math"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/stream"
)

// TestRateNeedsSixteenTokens: the rule counts the tokens in the window, the rate
// those behind the first event; a stream with 16 tokens was once left out.
func TestRateNeedsSixteenTokens(t *testing.T) {
	with := func(tokens float64, span time.Duration) DecodeInput {
		r := steady(0, 10*time.Millisecond)
		r.Window.Tokens, r.Window.LastNS = tokens, stream.Some(int64(span))
		return input(r)
	}
	for _, tc := range []struct {
		name string
		in   DecodeInput
		want float64 // 0: no rate
	}{
		{"16 tokens in a second", with(16, time.Second), 15},
		{"15 tokens", with(15, time.Second), 0},
		{"a nanosecond less than a second", with(16, time.Second-1), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := FoldDecode(tc.in)
			if c.RequestTokS.OK != (tc.want > 0) || c.RequestTokS.V != tc.want {
				t.Errorf("rate %+v, want %v", c.RequestTokS, tc.want)
			}
		})
	}
}

// TestHiddenReasoningHasNoRate: the tokens that nobody saw were spread over the
// visible events, which made a stream look as many times faster.
func TestHiddenReasoningHasNoRate(t *testing.T) {
	r := steady(0, time.Millisecond)
	r.Flags = []string{"hidden_reasoning"}
	c := FoldDecode(input(r, steady(1, 10*time.Millisecond)))
	near(t, "request_tok_s", c.RequestTokS, 100)
	near(t, "tbt_ms", c.TBTMS, 10)
	if len(c.Warnings) != 1 || c.Warnings[0].Code != "hidden_reasoning" {
		t.Errorf("warnings %+v, want hidden_reasoning", c.Warnings)
	}
}

// TestFailedStreamsWereActive: the integral of open streams is over all of them,
// whatever became of their tokens.
func TestFailedStreamsWereActive(t *testing.T) {
	failed := steady(1, 10*time.Millisecond)
	failed.End, failed.Reason = stream.Failed, "reset"
	failed.EndNS, failed.LastTokenNS = stream.Some(10*second), stream.Some(9*second) // half of the window
	c := FoldDecode(input(steady(0, 10*time.Millisecond), failed))
	near(t, "avg_active", c.AvgActive, 1.5)
	near(t, "avg_decoding", c.AvgDecoding, 1.4)
	near(t, "output_tokens", c.OutputTokens, 1000) // its tokens stay out
}

// TestNothingMeasuredIsNotZero: a window without a token was a valid cell of
// 0 tok/s.
func TestNothingMeasuredIsNotZero(t *testing.T) {
	r := steady(0, 10*time.Millisecond)
	r.Window = &stream.Window{CleanNS: 10 * second}
	c := FoldDecode(input(r))
	if c.TotalTokS.OK || c.Status != Failed || c.Reason != "no_token" {
		t.Errorf("total %+v, status %q (%s); want none, failed for no_token", c.TotalTokS, c.Status, c.Reason)
	}
}

// TestWaitsOfStreamsCutShort: restarts that never got a token waited too.
func TestWaitsOfStreamsCutShort(t *testing.T) {
	waits := stream.Record{
		Slot: 1, Seq: 1, Phase: stream.InWin, End: stream.Cancelled, SentNS: stream.Some(105 * second), EndNS: stream.Some(5 * second),
		Window: &stream.Window{CleanNS: 5 * second},
	}
	c := FoldDecode(input(steady(0, 10*time.Millisecond), waits))
	if len(c.Warnings) != 1 || c.Warnings[0].Code != "many_restarts" {
		t.Errorf("warnings %+v, want many_restarts: a third of the stream-time went by waiting", c.Warnings)
	}
}

// TestDiscardLeavesNoNumbers, not in the distributions either.
func TestDiscardLeavesNoNumbers(t *testing.T) {
	in := input(looped(steady(0, 10*time.Millisecond)))
	in.Discard = true
	c := FoldDecode(in)
	if c.TTFT.N != 0 || c.TBT.N != 0 || c.Hist.TTFT != nil || c.Hist.TBT != nil || c.TokensPerEvent.OK || c.TTFTMS.OK {
		t.Errorf("a discarded cell has ttft %+v, tbt %+v, %+v tokens an event", c.TTFT, c.TBT, c.TokensPerEvent)
	}
}

// TestPrefillOfNoTime: a first token that is not later than its request is a
// fault of the clocks, and was an infinite rate.
func TestPrefillOfNoTime(t *testing.T) {
	for _, ttft := range []int64{0, -1000} {
		c := FoldPrefill(8192, []stream.Record{{End: stream.Completed, TTFTNS: stream.Some(ttft), PromptTokens: stream.Some(8192)}})
		if c.TotalTokS.OK || c.Status != Failed {
			t.Errorf("ttft %d ns: %+v tok/s, status %q; want none, failed", ttft, c.TotalTokS, c.Status)
		}
	}
}

// TestColdMeansBelowOnePercent, with the edge on the warm side.
func TestColdMeansBelowOnePercent(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cached stream.Null[int]
		cold   bool
	}{
		{"not reported", stream.Null[int]{}, true},
		{"none", stream.Some(0), true},
		{"below", stream.Some(99), true},
		{"exactly one percent", stream.Some(100), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := FoldPrefill(8192, []stream.Record{{
				End: stream.Completed, TTFTNS: stream.Some(second), PromptTokens: stream.Some(10_000), CachedTokens: tc.cached,
			}})
			if c.TotalTokS.OK != tc.cold {
				t.Errorf("rate %+v, want one: %v", c.TotalTokS, tc.cold)
			}
		})
	}
}

// TestEdgesOfTheWindow: it is half open for completions and for restarts as it
// is for tokens.
func TestEdgesOfTheWindow(t *testing.T) {
	for _, tc := range []struct {
		name            string
		sent, end       int64 // s; the window is [100, 110)
		completed, wait int
	}{
		{"ends as the window opens", 99, 100, 1, 0},
		{"ends as it closes", 99, 110, 0, 0},
		{"begins as the window opens", 100, 105, 1, 1},
		{"begins as it closes", 110, 120, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := steady(0, 10*time.Millisecond)
			r.Seq, r.End = 1, stream.Completed
			r.SentNS, r.EndNS = stream.Some(tc.sent*second), stream.Some((tc.end-tc.sent)*second)
			c := FoldDecode(input(r))
			if c.Completed.V != tc.completed || c.TTFTSteady.N != int64(tc.wait) || c.TTFT.N != 0 {
				t.Errorf("%d completed, ttft of %d steady and %d burst; want %d, %d, 0", c.Completed.V, c.TTFTSteady.N, c.TTFT.N, tc.completed, tc.wait)
			}
		})
	}
}

// TestThresholds: each row stands on its rule's edge, one step to each side.
func TestThresholds(t *testing.T) {
	loop := func(clean int64) DecodeInput {
		r := looped(steady(0, 10*time.Millisecond))
		r.Window.CleanNS = clean
		return input(r)
	}
	failed := func(n, of int) DecodeInput {
		var rs []stream.Record
		for i := range of {
			r := steady(i, 10*time.Millisecond)
			if i < n {
				r.End, r.Reason = stream.Failed, "reset"
			}
			rs = append(rs, r)
		}
		return input(rs...)
	}
	short := func(tokens int) DecodeInput {
		r := steady(0, 10*time.Millisecond)
		r.End, r.Tokens = stream.Completed, tokens
		in := input(r)
		in.ForceLength, in.MaxTokens = true, 1000
		return in
	}
	for _, tc := range []struct {
		name string
		in   DecodeInput
		want Status
	}{
		{"half of the time is clean", loop(5 * second), Valid},
		{"less than half", loop(5*second - 1), Looped},
		{"one percent failed", failed(1, 100), Valid},
		{"more than one percent", failed(2, 100), Failed},
		{"95 % of the length asked", short(950), Valid},
		{"less", short(949), Short},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if c := FoldDecode(tc.in); c.Status != tc.want {
				t.Errorf("status %q (%s), want %q", c.Status, c.Message, tc.want)
			}
		})
	}
}

// TestEventShares: tokens an event are those of the window, the share of
// coalesced events that of whole streams.
func TestEventShares(t *testing.T) {
	r := steady(0, 10*time.Millisecond)
	r.Window.Tokens, r.Window.Events = 900, 300
	r.GeneratedEvents, r.CoalescedEvents = 800, 200
	c := FoldDecode(input(r))
	near(t, "tokens_per_event", c.TokensPerEvent, 3)
	near(t, "coalesced_share", c.CoalescedShare, .25)
}

// TestRateOfACutStream comes from its clean part: 200 tokens in 4 s, not the 299
// in 3 s that the loop raced through.
func TestRateOfACutStream(t *testing.T) {
	r := looped(steady(0, 10*time.Millisecond))
	r.Window.CleanTokens, r.Window.CleanNS = 200, 4*second
	c := FoldDecode(input(r))
	near(t, "request_tok_s", c.RequestTokS, 50)
	near(t, "tbt_ms", c.TBTMS, 20)
}

// TestMedianOfCounts is one of them, the lower of the middle two.
func TestMedianOfCounts(t *testing.T) {
	if got := medianInt([]int{9, 1, 4, 2}); got != 2 {
		t.Errorf("median of 9 1 4 2 is %d, want 2", got)
	}
}

// TestSentAreThoseNotDropped: what is not among them was dropped, so a send that got
// no connection is; its wait counts if the end of the load was what ended it.
func TestSentAreThoseNotDropped(t *testing.T) {
	at := func(ns int64) stream.Record {
		r := steady(0, 10*time.Millisecond)
		r.IntendedNS, r.SentNS = stream.Some(ns), stream.Some(ns)
		return r
	}
	refused, waiting := at(101*second), at(104*second)
	refused.End, refused.Reason = stream.Failed, "connect"
	for _, r := range []*stream.Record{&refused, &waiting} {
		r.SentNS, r.EndNS, r.TTFTNS, r.LastTokenNS, r.Window = stream.Null[int64]{}, stream.Null[int64]{}, stream.Null[int64]{}, stream.Null[int64]{}, nil
	}
	c := FoldOffered(input(at(100*second), refused, waiting, at(110*second)), OfferedLoad{Rate: 1, LengthS: 10, Intended: 5, Dropped: 2})
	if l := c.Offered; l.Sent != 3 || l.Intended != l.Sent+l.Dropped || l.Unanswered != 1 {
		t.Errorf("sent %d of %d, %d unanswered; want 3, all that were not dropped, and 1", l.Sent, l.Intended, l.Unanswered)
	}
	if got := c.Offered.IntendedTTFT.Max.V; math.Abs(got-6000) > 6000./256 {
		t.Errorf("the longest wait is %g ms, want the 6 s to the end of the load", got)
	}
	if c.FailedStreams != 1 {
		t.Errorf("%d failed streams, want the one that got no connection", c.FailedStreams)
	}
}
