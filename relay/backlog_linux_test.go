//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
)

// order notes the streams as they are observed.
type order struct {
	*sink
	name  byte
	names *[]byte
}

func (o order) Observe(p []byte, at stamp.Instant, src stamp.Source) When {
	*o.names = append(*o.names, o.name)
	return o.sink.Observe(p, at, src)
}

// What one stream has in a sheet is observed together, in its order.
func TestBacklogObservesStreamByStream(t *testing.T) {
	b := backlog{crowded: true}
	var names []byte
	streams := make([]*Stream, 3)
	for i := range streams {
		streams[i] = &Stream{Sink: order{newSink(t), "abc"[i], &names}, when: Later}
	}
	for i := range 9 {
		b.hold(streams[i%3], []byte{byte('0' + i)}, stamp.Instant(i), stamp.Kernel)
	}
	if b.due() {
		t.Error("it is due before its time")
	}
	b.change()
	b.hold(streams[0], []byte("new"), 20, stamp.Kernel)
	for _, want := range []string{"aa", "aaab", "aaabbb", "aaabbbcc", "aaabbbccc", "aaabbbccc"} {
		b.observe(2)
		if got := string(names); got != want {
			t.Errorf("observed %s, want %s", got, want)
		}
	}
	for i, want := range []string{"036", "147", "258"} {
		if got := string(streams[i].Sink.(order).observed()); got != want {
			t.Errorf("stream %d: got %q, want %q", i, got, want)
		}
	}
}

// TestBacklogIsDueInTime: when its first read has waited for as long as a read may,
// whether another tells or the clock does.
func TestBacklogIsDueInTime(t *testing.T) {
	for _, asked := range []bool{false, true} {
		b := backlog{crowded: true}
		s := &Stream{Sink: newSink(t), when: Later}
		for _, at := range []stamp.Instant{5, 7, stamp.Instant(patience) + 4} {
			b.hold(s, []byte("x"), at, stamp.Kernel)
			if b.ripen(at); b.due() {
				t.Errorf("due at %d", at)
			}
		}
		left := 3
		if last := stamp.Instant(patience) + 5; asked {
			b.ripen(last)
		} else {
			b.hold(s, []byte("x"), last, stamp.Kernel)
			left++
		}
		for ; left > 0; left-- {
			if !b.due() {
				t.Fatalf("not due with %d reads left", left)
			}
			b.observe(1)
		}
		if b.observe(1); b.due() {
			t.Error("due when all is observed")
		}
	}
}

// An answer in one piece, which is settled at once, leaves nothing behind.
func TestBacklogForgetsWhatIsSettled(t *testing.T) {
	var b backlog
	for range 3 * sheetReads {
		s := &Stream{Sink: newSink(t)}
		b.hold(s, []byte("answer"), 1, stamp.Kernel)
		b.settle(s)
	}
	if b.observe(1); b.due() {
		t.Error("there is something to observe")
	}
	if w := b.sheets[0]; w.size > 0 || len(w.pages) != 1 {
		t.Errorf("%d bytes and %d pages are held for answers that were observed", w.size, len(w.pages))
	}
}

// Both sheets are small again behind the first read after a crowd.
func TestBacklogAfterACrowd(t *testing.T) {
	b := backlog{crowded: true}
	s := &Stream{Sink: newSink(t), when: Later}
	for range 2 {
		for range 100 {
			b.hold(s, make([]byte, muchAtOnce-1), 1, stamp.Kernel)
		}
		b.change()
	}
	b.settle(s)
	for i := range b.sheets {
		if n := len(b.sheets[i].pages); n < 2 {
			t.Errorf("sheet %d: a crowd has %d pages", i, n)
		}
	}
	b.crowded = false
	b.hold(s, []byte("x"), 2, stamp.Kernel)
	b.settle(s)
	for i := range b.sheets {
		if n := len(b.sheets[i].pages); n != 1 {
			t.Errorf("sheet %d: %d pages when the crowd is over, want 1", i, n)
		}
	}
}

