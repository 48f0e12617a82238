package passive

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

const ms = stamp.Instant(time.Millisecond)

// steady is a log of n events, each of so many tokens, step apart, of choice 0.
func steady(first stamp.Instant, n int, step stamp.Instant, tokens int32) []stream.Event {
	log := make([]stream.Event, n)
	for i := range log {
		log[i] = stream.Event{At: first + stamp.Instant(i)*step, Tokens: tokens}
	}
	return log
}

// reply is a completed one that was sent at instant 1, whose tokens are known
// event by event.
func reply(log []stream.Event, prompt int) Reply {
	sum := 0
	for i := range log {
		sum += int(log[i].Tokens)
	}
	rec := &stream.Record{
		End: stream.Completed, TokensFrom: stream.FromTokenIDs, Tokens: sum, GeneratedEvents: len(log),
		PromptTokens: stream.Some(prompt), TTFTNS: stream.Some(int64(log[0].At - 1)), EndNS: stream.Some(int64(log[len(log)-1].At - 1)),
	}
	return Reply{Record: rec, Log: log, Sent: 1, Model: "m", RequestBytes: int64(prompt) * 5}
}

// run books replies that all begin before any of them ends, and end in the order
// of their last events.
func run(b *Book, replies ...Reply) {
	replies = slices.Clone(replies)
	slices.SortStableFunc(replies, func(a, b Reply) int {
		return cmp.Compare(a.Log[len(a.Log)-1].At, b.Log[len(b.Log)-1].At)
	})
	var open []*Stream
	for _, r := range replies {
		s := b.Stream("u")
		seen := map[uint16]bool{}
		for _, e := range r.Log {
			if !seen[e.Choice] {
				seen[e.Choice] = true
				s.Decodes(e.At)
			}
		}
		open = append(open, s)
	}
	for i, s := range open {
		s.End(replies[i])
	}
}

// brief is what most tests look at.
type brief struct {
	Cell             string
	Rate, Total      float64
	Tokens           int64
	TTFT             int64
	Estimated        bool
	LeftEstimated    int64
	ContextEstimated int64
}

func briefs(b *Book) (out []brief) {
	for _, c := range b.Matrix().Cells {
		out = append(out, brief{
			c.ContextLabel + " " + c.ConcurrencyLabel, math.Round(c.RequestTokS.V*100) / 100, math.Round(c.TotalTokS.V*100) / 100,
			c.OutputTokens, c.TTFT.N, c.Estimated, c.EstimatedTokens, c.ContextEstimatedTokens,
		})
	}
	return out
}

