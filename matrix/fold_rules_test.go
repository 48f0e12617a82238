package matrix

import (
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
