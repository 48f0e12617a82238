//go:build !race

package stream

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// heldBy returns the bytes that each of several meters holds, after the first
// events of a stream. The heap is looked at, not what the code believes.
func heldBy(o Options, events [][]byte) int {
	const meters = 16
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all := make([]*Meter, meters)
	for k := range all {
		all[k] = NewMeter(o)
		all[k].Sent(origin)
		all[k].Headers(200, origin+1)
		for i, e := range events {
			all[k].Observe(e, origin+stamp.Instant(i+2)*1e6)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(all)
	return int(after.HeapAlloc-before.HeapAlloc) / meters
}

// A meter without a detector holds 4.4 KB of a stream of a hundred events and 30
// bytes for each further one. With one it holds, besides, a number an event, less
// than twice the text, and state that comes by and by.
func TestMeterMemory(t *testing.T) {
	for _, v := range []struct {
		name   string
		events [][]byte
		text   int // bytes an event, at most
	}{
		{"words", steady(4000), 9},
		{"instants, one an event", instants(4000, 1), 21},
		{"instants, four an event", instants(4000, 4), 84},
	} {
		for _, n := range []int{0, 40, 100, 400, 1000, 4000} {
			plain := heldBy(Options{Dialect: wire.Chat, NoDetect: true}, v.events[:n])
			if most := 4400 + 30*max(n-100, 0); plain > most {
				t.Errorf("%s, %d events: %d bytes, want at most %d", v.name, n, plain, most)
			}
			text := n * v.text
			state := 2 << 10
			switch {
			case text > 4096:
				state = 20 << 10
			case text > 2000: // the near signals have begun
				state = 14 << 10
			}
			judging := heldBy(Options{Dialect: wire.Chat}, v.events[:n]) - plain
			if most := min(2*text+state, 266<<10) + 3*n; judging > most {
				t.Errorf("%s, %d events: %d bytes for %d bytes of text, want at most %d", v.name, n, judging, text, most)
			}
			t.Logf("%s, %d events: %d bytes, and %d to judge %d bytes of text", v.name, n, plain, judging, text)
		}
	}
}

// Counts are what was put, whatever their size; the last may be put again.
func TestCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c counts
		want := map[int]int32{}
		last := 0
		for range rapid.IntRange(0, 60).Draw(t, "puts") {
			last += rapid.IntRange(0, 3).Draw(t, "further")
			n := rapid.OneOf(rapid.Int32Range(wire.None, 3), rapid.Int32Range(250, 260), rapid.Int32Range(0, 1<<30)).Draw(t, "n")
			if n == wire.None {
				c.put(last, n)
				continue
			}
			n = max(n, want[last]) // the code points of an entry grow
			want[last] = n
			c.put(last, n)
		}
		for i := range last + 2 {
			n, ok := want[i]
			if !ok {
				n = wire.None
			}
			if got := c.at(i); got != n {
				t.Fatalf("entry %d: %d, want %d", i, got, n)
			}
		}
	})
}

// What a meter keeps for its next stream is bounded, however many long texts its
// last one had.
func TestMeterLetsGo(t *testing.T) {
	o := Options{Dialect: wire.Chat}
	m := NewMeter(o)
	m.Sent(origin)
	for i := range 30_000 {
		m.Observe([]byte(c("of choice nought, "+novel(i))+strings.ReplaceAll(c("of another, "+novel(i+7)), `"index":0`, `"index":1`)), origin+stamp.Instant(i+2)*1e6)
	}
	if n := len(m.detectors); n != 2 {
		t.Fatalf("%d detectors, want 2", n)
	}
	m.Reset(o)
	state := memoryOf(m.free)
	if len(m.free) != 1 || state > keepState {
		t.Errorf("%d detectors of %d bytes are kept, want one of at most %d", len(m.free), state, keepState)
	}
	if cap(m.log) > keepLog {
		t.Errorf("a log of %d entries is kept, want at most %d", cap(m.log), keepLog)
	}
}

// novel gives text that does not repeat.
func novel(i int) string { return fmt.Sprintf("%x %x", uint32(i)*2654435761, uint32(i)*40503) }