func TestBooking(t *testing.T) {
	looped := func(onset stream.Null[int64], verdict string) Reply {
		r := reply(steady(100*ms, 201, 10*ms, 2), 3000)
		r.Record.Loops = []stream.Loop{{Verdict: verdict, OnsetNS: onset}}
		return r
	}
	with := func(r Reply, f func(*stream.Record)) Reply { f(r.Record); return r }
	for _, row := range []struct {
		name, reason string
		replies      []Reply
		want         []brief
		left         LeftOut
	}{
		{
			name: "alone", reason: "the first event's tokens took the TTFT, 100 gaps of 10 ms have 2 tokens each",
			replies: []Reply{reply(steady(100*ms, 101, 10*ms, 2), 3000)},
			want:    []brief{{Cell: "2-4K 1", Rate: 200, Total: 200, Tokens: 200, TTFT: 1}},
		},
		{
			name: "two at once, then one", reason: "each event goes to the number decoding at its instant",
			replies: []Reply{reply(steady(100*ms, 201, 10*ms, 1), 3000), reply(steady(105*ms, 100, 20*ms, 1), 3000)},
			want: []brief{
				// The first event of the first has no gap; its last two are
				// alone again.
				{Cell: "2-4K 1", Rate: 100, Total: 100, Tokens: 2, TTFT: 1},
				{Cell: "2-4K 2", Rate: 75, Total: 150, Tokens: 297, TTFT: 1},
			},
		},
		{
			name: "other context", reason: "the number decoding is the upstream's, whatever the contexts",
			replies: []Reply{reply(steady(100*ms, 101, 10*ms, 1), 500), reply(steady(100*ms, 101, 10*ms, 1), 9000)},
			want: []brief{
				{Cell: "0-1K 2", Rate: 100, Total: 200, Tokens: 100, TTFT: 1},
				{Cell: "8-16K 2", Rate: 100, Total: 200, Tokens: 100, TTFT: 1},
			},
		},
		{
			name: "events in one read", reason: "no gap, and their tokens count",
			replies: []Reply{reply([]stream.Event{{At: 100 * ms, Tokens: 1}, {At: 120 * ms, Tokens: 1, Flags: stream.Coalesced}, {At: 120 * ms, Tokens: 3}}, 100)},
			want:    []brief{{Cell: "0-1K 1", Rate: 200, Total: 200, Tokens: 4, TTFT: 1}},
		},
		{
			name: "two choices", reason: "each is a sequence of the engine's, with its own gaps",
			replies: []Reply{reply([]stream.Event{
				{At: 100 * ms, Tokens: 1}, {At: 100 * ms, Tokens: 1, Choice: 1},
				{At: 110 * ms, Tokens: 1}, {At: 110 * ms, Tokens: 1, Choice: 1},
				{At: 120 * ms, Tokens: 1}, // choice 1 has ended
			}, 100)},
			want: []brief{{Cell: "0-1K 1", Rate: 100, Total: 100, Tokens: 1}, {Cell: "0-1K 2", Rate: 100, Total: 200, Tokens: 2, TTFT: 1}},
		},
		{
			name: "another channel of an event", reason: "no event of its own",
			replies: []Reply{reply([]stream.Event{{At: 100 * ms, Tokens: 1}, {At: 120 * ms, Tokens: 2}, {At: 120 * ms, Flags: stream.SameEvent, Channel: 1}}, 100)},
			want:    []brief{{Cell: "0-1K 1", Rate: 100, Total: 100, Tokens: 2, TTFT: 1}},
		},
		{
			name: "loop", reason: "1.1 s after sending is the last event before the onset: 100 gaps are clean",
			replies: []Reply{looped(stream.Some(int64(1100*ms-1)), "confirmed")},
			want:    []brief{{Cell: "2-4K 1", Rate: 200, Total: 200, Tokens: 200, TTFT: 1}},
			left:    LeftOut{LoopTokens: 200},
		},
		{
			name: "loop from the start", reason: "no event stands before the onset",
			replies: []Reply{looped(stream.Null[int64]{}, "engine")},
			want:    []brief{{Cell: "2-4K 1", TTFT: 1}},
			left:    LeftOut{LoopTokens: 402},
		},
		{
			name: "suspicion", reason: "only verdicts that retire a stream count",
			replies: []Reply{looped(stream.Some(int64(1100*ms-1)), "near")},
			want:    []brief{{Cell: "2-4K 1", Rate: 200, Total: 200, Tokens: 400, TTFT: 1}},
		},
		{
			name: "no counts", reason: "one token an event is a guess",
			replies: []Reply{with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.TokensFrom = stream.FromEstimate })},
			want:    []brief{{Cell: "2-4K 1", Rate: 100, Total: 100, Tokens: 100, TTFT: 1, Estimated: true, LeftEstimated: 100}},
		},
		{
			name: "total of a token an event", reason: "a total that is the number of events tells each one's",
			replies: []Reply{with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.TokensFrom, r.Tokens = stream.FromUsageFinal, 102 })},
			want:    []brief{{Cell: "2-4K 1", Rate: 100, Total: 100, Tokens: 100, TTFT: 1}},
		},
		{
			name: "total of several tokens an event", reason: "even spreading may put them into the wrong cell",
			replies: []Reply{with(reply(steady(100*ms, 101, 10*ms, 2), 3000), func(r *stream.Record) { r.TokensFrom = stream.FromUsageFinal })},
			want:    []brief{{Cell: "2-4K 1", Rate: 200, Total: 200, Tokens: 200, TTFT: 1, Estimated: true, LeftEstimated: 200}},
		},
		{
			name: "counts that do not add up", reason: "a server that says 1 with each event of several",
			replies: []Reply{with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.Tokens = 110 })},
			want:    []brief{{Cell: "2-4K 1", Rate: 100, Total: 100, Tokens: 100, TTFT: 1, Estimated: true, LeftEstimated: 100}},
		},
		{
			name: "two loops", reason: "the earlier one counts, whichever is told first",
			replies: []Reply{with(looped(stream.Some(int64(1100*ms-1)), "confirmed"), func(r *stream.Record) {
				r.Loops = append(r.Loops, stream.Loop{Verdict: "whitespace", OnsetNS: stream.Some(int64(600*ms - 1))}, stream.Loop{Verdict: "engine", OnsetNS: stream.Some(int64(900*ms - 1))})
			})},
			want: []brief{{Cell: "2-4K 1", Rate: 200, Total: 200, Tokens: 100, TTFT: 1}},
			left: LeftOut{LoopTokens: 300},
		},
		{
			name: "total of a token an event, nearly", reason: "within 1 %",
			replies: []Reply{with(reply(steady(100*ms, 301, 10*ms, 1), 3000), func(r *stream.Record) { r.TokensFrom, r.Tokens = stream.FromUsageFinal, 304 })},
			want:    []brief{{Cell: "2-4K 1", Rate: 100, Total: 100, Tokens: 300, TTFT: 1}},
		},
		{
			name: "total of a stream that was left", reason: "it may have been told before the last event",
			replies: []Reply{with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.TokensFrom, r.End = stream.FromUsageFinal, stream.ClientGone })},
			want:    []brief{{Cell: "2-4K 1", Rate: 100, Total: 100, Tokens: 100, TTFT: 1, Estimated: true, LeftEstimated: 100}},
		},
		{
			name: "log full", reason: "the log's tokens are known, though the total is of more",
			replies: []Reply{with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.Tokens, r.Flags = 500, []string{"log_full"} })},
			want:    []brief{{Cell: "2-4K 1", Rate: 100, Total: 100, Tokens: 100, TTFT: 1}},
		},
		{
			name: "client gone", reason: "its tokens came all the same",
			replies: []Reply{with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.End = stream.ClientGone })},
			want:    []brief{{Cell: "2-4K 1", Rate: 100, Total: 100, Tokens: 100, TTFT: 1}},
		},
		{
			name: "left out", reason: "each for its reason",
			replies: []Reply{
				with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.End = stream.Failed }),
				with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.End = stream.Truncated }),
				with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.Flags = []string{"hidden_reasoning"} }),
				with(reply(steady(100*ms, 101, 10*ms, 1), 3000), func(r *stream.Record) { r.PromptTokens = stream.Null[int]{} }),
				func() Reply { r := reply(steady(100*ms, 1, 10*ms, 50), 3000); r.Whole = true; return r }(),
			},
			left: LeftOut{Failed: 2, Hidden: 1, NoContext: 1, NotStreamed: 1},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := New()
			run(b, row.replies...)
			if diff := gocmp.Diff(briefs(b), row.want); diff != "" {
				t.Errorf("%s (-got +want):\n%s", row.reason, diff)
			}
			if diff := gocmp.Diff(b.Matrix().LeftOut, row.left); diff != "" {
				t.Errorf("left out, %s (-got +want):\n%s", row.reason, diff)
			}
		})
	}
}

