package stamp

import (
	"testing"
	"testing/synctest"
	"time"
)

// fakeClock is a host whose wall clock can be stepped. Each reading of the
// clocks takes 60 ns, as on a real one; lag is added behind the wall clock's.
type fakeClock struct {
	mono, offset int64
	lag          int64
	readings     int
}

func (f *fakeClock) now() (int64, Instant) {
	f.readings++
	f.mono += 30
	real := f.mono + f.offset
	f.mono += 30 + f.lag
	return real, Instant(f.mono)
}

// wall is what the kernel would stamp ago before now.
func (f *fakeClock) wall(ago time.Duration) int64 { return f.mono - int64(ago) + f.offset }

func newFakeClock() (*fakeClock, *track) {
	f := &fakeClock{mono: 1e12, offset: 1_700_000_000e9}
	return f, &track{clk: &clock{now: f.now}}
}

func TestPlaceJudgesStamps(t *testing.T) {
	const us = time.Microsecond
	type read struct {
		name   string
		wait   time.Duration // since the read before
		step   time.Duration // of the wall clock, just before the segment came
		ago    time.Duration // of the segment, before the read; -1: no stamp
		want   Source
		reason string
	}
	for _, tt := range []struct {
		name  string
		reads []read
		want  Refusals
	}{
		{"in order", []read{
			{"first", 0, 0, 50 * us, Kernel, ""},
			{"second", 10 * time.Millisecond, 0, 5 * us, Kernel, ""},
			{"after a gap", time.Hour, 0, 5 * us, Kernel, "the pair is measured anew"},
		}, Refusals{}},
		{"missing", []read{
			{"early bytes", 0, 0, -1, User, "queued before the option was set"},
			{"then stamped", us, 0, us / 2, Kernel, ""},
		}, Refusals{Missing: 1}},
		{"late", []read{
			{"from the future", 0, 0, -5 * us, User, "the kernel cannot stamp what was read before"},
		}, Refusals{Late: 1}},
		{"early", []read{
			{"first", 0, 0, 5 * us, Kernel, ""},
			{"before the first", 100 * us, 0, 200 * us, User, "TCP delivers in order"},
			{"recovers", 100 * us, 0, 5 * us, Kernel, ""},
		}, Refusals{Early: 1}},
		{"forward step", []read{
			{"before", 0, 0, 5 * us, Kernel, ""},
			{"around", 10 * time.Millisecond, time.Second, 5 * us, User, "on which side of the step it came is unknown"},
			{"after", 10 * time.Millisecond, 0, 5 * us, Kernel, "the new pair holds"},
		}, Refusals{Step: 1}},
		{"backward step", []read{
			{"before", 0, 0, 5 * us, Kernel, ""},
			{"around", 10 * time.Millisecond, -time.Hour, 5 * us, User, ""},
			{"after", 10 * time.Millisecond, 0, 5 * us, Kernel, ""},
		}, Refusals{Step: 1}},
		{"step of 100 us", []read{
			{"before", 0, 0, 5 * us, Kernel, ""},
			{"around", 10 * time.Millisecond, 100 * us, 5 * us, User, "small steps would pass the two other rules"},
			{"after", 10 * time.Millisecond, 0, 5 * us, Kernel, ""},
		}, Refusals{Step: 1}},
		{"step while nobody reads", []read{
			{"before", 0, 0, 5 * us, Kernel, ""},
			{"around", time.Minute, 100 * us, 5 * us, User, ""},
		}, Refusals{Step: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, tr := newFakeClock()
			var last Instant
			for _, r := range tt.reads {
				f.mono += int64(r.wait)
				f.offset += int64(r.step)
				raw := f.wall(r.ago)
				if r.ago == -1 {
					raw = 0
				}
				truth := Instant(f.mono - int64(r.ago))
				read := Instant(f.mono)
				at, src := tr.place(raw)
				if src != r.want {
					t.Errorf("%s: got %v, want %v %s", r.name, src, r.want, r.reason)
				}
				if diff := at - truth; src == Kernel && (diff > 100 || diff < -100) {
					t.Errorf("%s: got an instant %d ns from the truth, want within 100", r.name, diff)
				}
				if src == User && (at < read || at > read+2000) {
					t.Errorf("%s: got a user stamp %d ns after the read, want the first clock reading after it", r.name, at-read)
				}
				if at <= last {
					t.Errorf("%s: got an instant %v before the last one, want time to run forward", r.name, last.Sub(at))
				}
				last = at
			}
			if got := tr.clk.refused.read(); got != tt.want {
				t.Errorf("got refusals %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Events of one segment share one instant, to the nanosecond: that is how they
// are known to be coalesced. A pair measured between their reads must not part
// them.
func TestPlaceKeepsOneInstantPerSegment(t *testing.T) {
	f, tr := newFakeClock()
	raw := f.wall(time.Microsecond)
	first, _ := tr.place(raw)
	f.offset += 300 // within the noise of a pair
	f.mono += int64(2 * time.Second)
	second, src := tr.place(raw)
	if first != second || src != Kernel {
		t.Errorf("got %v %v, want the same instant as the first part of the segment", second.Sub(first), src)
	}
	third, src := tr.place(raw + 1)
	if third <= second || src != Kernel {
		t.Errorf("next segment: got %v %v, want a later instant", third.Sub(second), src)
	}
}

// A goroutine preempted between the two clock readings of one time.Now sees a
// pair that is off; that is no step.
func TestPreemptedReadingIsNoStep(t *testing.T) {
	f, tr := newFakeClock()
	tr.place(f.wall(time.Microsecond))
	f.mono += 1e6
	raw, truth := f.wall(time.Microsecond), f.mono-1000
	p := tr.clk.check(f.mono+f.offset, Instant(f.mono+5e6))
	if p.era != 0 {
		t.Errorf("got era %d, want 0: the clock was not stepped", p.era)
	}
	if at, src := tr.judge(p, raw, Instant(f.mono+5e6)); src != Kernel || at-Instant(truth) > 100 || at-Instant(truth) < -100 {
		t.Errorf("got %v, %d ns from the truth, want kernel within 100", src, at-Instant(truth))
	}
}

func TestPairIsMeasuredEachSecond(t *testing.T) {
	f, tr := newFakeClock()
	tr.clk.current()
	begin := f.readings
	for range 99 {
		f.mono += int64(10 * time.Millisecond)
		tr.clk.current()
	}
	if got := f.readings - begin; got != 99 {
		t.Errorf("within a second: got %d clock readings for 99 calls, want 99", got)
	}
	f.mono += int64(10 * time.Millisecond)
	tr.clk.current()
	if got := f.readings - begin; got <= 100 {
		t.Errorf("after a second: got %d clock readings, want a new pair", got)
	}
}

// A worse measurement of the same offset must not replace a better one.
func TestPairKeepsTheBetterOffset(t *testing.T) {
	f, tr := newFakeClock()
	want := *tr.clk.current()
	f.mono += int64(time.Minute)
	f.lag = 900
	got := tr.clk.current()
	if got.offset != want.offset || got.era != want.era {
		t.Errorf("got the offset moved by %d ns, era %d, want it kept: the bracket was 15 times as wide", got.offset-want.offset, got.era)
	}
	if got.at <= want.at {
		t.Error("got the old pair, want one that counts as measured now")
	}
}

func TestInstantsFollowTheClocks(t *testing.T) {
	mono, ok := monotonic()
	if !ok {
		t.Skip("no CLOCK_MONOTONIC here")
	}
	now := Now()
	after, _ := monotonic()
	if int64(now) < mono-1000 || int64(now) > after+1000 {
		t.Errorf("Now: got %d, want it in CLOCK_MONOTONIC's [%d, %d]", now, mono, after)
	}
	wall := time.Now()
	got := FromTime(wall).Realtime()
	if diff := got - wall.UnixNano(); diff > 50_000 || diff < -50_000 {
		t.Errorf("Realtime: got %d ns from the wall clock, want within 50 us", diff)
	}
	if got := FromTime(wall.Round(0)) - FromTime(wall); got > 50_000 || got < -50_000 {
		t.Errorf("FromTime without a monotonic reading: got %d ns off, want within 50 us", got)
	}
}

func TestInstantsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := Now()
		if begin <= 0 {
			t.Fatalf("got %d, want a positive instant: 0 means never", begin)
		}
		<-time.After(1234 * time.Millisecond)
		if got, want := Now().Sub(begin), 1234*time.Millisecond; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if got, want := Now().Realtime(), time.Now().UnixNano(); got != want {
			t.Errorf("Realtime: got %d, want the bubble's %d", got, want)
		}
	})
}
