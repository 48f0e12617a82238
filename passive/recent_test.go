package passive

import (
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

const s = stamp.Instant(time.Second)

func TestRecentTokens(t *testing.T) {
	var r Recent
	var b Batch
	now := 1000 * s
	// 7 tokens a second for 20 s, of which the last 4 s are not told yet: an
	// event a second.
	for at := now - 20*s; at < now; at += s {
		b.Event(at)
		if at < now-6*s {
			b.Tokens(at, 7)
		}
		r.Add(&b)
	}
	m := r.Last(now)
	if want := (6*7 + 4.0) / 10; m.TokS != want || m.GuessedTokS != 0.4 {
		t.Errorf("%v tok/s, %v guessed; want %v, 0.4", m.TokS, m.GuessedTokS, want)
	}
	// Told late: filed under the seconds at which they came.
	for at := now - 6*s; at < now; at += s {
		b.Tokens(at, 7)
	}
	r.Add(&b)
	m = r.Last(now)
	if m.TokS != 7 || m.GuessedTokS != 0 {
		t.Errorf("%v tok/s, %v guessed after all was told; want 7, 0", m.TokS, m.GuessedTokS)
	}
	last := m.Seconds[len(m.Seconds)-19:]
	for i, n := range last {
		want := int64(7)
		if i == 0 {
			want = 0 // before the first
		}
		if n != want {
			t.Errorf("second %d of %v: got %d, want %d", i, last, n, want)
		}
	}
}

func TestRecentForgets(t *testing.T) {
	var r Recent
	var b Batch
	b.First(1000*s, 5e6)
	b.Event(1000 * s)
	b.Tokens(1000*s, 3)
	b.Gap(1000*s, 2e6, 3)
	r.Add(&b)
	if m := r.Last(1010 * s); m.TTFT.N != 1 || m.TTFT.P50.V != 5 || m.TBT.N != 3 || m.TBT.P50.V != 2 || m.TBT.P99.OK {
		t.Errorf("after 10 s: TTFT %+v, TBT %+v; want 1 of 5 ms, 3 of 2 ms, and no 99th of three", m.TTFT, m.TBT)
	}
	sum := func(m LastMinutes) (n int64) {
		for _, v := range m.Seconds {
			n += v
		}
		return n
	}
	if m := r.Last(1290 * s); sum(m) != 3 || m.TTFT.N != 1 {
		t.Errorf("after 290 s: %d tokens, want 3", sum(m))
	}
	if m := r.Last(1310 * s); sum(m) != 0 || m.TTFT.N != 0 || m.TBT.N != 0 || m.TBT.P50.OK {
		t.Errorf("after 310 s: %d tokens, TTFT %+v, TBT %+v; want none", sum(m), m.TTFT, m.TBT)
	}
	// Five minutes on, in the places of the old ones.
	b.Event(1300 * s)
	b.Gap(1300*s, 4e6, 1)
	r.Add(&b)
	b.Event(1000 * s) // too late
	b.Gap(1000*s, 9e6, 1)
	r.Add(&b)
	if m := r.Last(1305 * s); sum(m) != 1 || m.TBT.N != 1 || m.TBT.Max.V != 4 {
		t.Errorf("at 1305: %d tokens, TBT %+v; want what came at 1300 alone", sum(m), m.TBT)
	}
}

func TestRecentSlots(t *testing.T) {
	var r Recent
	var b Batch
	for i := range stamp.Instant(30) {
		b.Gap((1000+10*i)*s, int64(i)*1e6, 200)
	}
	r.Add(&b)
	m := r.Last(1295 * s)
	for i, slot := range m.TBTSlots {
		if got := slot.P50.V; slot.N != 200 || got < float64(i)*0.99 || got > float64(i)*1.01 {
			t.Errorf("part %d: %+v, want 200 of %d ms", i, slot, i)
		}
	}
	if len(m.TBTSlots) != 30 || m.TBT.N != 6000 {
		t.Errorf("%d parts with %d samples, want 30 with 6000", len(m.TBTSlots), m.TBT.N)
	}
}
