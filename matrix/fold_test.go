package matrix

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/stream"
)

const second = int64(time.Second)

// steady is a stream that is open over the whole 10 s window (opening at 100 s)
// and gives one token every itl.
func steady(slot int, itl time.Duration) stream.Record {
	n := float64(10 * time.Second / itl)
	return stream.Record{
		Slot: slot, Phase: stream.Warmup, End: stream.Cancelled, TokensFrom: stream.FromTokenIDs, Stamps: "kernel",
		SentNS: stream.Some(95 * second), EndNS: stream.Some(20 * second),
		TTFTNS: stream.Some(int64(200e6)), LastTokenNS: stream.Some(15 * second),
		Tokens: int(n) * 2, GeneratedEvents: int(n) * 2,
		Window: &stream.Window{
			Tokens: n, FirstTokens: 1, FirstNS: stream.Some(int64(0)), LastNS: stream.Some(10*second - int64(itl)), Events: int(n),
			CleanTokens: n, CleanNS: 10 * second,
		},
	}
}

func input(rs ...stream.Record) DecodeInput {
	return DecodeInput{
		Context: 8192, Concurrency: len(rs), Records: rs, OpenNS: 100 * second, Duration: 10 * time.Second,
		MaxTokens: 4096, MaxFailed: 0.01,
	}
}

func near(t *testing.T, name string, got stream.Null[float64], want float64) {
	t.Helper()
	if !got.OK || math.Abs(got.V-want) > 1e-6*math.Abs(want)+1e-9 {
		t.Errorf("%s = %v (defined: %v), want %v", name, got.V, got.OK, want)
	}
}

func TestFoldCleanCell(t *testing.T) {
	c := FoldDecode(input(steady(0, 10*time.Millisecond), steady(1, 20*time.Millisecond)))
	if c.Status != Valid {
		t.Fatalf("status %q (%s), want valid", c.Status, c.Message)
	}
	near(t, "total_tok_s", c.TotalTokS, 150)
	near(t, "request_tok_s", c.RequestTokS, 75) // median of 100 and 50
	near(t, "tbt_ms", c.TBTMS, 15)
	near(t, "ttft_ms", c.TTFTMS, 200)
	near(t, "avg_active", c.AvgActive, 2)
	near(t, "avg_decoding", c.AvgDecoding, 2)
	near(t, "output_tokens", c.OutputTokens, 1500)
	near(t, "clean_share", c.CleanShare, 1)
	if c.Completed.V != 0 || !c.Completed.OK {
		t.Errorf("completed = %+v, want a defined 0: nothing ended inside the window", c.Completed)
	}
}

// looped turns a steady stream into one retired at 3 s: clean from its first
// event to the last before the onset at 2 s.
func looped(r stream.Record) stream.Record {
	r.End, r.Reason = stream.Looped, "confirmed"
	r.Loops = []stream.Loop{{Verdict: "confirmed"}}
	r.Window = &stream.Window{
		Tokens: 300, FirstTokens: 1, FirstNS: stream.Some(int64(0)), LastNS: stream.Some(3 * second), Events: 300,
		CleanTokens: 200, CleanNS: 2 * second, Trimmed: true,
	}
	return r
}

// restarted is the stream that follows: first token at 4 s, then 100 tok/s.
func restarted(slot int) stream.Record {
	r := steady(slot, 10*time.Millisecond)
	r.Seq, r.Phase = 1, stream.InWin
	r.SentNS, r.EndNS = stream.Some(103*second), stream.Some(12*second)
	r.TTFTNS, r.LastTokenNS = stream.Some(second), stream.Some(11*second)
	r.Window = &stream.Window{
		Tokens: 600, FirstTokens: 1, FirstNS: stream.Some(4 * second), LastNS: stream.Some(10*second - int64(1e7)), Events: 600,
		CleanTokens: 599, CleanNS: 6*second - int64(1e7),
	}
	return r
}

