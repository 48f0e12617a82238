package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/internal/yard"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// ms are nanoseconds.
const ms = 1_000_000

// oneStream is a run of one stream with tokens at 100, 110, … 190 ms after it
// was sent at epoch 0; the window is [100, 200) ms.
func oneStream() (*matrix.Run, map[string]yard.Emitted, map[string]int64) {
	rec := stream.Record{
		ID: "a", Phase: stream.Warmup, Tokens: 10, SentNS: stream.Some[int64](0), SentRealNS: stream.Some[int64](0),
		TTFTNS: stream.Some[int64](101 * ms),
	}
	c := matrix.Cell{
		Status: matrix.Valid, OpenNS: stream.Some[int64](100 * ms), MeasuredS: stream.Some(.1), TotalTokS: stream.Some(90.0),
		Gaps: matrix.Quantiles{N: 9, P50: stream.Some(10.5)},
	}
	var emits []int64
	for at := int64(100 * ms); at < 200*ms; at += 10 * ms {
		emits = append(emits, at)
	}
	return &matrix.Run{Records: []stream.Record{rec}, Cells: []matrix.Cell{c}},
		map[string]yard.Emitted{"a": {ID: "a", Emits: emits, PerChunk: 1}}, map[string]int64{"a": 30 * ms}
}

func TestReadingOf(t *testing.T) {
	run, log, left := oneStream()
	r, err := readingOf(run, log, left, false)
	if err != nil {
		t.Fatal(err)
	}
	if r.total != (figure{90, 100}) {
		t.Errorf("total %+v, want 90 where the log has 10 tokens in 0.1 s", r.total)
	}
	if r.ttft != (figure{101, 70}) || r.there != 30 || r.back != 1 {
		t.Errorf("TTFT %+v, there %v, back %v; want 101 of 70 ms, 30, 1", r.ttft, r.there, r.back)
	}
	if off := r.gap.off(); off < .4 || off > .6 {
		t.Errorf("gap %+v, want 10.5 where the log has 10", r.gap)
	}
	run.Cells[0].ProxyDiff = &matrix.ProxyDiff{Missing: 3}
	if r, err = readingOf(run, log, left, false); err != nil || r.missing != 3 {
		t.Errorf("%d missing, %v; want 3", r.missing, err)
	}
}

// A pair with nothing to judge by must not look like one that agrees.
func TestReadingOfRefusesHoles(t *testing.T) {
	for _, tt := range []struct {
		name string
		harm func(run *matrix.Run, log map[string]yard.Emitted, left map[string]int64)
	}{
		{"no cell", func(run *matrix.Run, _ map[string]yard.Emitted, _ map[string]int64) { run.Cells = nil }},
		{"a cell without numbers", func(run *matrix.Run, _ map[string]yard.Emitted, _ map[string]int64) {
			run.Cells[0].TotalTokS = stream.Null[float64]{}
		}},
		{"not in the emitter's log", func(_ *matrix.Run, log map[string]yard.Emitted, _ map[string]int64) { delete(log, "a") }},
		{"no instant of the request", func(_ *matrix.Run, _ map[string]yard.Emitted, left map[string]int64) { delete(left, "a") }},
		{"no TTFT", func(run *matrix.Run, _ map[string]yard.Emitted, _ map[string]int64) {
			run.Records[0].TTFTNS = stream.Null[int64]{}
		}},
	} {
		run, log, left := oneStream()
		tt.harm(run, log, left)
		if r, err := readingOf(run, log, left, false); err == nil {
			t.Errorf("%s: got %+v, want an error", tt.name, r)
		}
	}
}

func TestPairVerdicts(t *testing.T) {
	fine := reading{status: matrix.Valid, total: figure{100, 100}, ttft: figure{200, 200}, gap: figure{10, 10}, back: .01}
	for _, tt := range []struct {
		name   string
		harm   func(*reading)
		missed int
	}{
		{"agrees", func(*reading) {}, 0},
		{"the same error as direct's is no disagreement", func(r *reading) { r.total.got = 101; r.total.want = 101 }, 0},
		{"total 0.6 % off", func(r *reading) { r.total.got = 100.6 }, 1},
		{"first token 0.3 ms late", func(r *reading) { r.back += .3 }, 1},
		{"gap 0.3 ms off", func(r *reading) { r.gap.got = 9.7 }, 1},
		{"a record is missing", func(r *reading) { r.missing = 1 }, 1},
		{"limited", func(r *reading) { r.status = matrix.Limited }, 1},
		{"no tokens by the log", func(r *reading) { r.total = figure{0, 0} }, 1},
	} {
		off := fine
		tt.harm(&off)
		var out bytes.Buffer
		got := printPair(&out, cells[0], [ways][]reading{direct: {fine}, forwarded: {fine}, joined: {off}})
		if got != tt.missed {
			t.Errorf("%s: %d bars missed, want %d:\n%s", tt.name, got, tt.missed, out.Bytes())
		}
		if n := strings.Count(out.String(), "\n"); n != int(ways) {
			t.Errorf("%s: %d rows, want one a way", tt.name, n)
		}
	}
}
