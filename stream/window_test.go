package stream

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stamp"
)

// every10 is a log of n events, 10 ms apart from 100 ms on, 2 tokens each.
func every10(n int) (log []Event) {
	for i := range n {
		log = append(log, Event{At: ms(100 + 10*float64(i)), Tokens: 2})
	}
	return log
}

func TestWindowOf(t *testing.T) {
	at := func(t float64) Null[int64] { return Some(int64(t * 1e6)) }
	for _, v := range []struct {
		name string
		log  []Event
		e    Edges
		want Window
	}{
		{"the window is half open: the event at its opening is in, that at its close is not",
			every10(10), Edges{Open: ms(120), Close: ms(150)},
			Window{Tokens: 6, FirstTokens: 2, FirstNS: at(0), LastNS: at(20), Events: 3}},
		{"no event inside: undefined, not zero", every10(10), Edges{Open: ms(500), Close: ms(600)}, Window{}},
		{"the instants are relative to the opening, not to the stream",
			every10(10), Edges{Open: ms(50), Close: ms(150)},
			Window{Tokens: 10, FirstTokens: 2, FirstNS: at(50), LastNS: at(90), Events: 5}},
		{"the tokens of a loop are output too",
			every10(10), Edges{Open: ms(120), Close: ms(500), Onset: Some(6)},
			Window{Tokens: 16, FirstTokens: 2, FirstNS: at(0), LastNS: at(70), Events: 8}},
		{"further channels of an event are no events",
			[]Event{{At: ms(100), Tokens: 3}, {At: ms(100), Flags: SameEvent}, {At: ms(110), Tokens: 1}}, Edges{Open: ms(0), Close: ms(500)},
			Window{Tokens: 4, FirstTokens: 3, FirstNS: at(100), LastNS: at(110), Events: 2}},
	} {
		t.Run(v.name, func(t *testing.T) {
			if d := cmp.Diff(WindowOf(v.log, v.e), v.want); d != "" {
				t.Errorf("got - want +:\n%s", d)
			}
		})
	}
}

// Windows that touch share no token and lose none.
func TestWindowsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log []Event
		at, total := origin, 0.0
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			at += stamp.Instant(rapid.IntRange(0, 5).Draw(t, "gap"))
			n := rapid.Int32Range(0, 9).Draw(t, "tokens")
			log = append(log, Event{At: at, Tokens: n})
			total += float64(n)
		}
		end := at + 1
		cut := origin + stamp.Instant(rapid.IntRange(0, int(end-origin)).Draw(t, "cut"))
		a, b := WindowOf(log, Edges{Open: origin, Close: cut}), WindowOf(log, Edges{Open: cut, Close: end})
		if a.Tokens+b.Tokens != total || a.Events+b.Events != len(log) {
			t.Fatalf("%v + %v tokens, %d + %d events; want %v and %d", a.Tokens, b.Tokens, a.Events, b.Events, total, len(log))
		}
	})
}

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := make([]Event, rapid.IntRange(0, 50).Draw(t, "entries"))
		n := 0
		for i := range log {
			if i > 0 && rapid.Bool().Draw(t, "same") {
				log[i].Flags = SameEvent
				continue
			}
			n++
		}
		total := rapid.IntRange(0, 1000).Draw(t, "total")
		Spread(log, total)
		sum := 0
		for _, e := range log {
			sum += int(e.Tokens)
			if e.Flags == SameEvent && e.Tokens != 0 {
				t.Fatal("a further channel of an event has tokens")
			}
			if e.Flags == 0 && (int(e.Tokens) < total/n || int(e.Tokens) > total/n+1) {
				t.Fatalf("%d tokens in one of %d events, total %d", e.Tokens, n, total)
			}
		}
		if n > 0 && sum != total {
			t.Fatalf("spread %d of %d", sum, total)
		}
	})
}

// A total that is no count may not come out negative.
func TestSpreadOfTooMuch(t *testing.T) {
	log := make([]Event, 1)
	if Spread(log, 1<<40); log[0].Tokens != math.MaxInt32 {
		t.Errorf("%d tokens, want the most that an event holds", log[0].Tokens)
	}
}

func TestGapsIn(t *testing.T) {
	two := []Event{
		{At: ms(100)}, {At: ms(105), Choice: 1}, {At: ms(120)}, {At: ms(120)}, {At: ms(120), Flags: SameEvent}, {At: ms(135), Choice: 1}, {At: ms(150), Choice: 9}, {At: ms(190), Choice: 9},
	}
	for _, v := range []struct {
		name string
		log  []Event
		e    Edges
		want []int64 // ms, summed by count and sum
	}{
		{"both ends inside", every10(10), Edges{Open: ms(120), Close: ms(150)}, []int64{10, 10}},
		{"up to the onset", every10(10), Edges{Open: ms(120), Close: ms(500), Onset: Some(4)}, []int64{10}},
		{"by choice, none within an instant", two, Edges{Open: ms(0), Close: ms(500)}, []int64{20, 30, 40}},
	} {
		t.Run(v.name, func(t *testing.T) {
			var h hist.H
			GapsIn(v.log, v.e, &h)
			sum := int64(0)
			for _, g := range v.want {
				sum += g * 1e6
			}
			if h.Count() != int64(len(v.want)) || int64(h.Sum()) != sum {
				t.Errorf("%d gaps of %v ns, want %d of %d", h.Count(), h.Sum(), len(v.want), sum)
			}
		})
	}
}

// The log of a record is that of its meter, for one choice.
func TestLogOf(t *testing.T) {
	m := NewMeter(Options{Dialect: 1})
	play(m, []write{{100, plus(c("a")+c("b"), 3)}, {120, plus(c("c"), 5)}})
	r := m.Finish(Cause{Kind: Cancel}, ms(130))
	want := m.Log()
	r.EventLog = EventLog(want, origin)
	line, err := ParseRecord(r.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	got := LogOf(line, origin)
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("got - want +:\n%s", d)
	}
	if i := OnsetIn(got, ms(100)); i != 2 {
		t.Errorf("OnsetIn behind 100 ms = %d, want 2", i)
	}
	if i := OnsetIn(got, ms(120)); i != 3 {
		t.Errorf("OnsetIn behind the last event = %d, want 3", i)
	}
}