func TestFoldSalvageIsUnbiased(t *testing.T) {
	a := steady(0, 10*time.Millisecond)
	in := input(a, looped(steady(1, 10*time.Millisecond)), restarted(1))
	in.Concurrency = 2
	c := FoldDecode(in)
	if c.Status != Valid {
		t.Fatalf("status %q (%s), want valid: 18 of 20 stream-seconds are clean", c.Status, c.Message)
	}
	// Two streams of 100 tok/s each: the loop and the restart must not show.
	if got := c.TotalTokS.V; math.Abs(got-200) > 0.1 {
		t.Errorf("total %v, want 200 within a token", got)
	}
	near(t, "request_tok_s", c.RequestTokS, 100)
	if len(c.Warnings) == 0 || c.Warnings[0].Code != "salvaged" {
		t.Errorf("warnings %+v, want the salvage footnote", c.Warnings)
	}
	in.Discard = true
	c = FoldDecode(in)
	if c.Status != Looped || c.TotalTokS.OK || c.OutputTokens.OK {
		t.Errorf("discard gave %q with total %+v, want looped without numbers", c.Status, c.TotalTokS)
	}
}

func TestFoldMostlyLooped(t *testing.T) {
	c := FoldDecode(input(looped(steady(0, 10*time.Millisecond)), looped(steady(1, 10*time.Millisecond))))
	if c.Status != Looped || c.Reason != "loop" {
		t.Errorf("status %q reason %q, want looped: a fifth is clean", c.Status, c.Reason)
	}
	near(t, "total_tok_s", c.TotalTokS, 200) // provisional, still right
	near(t, "clean_share", c.CleanShare, 0.2)
}

// TestFoldColdBurst: a llama-server's prime warms one slot of several, and the
// TTFT of the others is no longer that of a warm cache.
func TestFoldColdBurst(t *testing.T) {
	cached := func(slot, tokens int) stream.Record {
		r := steady(slot, 10*time.Millisecond)
		r.PromptTokens, r.CachedTokens = stream.Some(8200), stream.Some(tokens)
		return r
	}
	c := FoldDecode(input(cached(0, 8100), cached(1, 0)))
	if len(c.Warnings) != 1 || c.Warnings[0].Code != "burst_cold" || !strings.Contains(c.Warnings[0].Message, "1 of the 2 streams") || c.Status != Valid {
		t.Errorf("%s, %+v; want valid with burst_cold of one stream", c.Status, c.Warnings)
	}
	restart := cached(1, 0)
	restart.Seq = 1
	for name, in := range map[string]DecodeInput{
		"all warm":              input(cached(0, 8100), cached(1, 8100)),
		"the server tells none": input(steady(0, 10*time.Millisecond)),
		"cold after the start":  input(cached(0, 8100), restart),
		"no context to be warm": {Records: []stream.Record{cached(0, 0)}, Concurrency: 1, OpenNS: 100 * second, Duration: 10 * time.Second},
	} {
		if c := FoldDecode(in); len(c.Warnings) > 0 {
			t.Errorf("%s: %+v, want no warning", name, c.Warnings)
		}
	}
}

// TestStampsOfUnansweredStreams: a stream cut while the server left it waiting
// brought no stamp, and once made its cell's stamps mixed.
func TestStampsOfUnansweredStreams(t *testing.T) {
	answered := steady(0, 10*time.Millisecond)
	answered.HeadersNS = stream.Some(int64(1e6))
	waiting := stream.Record{Slot: 1, End: stream.Cancelled, Stamps: "user", SentNS: stream.Some(99 * second), EndNS: stream.Some(11 * second)}
	if c := FoldDecode(input(answered, waiting)); c.Stamps != "kernel" {
		t.Errorf("stamps %q, want those of the one stream that was answered", c.Stamps)
	}
}

// TestFoldMostlyRepeating: slow streams that repeat themselves from their first
// token on, but reach no verdict in the window, once gave a valid cell without a
// total.
func TestFoldMostlyRepeating(t *testing.T) {
	candidate := func(slot int, clean int64) stream.Record {
		r := steady(slot, 10*time.Millisecond)
		r.Window.CleanNS, r.Window.CleanTokens, r.Window.Trimmed = clean, float64(clean)/1e7, true
		return r
	}
	c := FoldDecode(input(candidate(0, 0), candidate(1, 0)))
	if c.Status != Looped || c.Reason != "loop_suspected" || c.TotalTokS.OK {
		t.Errorf("status %q reason %q total %v, want looped: nothing is clean", c.Status, c.Reason, c.TotalTokS)
	}
	c = FoldDecode(input(steady(0, 10*time.Millisecond), candidate(1, 5*second)))
	if c.Status != Valid || len(c.Warnings) != 1 || c.Warnings[0].Code != "loop_suspected" || !strings.HasPrefix(c.Warnings[0].Message, "1 of 2 streams") {
		t.Errorf("status %q, warnings %+v; want valid with a remark: three quarters are clean", c.Status, c.Warnings)
	}
	near(t, "total_tok_s", c.TotalTokS, 200)
}

