package loadgen

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// at makes a life whose events come at the given seconds, a token each; it was
// sent and ended as told.
func lifeAt(sent, end float64, kind stream.End, onset int, events ...float64) *life {
	l := &life{
		rec:  &stream.Record{End: kind, TokensFrom: stream.FromTokenIDs, GeneratedEvents: len(events)},
		sent: second(sent), end: second(end), onset: onset, retired: kind == stream.Looped,
	}
	for _, e := range events {
		l.log = append(l.log, stream.Event{At: second(e), Tokens: 1})
	}
	return l
}

func second(s float64) stamp.Instant { return stamp.Instant(math.Round(s * 1e9)) }

// every lists instants from first to last, step apart.
func every(first, last, step float64) []float64 {
	var out []float64
	for i := 0; first+float64(i)*step <= last+1e-9; i++ {
		out = append(out, first+float64(i)*step)
	}
	return out
}

func TestWindowParts(t *testing.T) {
	w := window{open: second(10), end: second(20)}
	type part struct{ Tokens, CleanTokens, CleanS float64 }
	for _, c := range []struct {
		name  string // the reason
		lives []*life
		want  []part
	}{
		{
			"a stream that runs through counts the half-open window",
			[]*life{lifeAt(0, 20.5, stream.Cancelled, clean, every(1, 20, 1)...)},
			[]part{{10, 10, 10}},
		}, {
			"a natural restart counts with its wait",
			[]*life{
				lifeAt(0, 14, stream.Completed, clean, every(1, 14, 1)...),
				lifeAt(14, 20.5, stream.Cancelled, clean, every(16, 20, 1)...),
			},
			[]part{{5, 5, 4}, {4, 4, 6}},
		}, {
			"a looping stream counts between its first event and its last before the onset",
			// events 10..17 are in the window, the loop begins with that of 14
			[]*life{
				lifeAt(0, 17, stream.Looped, 13, every(1, 17, 1)...),
				lifeAt(17, 20.5, stream.Cancelled, clean, every(18, 20, 1)...),
			},
			// the next stream counts from its first token, without it, to the close,
			// which lies half an event behind its last
			[]part{{8, 3, 3}, {2, 1.5, 2}},
		}, {
			"a loop that began before the window leaves nothing",
			[]*life{
				lifeAt(0, 12, stream.Looped, 5, every(1, 12, 1)...),
				lifeAt(12, 20.5, stream.Cancelled, clean, every(13, 20, 1)...),
			},
			[]part{{3, 0, 0}, {7, 6.5, 7}},
		}, {
			"an unknown onset leaves nothing",
			[]*life{lifeAt(0, 18, stream.Looped, 0, every(1, 18, 1)...)},
			[]part{{9, 0, 0}},
		}, {
			"a loop after a natural restart: the wait goes to the stream that ended by itself",
			[]*life{
				lifeAt(0, 12, stream.Completed, clean, every(1, 12, 1)...),
				lifeAt(12, 18, stream.Looped, 3, every(13, 18, 1)...),
			},
			// 10..12 and the wait to 13 with its token, less half an event since the
			// window did not open at one; then 13..15 without its first
			[]part{{3, 3.5, 3}, {6, 2, 2}},
		}, {
			"a failed stream counts nowhere",
			[]*life{
				lifeAt(0, 12, stream.Failed, clean, every(1, 12, 1)...),
				lifeAt(12, 20.5, stream.Cancelled, clean, every(13, 20, 1)...),
			},
			[]part{{3, 0, 0}, {7, 7, 8}},
		}, {
			"a candidate at the close is cut at its onset",
			[]*life{lifeAt(0, 20.5, stream.Cancelled, 15, every(1, 20, 1)...)},
			[]part{{10, 5, 5}},
		}, {
			"an onset behind the window cuts nothing",
			[]*life{lifeAt(0, 25, stream.Looped, 22, every(1, 25, 1)...)},
			[]part{{10, 10, 10}},
		}, {
			"a stream without a token is a wait",
			[]*life{lifeAt(0, 20.5, stream.Cancelled, clean)},
			[]part{{0, 0, 10}},
		}, {
			"a wait after a loop is nothing",
			[]*life{
				lifeAt(0, 12, stream.Looped, 11, every(1, 12, 1)...),
				lifeAt(12, 20.5, stream.Cancelled, clean),
			},
			[]part{{3, 1, 1}, {0, 0, 0}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.slot(c.lives)
			var got []part
			for _, l := range c.lives {
				p := l.rec.Window
				got = append(got, part{p.Tokens, p.CleanTokens, float64(p.CleanNS) / 1e9})
			}
			if d := cmp.Diff(got, c.want); d != "" {
				t.Errorf("parts (got -, want +):\n%s", d)
			}
		})
	}
}