// Events that share an instant have no gap.
func TestGapsOfACell(t *testing.T) {
	b := New()
	run(b, reply([]stream.Event{{At: 100 * ms, Tokens: 1}, {At: 120 * ms, Tokens: 1}, {At: 120 * ms, Tokens: 3}, {At: 150 * ms, Tokens: 1}}, 100))
	if g := b.Matrix().Cells[0].Gaps; g.N != 2 || g.Max.V != 30 || g.P50.V < 19.9 || g.P50.V > 20.1 {
		t.Errorf("gaps %+v, want 20 and 30 ms", g)
	}
}

// Where enough tokens are known, a guess stays out of the rate, and goes on
// counting as a stream that decodes.
func TestGuessBesideKnown(t *testing.T) {
	guess := reply(steady(100*ms, 1001, 10*ms, 1), 3000)
	guess.Record.TokensFrom = stream.FromEstimate
	for _, row := range []struct {
		events    int
		estimated bool
		rate      float64 // of the cell of three at once
		reason    string
	}{
		{1001, false, 200, "4,000 tokens are known"},
		{201, true, 500. / 3, "800 known tokens are too few: 1,000 of all in 6 s"},
	} {
		b := New()
		known := reply(steady(100*ms, row.events, 10*ms, 2), 3000)
		run(b, known, guess, known)
		for _, c := range b.Matrix().Cells {
			if c.ConcurrencyLabel != "3-4" {
				continue
			}
			if c.Estimated != row.estimated || math.Abs(c.RequestTokS.V-row.rate) > 1e-6 || c.AvgDecoding.V != 3 || math.Abs(c.TotalTokS.V-3*row.rate) > 1e-6 {
				t.Errorf("%s: estimated %v, rate %v, decoding %v, total %v; want %+v", row.reason, c.Estimated, c.RequestTokS.V, c.AvgDecoding.V, c.TotalTokS.V, row)
			}
		}
	}
}