func TestFoldStatuses(t *testing.T) {
	failed := steady(1, 10*time.Millisecond)
	failed.End, failed.Reason, failed.Error, failed.Window = stream.Failed, "reset", "connection reset", nil
	short := steady(0, 10*time.Millisecond)
	short.End, short.Tokens = stream.Completed, 7
	for _, tc := range []struct {
		name string
		in   DecodeInput
		want Status
	}{
		{"one of two failed", input(steady(0, 10*time.Millisecond), failed), Failed},
		{"EOS respected is never short", input(short), Valid},
		{"forced length ignored", func() DecodeInput { in := input(short); in.ForceLength = true; return in }(), Short},
		{"failed beats looped", input(failed, looped(steady(0, 10*time.Millisecond))), Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if c := FoldDecode(tc.in); c.Status != tc.want {
				t.Errorf("status %q (%s), want %q", c.Status, c.Message, tc.want)
			}
		})
	}
}

func TestRaiseKeepsTheWorstAndForgetsNothing(t *testing.T) {
	c := Cell{Status: Valid}
	c.Raise(Limited, "lag", "generator too slow")
	c.Raise(OverCapacity, "admitted", "admitted 16 of 64")
	c.Raise(Short, "short", "too few tokens")
	if c.Status != OverCapacity || c.Reason != "admitted" {
		t.Errorf("status %q reason %q, want over_capacity admitted", c.Status, c.Reason)
	}
	if len(c.Warnings) != 2 || c.Warnings[0].Code != "lag" || c.Warnings[1].Code != "short" {
		t.Errorf("warnings %+v, want lag and short", c.Warnings)
	}
}

func TestFoldNoTokensIsNullNotZero(t *testing.T) {
	r := steady(0, 10*time.Millisecond)
	r.Window, r.TTFTNS, r.LastTokenNS = &stream.Window{}, stream.Null[int64]{}, stream.Null[int64]{}
	c := FoldDecode(input(r))
	if c.RequestTokS.OK || c.TBTMS.OK || c.TTFTMS.OK || c.TTFT.P50.OK {
		t.Errorf("a stream without tokens gave %+v %+v %+v", c.RequestTokS, c.TBTMS, c.TTFTMS)
	}
}

func TestFoldPrefill(t *testing.T) {
	sample := func(ttft time.Duration, cached int) stream.Record {
		return stream.Record{
			End: stream.Completed, Stamps: "kernel", TokensFrom: stream.FromUsageFinal,
			TTFTNS: stream.Some(int64(ttft)), PromptTokens: stream.Some(8192), CachedTokens: stream.Some(cached),
		}
	}
	c := FoldPrefill(8192, []stream.Record{sample(time.Second, 0), sample(2*time.Second, 0), sample(4*time.Second, 81), sample(time.Millisecond, 8192)})
	near(t, "prompt tok/s", c.TotalTokS, 4096)
	near(t, "ttft_ms", c.TTFTMS, 2000)
	if c.Status != Valid || c.Completed.V != 3 || len(c.Warnings) != 1 || c.Warnings[0].Code != "prefill_cached" {
		t.Errorf("status %q, %d samples, warnings %+v: want valid, 3 and the cached one flagged", c.Status, c.Completed.V, c.Warnings)
	}
	if c := FoldPrefill(8192, []stream.Record{sample(time.Millisecond, 8192)}); c.Status != Failed || c.TotalTokS.OK {
		t.Errorf("only cached samples: status %q total %+v, want failed without a rate", c.Status, c.TotalTokS)
	}
}

