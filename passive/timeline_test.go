package passive

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// The timeline against counting by hand: whatever the order in which beginnings
// and ends are told, it says at each instant how many had begun and not ended.
func TestTimelineCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type told struct {
			at    stamp.Instant
			delta float32
		}
		var all []told
		for range rapid.IntRange(1, 40).Draw(t, "streams") {
			begin := stamp.Instant(rapid.IntRange(1, 200).Draw(t, "begin"))
			end := begin + stamp.Instant(rapid.IntRange(1, 100).Draw(t, "length"))
			all = append(all, told{begin, 1}, told{end, -1})
		}
		line := timeline{}
		for _, c := range rapid.Permutation(all).Draw(t, "order") {
			line.add(c.at, c.delta)
		}
		part := countsIn(&line, 1, 300)
		for at := stamp.Instant(1); at <= 300; at++ {
			want := 0.0
			for _, c := range all {
				if c.at <= at {
					want += float64(c.delta)
				}
			}
			if at < line.changes[0].at {
				continue
			}
			if got := part[at-1]; got != max(want, 1) {
				t.Fatalf("at %d: got %v, want %v", at, got, want)
			}
		}
	})
}

// countsIn is the number decoding at each instant of [from, to], told for a log with
// an event at each; it is the same for one with only some of them.
func countsIn(t *timeline, from, to stamp.Instant) (counts []float64) {
	var log, some []stream.Event
	for at := from; at <= to; at++ {
		log = append(log, stream.Event{At: at})
		if len(log)%7 == 1 {
			some = append(some, stream.Event{At: at})
		}
	}
	for _, n := range t.during(log) {
		counts = append(counts, float64(n))
	}
	for i, n := range t.during(some) {
		if want := counts[7*i]; float64(n) != want {
			panic("a count depends on the events before it")
		}
	}
	return counts
}

// A stream that is open for long while many come and go: memory stays within its
// bound, the newest changes stay exact, and the older ones keep their mean.
func TestTimelineIsBounded(t *testing.T) {
	const limit = 64
	line := timeline{max: limit, open: map[*Stream]struct{}{}}
	long := &Stream{line: &line, upstream: "u"}
	long.Decodes(1)
	// From 10 on, another stream decodes for 3 of every 4 ns: a mean of 1.75.
	at := stamp.Instant(10)
	for range 5000 {
		line.add(at, 1)
		line.add(at+3, -1)
		at += 4
		if len(line.changes) > limit {
			t.Fatalf("%d changes kept, want at most %d", len(line.changes), limit)
		}
	}
	if from := line.changes[0].at; from > 1 {
		t.Errorf("the timeline begins at %d, want it to reach back to 1, where an open stream began", from)
	}
	part := countsIn(&line, 1, at)
	sum := 0.0
	for i := stamp.Instant(10); i < at; i++ {
		sum += part[i-1]
	}
	if mean := sum / float64(at-10); math.Abs(mean-1.75) > 0.01 {
		t.Errorf("mean %v, want 1.75", mean)
	}
	newest := countsIn(&line, at-8, at)
	for i, want := range []float64{2, 2, 2, 1, 2, 2, 2, 1} {
		if got := newest[i]; got != want {
			t.Errorf("%d before the end: got %v, want %v", 8-i, got, want)
		}
	}

	long.Drop(at)
	for range limit {
		line.add(at, 1)
		line.add(at+1, -1)
		at += 2
	}
	if from := line.changes[0].at; from < 20000 {
		t.Errorf("with no stream open the timeline still reaches back to %d", from)
	}
}

// A stream that stalled is known to have ended long after its last token.
func TestLateEndIsCorrected(t *testing.T) {
	b := New()
	stalled, s := b.Stream("u"), b.Stream("u")
	stalled.Decodes(100)
	s.Decodes(150)
	s2 := b.Stream("u")
	s2.Decodes(400)
	stalled.leave(900, []stamp.Instant{200}, nil)
	part := countsIn(s.line, 100, 500)
	for _, row := range []struct {
		at   stamp.Instant
		want float64
	}{{100, 1}, {150, 2}, {200, 2}, {201, 1}, {400, 2}, {500, 2}} {
		if got := part[row.at-100]; got != row.want {
			t.Errorf("at %d: got %v, want %v", row.at, got, row.want)
		}
	}
}