// What a crowd has had in a sheet is kept for it, and let go when it is over.
func TestSheetKeepsForACrowd(t *testing.T) {
	for _, crowded := range []bool{true, false} {
		var w sheet
		var kept [][]byte
		var want []string
		for i := range sheetRoom / muchAtOnce {
			want = append(want, strings.Repeat(string(rune('a'+i%26)), muchAtOnce-1-i%7))
			kept = append(kept, w.keep([]byte(want[i])))
		}
		for i := range kept {
			if string(kept[i]) != want[i] {
				t.Fatalf("read %d was overwritten", i)
			}
		}
		w.reads = make([]read, sheetReads)
		pages := len(w.pages)
		if most := sheetRoom / pageRoom * 4 / 3; pages > most {
			t.Errorf("%d pages for %d bytes, want at most %d", pages, w.size, most)
		}
		w.clear(crowded)
		want1, wantReads := 1, 0
		if crowded {
			want1, wantReads = pages, sheetReads
		}
		if len(w.pages) != want1 || cap(w.reads) != wantReads || w.size != 0 || len(w.reads) != 0 {
			t.Errorf("crowded %v: %d pages and room for %d reads are kept, want %d and %d", crowded, len(w.pages), cap(w.reads), want1, wantReads)
		}
		for i, p := range w.pages[:cap(w.pages)] {
			if i >= want1 && p != nil {
				t.Errorf("crowded %v: page %d is still referred to", crowded, i)
			}
		}
		if again := w.keep([]byte("x")); string(again) != "x" || &again[0] != &kept[0][0] {
			t.Errorf("crowded %v: the first page is not used again", crowded)
		}
	}
}

// What may not wait is observed at once, behind what the stream had waiting, and
// before what waits of others.
func TestBacklogObservesTheUrgent(t *testing.T) {
	for _, crowded := range []bool{true, false} {
		b := backlog{crowded: crowded}
		var names []byte
		first := &Stream{Sink: order{newSink(t), 'f', &names}}
		decoding := newSink(t)
		decoding.when = Later
		second := &Stream{Sink: order{decoding, 's', &names}, when: Later}
		b.hold(second, []byte("1"), 1, stamp.Kernel)
		if b.due() == crowded {
			t.Errorf("crowded %v: due is %v", crowded, crowded)
		}
		b.hold(first, []byte("1"), 2, stamp.Kernel)
		b.hold(first, []byte("2"), 3, stamp.Kernel)
		for b.due() {
			b.observe(1)
		}
		if want := map[bool]string{true: "ff", false: "sff"}[crowded]; string(names) != want {
			t.Errorf("crowded %v: observed %s, want %s", crowded, names, want)
		}
		if left, some := b.remaining(11); some != crowded || some && left != patience-10 {
			t.Errorf("crowded %v: got %v, %v of what waits", crowded, left, some)
		}
	}
}

// Whatever comes between, each stream's reads are observed once and in their order,
// and all of them when it is settled.
func TestBacklogLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		l := &Loop{backlog: backlog{crowded: true}}
		type told struct {
			*Stream
			sink *sink
			want []byte
		}
		streams := make([]*told, 1+random.IntN(20))
		for i := range streams {
			k := newSink(t)
			k.when = When(random.IntN(2))
			streams[i] = &told{Stream: &Stream{Sink: k}, sink: k}
		}
		at := stamp.Instant(1)
		settle := func(s *told) {
			l.backlog.settle(s.Stream)
			if !bytes.Equal(s.sink.observed(), s.want) {
				t.Fatalf("observed %d bytes, want the %d held", len(s.sink.observed()), len(s.want))
			}
		}
		for range 3000 {
			s := streams[random.IntN(len(streams))]
			switch n := random.IntN(100); {
			case n < 80:
				p := binary.BigEndian.AppendUint64(make([]byte, random.IntN(2000)), uint64(at))
				at += stamp.Instant(random.Int64N(int64(patience) / 50))
				s.want = append(s.want, p...)
				l.hold(s.Stream, p, at, stamp.Kernel)
			case n < 95:
				l.backlog.observe(random.IntN(40))
			case n < 98:
				settle(s)
			default:
				l.backlog.ripen(at + stamp.Instant(random.Int64N(int64(2*patience))))
			}
		}
		if l.backlog.sheets[0].size > sheetRoom || l.backlog.sheets[1].size > sheetRoom {
			t.Fatal("more is held than there is room")
		}
		for _, s := range streams {
			settle(s)
		}
		l.backlog.observe(math.MaxInt) // of the urgent some are listed and have nothing
		if _, some := l.backlog.remaining(at); some || l.backlog.due() {
			t.Error("something is left of settled streams")
		}
	}
}