// TestSalvageUnbiased makes streams of a known clean rate whose loops run three
// times as fast, with restarts that wait, and asks for that rate back. Replies
// end and loops begin with the same chance at every token: with lengths that
// remember, cutting streams early would change the mix of waits and decoding
// itself, and no rule that looks at clean time alone could undo that.
func TestSalvageUnbiased(t *testing.T) {
	const (
		slots  = 8
		tbt    = 20e-3
		wait   = .35
		cells  = 300
		length = 300 // tokens, mean
		untilL = 600 // tokens to a loop's onset, mean
	)
	rng := rand.New(rand.NewPCG(5, 7))
	geometric := func(mean float64) int { return 1 + int(rng.ExpFloat64()*mean) }
	var mean, total, seconds, truthTokens, truthSeconds float64
	for range cells {
		var records []stream.Record
		w := window{open: second(40), end: second(70)}
		for range slots {
			var lives []*life
			for now := rng.Float64() * 10; now < 70; {
				first := now + wait
				n, onset := geometric(length), geometric(untilL)
				truthTokens += float64(n) // what it would have been without a loop
				truthSeconds += wait + float64(n-1)*tbt
				if n <= onset {
					end := first + float64(n-1)*tbt
					lives = append(lives, lifeAt(now, end, stream.Completed, clean, every(first, end, tbt)...))
					now = end
					continue
				}
				events := every(first, first+float64(onset-1)*tbt, tbt)
				last := events[len(events)-1]
				events = append(events, every(last+tbt/3, last+8, tbt/3)...)
				end := events[len(events)-1]
				l := lifeAt(now, end, stream.Looped, onset, events...)
				l.rec.Loops = []stream.Loop{{Verdict: "confirmed"}}
				lives = append(lives, l)
				now = end
			}
			w.slot(lives)
			for _, l := range lives {
				records = append(records, *l.rec)
			}
		}
		c := matrix.FoldDecode(matrix.DecodeInput{Concurrency: slots, Records: records, Gaps: &hist.H{}, OpenNS: int64(w.open), Duration: w.end.Sub(w.open), MaxFailed: 1})
		if c.Loops == 0 || c.CleanShare.V > .95 {
			t.Fatalf("clean share %.2f, %d loops: the schedule does not test salvage", c.CleanShare.V, c.Loops)
		}
		mean += c.TotalTokS.V / cells
		total += c.OutputTokens.V
		seconds += c.MeasuredS.V
		if got, want := c.RequestTokS.V, 1/tbt; math.Abs(got/want-1) > 1e-3 {
			t.Errorf("request rate %.3f tok/s, want %.3f", got, want)
		}
	}
	truth := slots * truthTokens / truthSeconds
	if off := mean/truth - 1; math.Abs(off) > .005 {
		t.Errorf("salvaged total %.2f tok/s, want %.2f ± 0.5 %% (off by %+.2f %%)", mean, truth, 100*off)
	}
	if raw := total / seconds; raw < truth*1.05 {
		t.Errorf("output / measured is %.2f, clean rate %.2f: the loops do not run faster, so a bias would not show", raw, truth)
	}
}