func TestFits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		in     FitInput
		ok     bool
		reason string
	}{
		{"distinct just fits", FitInput{Context: 8192, Concurrency: 4, MaxTokens: 4096, KVTokens: 4 * 12288}, true, ""},
		{"distinct one over", FitInput{Context: 8192, Concurrency: 4, MaxTokens: 4096, KVTokens: 4*12288 - 1}, false, "kv_capacity"},
		{"shared counts the context once", FitInput{Context: 8192, Concurrency: 4, MaxTokens: 4096, Tail: 100, Rule: KVShared, KVTokens: 8192 + 4*4196}, true, ""},
		{"rule off", FitInput{Context: 8192, Concurrency: 400, MaxTokens: 4096, Rule: KVOff, KVTokens: 1}, true, ""},
		{"model limit before all", FitInput{Context: 8192, Concurrency: 1, MaxTokens: 4096, ModelLimit: 12287, Rule: KVOff}, false, "model_limit"},
		{"slots", FitInput{Context: 10, Concurrency: 9, MaxTokens: 10, MaxRunning: 8}, false, "max_running"},
		{"as many as the slots", FitInput{Context: 10, Concurrency: 8, MaxTokens: 10, MaxRunning: 8}, true, ""},
		{"a slot filled to the last token", FitInput{Context: 3996, Concurrency: 1, MaxTokens: 100, SlotContext: 4096}, true, ""},
		{"slot context", FitInput{Context: 4000, Concurrency: 1, MaxTokens: 100, SlotContext: 4096}, false, "slot_context"},
		{"unknown capacity never skips", FitInput{Context: 1 << 20, Concurrency: 128, MaxTokens: 4096}, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := Fits(tc.in)
			if f.OK != tc.ok || f.Reason != tc.reason || f.Message == "" {
				t.Errorf("got %+v, want ok=%v reason=%q and a sentence", f, tc.ok, tc.reason)
			}
		})
	}
	if got := MaxContext(262144, 4096); got != 251*1024 {
		t.Errorf("max context of 262144 = %d, want 251K", got)
	}
}

func TestCI95(t *testing.T) {
	// Two batches 10 and 20: mean 15, sd 7.0711, t(1) = 12.706, half width 63.53.
	near(t, "ci95", CI95([]float64{10, 20}), 63.53)
	near(t, "constant rate", CI95([]float64{5, 5, 5, 5}), 0)
	if CI95([]float64{5}).OK {
		t.Error("one second has an interval")
	}
}

func TestWorstTokenSourceNamesTheCell(t *testing.T) {
	a, b := steady(0, 10*time.Millisecond), steady(1, 10*time.Millisecond)
	b.TokensFrom = stream.FromEstimate
	if c := FoldDecode(input(a, b)); c.TokensFrom != stream.FromEstimate {
		t.Errorf("tokens_from %q, want estimated", c.TokensFrom)
	}
}

func TestFailureSentenceNamesTheCause(t *testing.T) {
	r := steady(0, 10*time.Millisecond)
	r.End, r.Error = stream.Failed, "connection reset by 127.0.0.1:9"
	if c := FoldDecode(input(r)); !strings.Contains(c.Message, "connection reset by 127.0.0.1:9") {
		t.Errorf("message %q does not name the cause", c.Message)
	}
}

// TestFoldShortStreamsSayWhyTheyHaveNoRate: a valid cell that lacks two of its
// four numbers says so.
func TestFoldShortStreamsSayWhyTheyHaveNoRate(t *testing.T) {
	r := steady(0, 10*time.Millisecond)
	r.Window.LastNS = stream.Some(int64(900e6))
	c := FoldDecode(input(r))
	if c.RequestTokS.OK || len(c.Warnings) != 1 || c.Warnings[0].Code != "no_rate" {
		t.Errorf("rate %+v, warnings %+v; want none and no_rate", c.RequestTokS, c.Warnings)
	}
}

// TestFoldPrintsOneMedian: the median and the p50 of one cell are one number.
func TestFoldPrintsOneMedian(t *testing.T) {
	a, b := steady(0, 10*time.Millisecond), steady(1, 20*time.Millisecond)
	b.TTFTNS = stream.Some(int64(300e6))
	c := FoldDecode(input(a, b))
	if c.TTFT.P50 != c.TTFTMS || c.TBT.P50 != c.TBTMS || c.TTFTMS.V != 250 {
		t.Errorf("TTFT %v and %v, TBT %v and %v", c.TTFTMS, c.TTFT.P50, c.TBTMS, c.TBT.P50)
	}
}