// A request of images does not move the ratio, and a stream without usage is
// placed by it.
func TestRatioIsLearned(t *testing.T) {
	b := New()
	silent := func() Reply {
		r := reply(steady(100*ms, 11, 10*ms, 1), 3000)
		r.Record.PromptTokens = stream.Null[int]{}
		return r
	}
	for i := range minRatios {
		run(b, silent())
		if got, want := b.Matrix().LeftOut.NoContext, int64(i+1); got != want {
			t.Fatalf("after %d streams that told: %d without a context, want %d", i, got, want)
		}
		r := reply(steady(100*ms, 11, 10*ms, 1), 100)
		if i == 3 {
			r.RequestBytes = 5 << 20
		}
		run(b, r)
	}
	run(b, silent())
	var at *Cell
	for _, c := range b.Matrix().Cells {
		if c.ContextLabel == "2-4K" {
			at = &c
		}
	}
	if at == nil || at.ContextEstimatedTokens != 10 {
		t.Fatalf("a silent stream of 3,000 tokens, 5 bytes each, is not in 2-4K: %+v", b.Matrix().Cells)
	}
	if r := b.Matrix().Ratios[0]; r.TokensPerByte.V != 0.2 || r.Streams != minRatios {
		t.Errorf("ratio %+v, want 0.2 of %d", r, minRatios)
	}
}

func TestModelsAreBounded(t *testing.T) {
	b := New()
	for i := range 3 * maxModels {
		r := reply(steady(stamp.Instant(i+1)*1000*ms, 11, 10*ms, 1), 100)
		r.Model = fmt.Sprint("m", i)
		run(b, r)
	}
	cells, tokens := b.Matrix().Cells, int64(0)
	for _, c := range cells {
		tokens += c.OutputTokens
	}
	if len(cells) != maxModels+1 || tokens != 3*maxModels*10 {
		t.Errorf("%d cells with %d tokens, want %d with all %d", len(cells), tokens, maxModels+1, 3*maxModels*10)
	}
}

func TestDropped(t *testing.T) {
	b := New()
	s := b.Stream("u")
	s.Drop(50) // before it began
	s.Decodes(100)
	s.Drop(200)
	run(b, reply(steady(100*ms, 11, 10*ms, 1), 100))
	if got := briefs(b); len(got) != 1 || got[0].Cell != "0-1K 1" {
		t.Errorf("%+v, want one cell of one stream: the dropped one has left", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	b := New()
	var wait sync.WaitGroup
	const streams, workers = 50, 8
	for w := range workers {
		wait.Go(func() {
			for i := range streams {
				r := reply(steady(stamp.Instant(i*1000+w+1)*ms, 101, 10*ms, 1), 100+i*100)
				s := b.Stream("u")
				s.Decodes(r.Log[0].At)
				s.End(r)
				b.Matrix()
			}
		})
	}
	wait.Wait()
	tokens := int64(0)
	for _, c := range b.Matrix().Cells {
		tokens += c.OutputTokens
	}
	if want := int64(workers * streams * 100); tokens != want {
		t.Errorf("%d tokens booked, want %d", tokens, want)
	}
}

func BenchmarkEnd(b *testing.B) {
	book := New()
	log := steady(100*ms, 1000, 10*ms, 1)
	r := reply(log, 3000)
	b.ReportAllocs()
	for b.Loop() {
		for i := range log {
			log[i].At += 20e9
		}
		r.Sent += 20e9
		s := book.Stream("u")
		s.Decodes(log[0].At)
		s.End(r)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
}