// TestSalvageFewEvents is the same for endless replies of one event every 0.2 s:
// half an event at the end of each stretch would be 3 % here.
func TestSalvageFewEvents(t *testing.T) {
	const slots, gap, cells = 8, .2, 400
	rng := rand.New(rand.NewPCG(3, 9))
	var mean float64
	for range cells {
		var records []stream.Record
		w := window{open: second(40), end: second(50)}
		for range slots {
			var lives []*life
			for now := rng.Float64() * 10; now < 50; {
				onset := 1 + int(rng.ExpFloat64()*30)
				events := every(now+.1, now+.1+float64(onset-1)*gap, gap)
				last := events[len(events)-1]
				events = append(events, every(last+gap/3, last+2, gap/3)...)
				l := lifeAt(now, events[len(events)-1], stream.Looped, onset, events...)
				l.rec.Loops = []stream.Loop{{Verdict: "confirmed"}}
				lives = append(lives, l)
				now = events[len(events)-1]
			}
			w.slot(lives)
			for _, l := range lives {
				records = append(records, *l.rec)
			}
		}
		c := matrix.FoldDecode(matrix.DecodeInput{Concurrency: slots, Records: records, Gaps: &hist.H{}, OpenNS: int64(w.open), Duration: w.end.Sub(w.open), MaxFailed: 1})
		mean += c.TotalTokS.V / cells
	}
	if off := mean/(slots/gap) - 1; math.Abs(off) > .005 {
		t.Errorf("salvaged total %.2f tok/s, want %.2f ± 0.5 %% (off by %+.2f %%)", mean, slots/gap, 100*off)
	}
}

func TestPerSecondAndGaps(t *testing.T) {
	w := window{open: second(10), end: second(13)}
	l := lifeAt(0, 13.5, stream.Cancelled, clean, every(9.75, 13.5, .5)...)
	if d := cmp.Diff(w.perSecond([]*life{l}), []float64{2, 2, 2}); d != "" {
		t.Errorf("tokens per second (got -, want +):\n%s", d)
	}
	var h hist.H
	w.gaps(&h, l)
	// 10.25 … 12.75: five gaps of 0.5 s; those across the edges are not the window's
	if h.Count() != 5 || h.Max() != int64(time.Second/2) {
		t.Errorf("%d gaps up to %v, want 5 up to 500ms", h.Count(), time.Duration(h.Max()))
	}
}

func TestMostDecoding(t *testing.T) {
	lives := []*life{
		lifeAt(0, 4, stream.Completed, clean, 1, 4),
		lifeAt(0, 5, stream.Completed, clean, 2, 5),
		lifeAt(4, 9, stream.Completed, clean, 4, 9), // starts as the first ends
		lifeAt(0, 9, stream.Cancelled, clean),       // never decodes
	}
	for _, c := range []struct {
		until float64
		want  int
	}{{20, 2}, {1.5, 1}, {1, 0}} {
		if got := mostDecoding(lives, second(c.until)); got != c.want {
			t.Errorf("until %v: %d, want %d", c.until, got, c.want)
		}
	}
}

func TestCountsOfStreamsCutShort(t *testing.T) {
	whole := lifeAt(0, 5, stream.Completed, clean, 1, 2, 3, 4)
	whole.rec.TokensFrom, whole.rec.Tokens = stream.FromUsageFinal, 10
	part := lifeAt(0, 5, stream.Cancelled, clean, 1, 2)
	part.rec.TokensFrom, part.rec.Tokens = stream.FromEstimate, 2

	c := settleCounts([]*life{whole, part})
	if want := (counts{scaled: 1, perEvent: 2.5}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	if part.rec.Tokens != 5 || part.rec.TokensFrom != stream.FromUsageFinal || part.tokens(0, 2) != 5 {
		t.Errorf("cut stream: %d tokens from %s, log %v; want 5 from usage_final", part.rec.Tokens, part.rec.TokensFrom, part.tokens(0, 2))
	}

	alone := lifeAt(0, 5, stream.Cancelled, clean, 1, 2)
	alone.rec.TokensFrom, alone.rec.Tokens = stream.FromEstimate, 2
	if c := settleCounts([]*life{alone}); c != (counts{estimated: 1}) || alone.rec.Tokens != 2 {
		t.Errorf("without a completed stream: %+v, %d tokens; want 1 per event", c, alone.rec.Tokens)
	}
}
