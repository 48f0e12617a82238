package report

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
	"pgregory.net/rapid"
)

func seconds(s float64) stream.Null[int64] { return stream.Some(int64(s * 1e9)) }

func TestTimelineOfACell(t *testing.T) {
	cell := matrix.Cell{Phase: matrix.Decode, Context: 8, Concurrency: 2, Status: matrix.Valid, OpenNS: seconds(100), MeasuredS: stream.Some(10.0)}
	base := stream.Record{Context: 8, Concurrency: 2, Phase: stream.Warmup, End: stream.Cancelled}
	plain := base
	plain.SentNS, plain.TTFTNS, plain.LastTokenNS, plain.EndNS = seconds(97), seconds(1), seconds(12.5), seconds(13)
	looped := base
	looped.Slot, looped.End = 1, stream.Looped
	looped.SentNS, looped.TTFTNS, looped.LastTokenNS, looped.EndNS = seconds(97), seconds(2), seconds(8), seconds(8)
	looped.Loops = []stream.Loop{{Verdict: "suspected", OnsetNS: seconds(3)}, {Verdict: "confirmed", OnsetNS: seconds(5)}}
	waiting := base
	waiting.Slot, waiting.End, waiting.SentNS, waiting.EndNS = 1, stream.Failed, seconds(106), seconds(3)
	prime := base
	prime.Phase, prime.SentNS = stream.Prime, seconds(90)
	run := FromRun(&matrix.Run{Cells: []matrix.Cell{cell}, Records: []stream.Record{waiting, looped, plain, prime}})
	got := newTimelinesOf(run).of(&run.Cells[0])
	want := &timeline{From: -3000, To: 10000, Window: 10000, N: 3, Lanes: [][7]int{
		{0, -3000, -2000, 9500, 10000, endedCut, absent},
		{1, -3000, -1000, 5000, 5000, endedLoop, 2000},
		{1, 6000, absent, absent, 9000, endedFailed, absent},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("timeline (-want +got):\n%s", d)
	}
}

func newTimelinesOf(run *Source) *timelines {
	lanes := newTimelines(run, index(run.Cells))
	return &lanes
}

// TestTimelineOfRepeats: records do not carry the repeat, and the matrix shows
// the last one.
func TestTimelineOfRepeats(t *testing.T) {
	run := &matrix.Run{}
	for k := range 2 {
		run.Cells = append(run.Cells, matrix.Cell{Phase: matrix.Decode, Context: 8, Concurrency: 1, Repeat: k, OpenNS: seconds(float64(100 * (k + 1))), MeasuredS: stream.Some(10.0)})
		run.Records = append(run.Records, stream.Record{Context: 8, Concurrency: 1, Phase: stream.Warmup, SentNS: seconds(float64(100*(k+1) - 3)), EndNS: seconds(13), Slot: k})
	}
	src := FromRun(run)
	if got := newTimelinesOf(src).of(&src.Cells[1]); got == nil || got.N != 1 || got.Lanes[0][0] != 1 || got.Lanes[0][1] != -3000 {
		t.Errorf("the last repeat has %+v, want its own stream alone", got)
	}
}

// TestManyStreamsAreCounted: the sums over time of what the parts say are those
// of the streams.
func TestManyStreamsAreCounted(t *testing.T) {
	lanes := [][7]int{
		{0, 0, 1000, 5000, 6000, endedDone, absent},
		{1, 500, 1500, 5000, 6000, endedLoop, 3000},
		{2, 2000, absent, absent, 3000, endedFailed, absent},
	}
	tl := &timeline{From: 0, To: 6000}
	tl.aggregate(lanes)
	sum := func(vs []short) (s float64) {
		for _, v := range vs {
			s += v.V * 6000 / timeBins
		}
		return s
	}
	if got := sum(tl.Waiting); math.Abs(got-3000) > 1e-6 {
		t.Errorf("%v stream-milliseconds of waiting, want 3000", got)
	}
	if got := sum(tl.Decoding); math.Abs(got-9500) > 1e-6 {
		t.Errorf("%v stream-milliseconds of decoding, want 9500", got)
	}
	if tl.Loops[30] != 1 {
		t.Errorf("onsets %v, want one half-way", tl.Loops)
	}
}

// TestGapBinsKeepEveryGap: rebinning loses none, and a gap is not moved further
// than its bin and the histogram's own error allow.
func TestGapBinsKeepEveryGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h hist.H
		for _, v := range rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 200).Draw(t, "gaps") {
			h.Record(v)
		}
		b := binGaps(&h)
		var n int64
		for _, k := range b.Counts {
			if k < 0 {
				t.Fatalf("a bin of %d", k)
			}
			n += k
		}
		if n+b.Below+b.Above != h.Count() || len(b.Counts) > mostBins {
			t.Fatalf("%d inside, %d below, %d above in %d bins of %d gaps", n, b.Below, b.Above, len(b.Counts), h.Count())
		}
		if b.Below+b.Above > h.Count()/50+2 {
			t.Fatalf("%d of %d gaps are outside the edges", b.Below+b.Above, h.Count())
		}
	})
	if binGaps(nil) != nil || binGaps(&hist.H{}) != nil {
		t.Error("no gaps make bins")
	}
}

func TestGapBinsFindTheTwoPeaks(t *testing.T) {
	var h hist.H
	for range 100 {
		h.Record(10e6)
		h.Record(30e6)
	}
	b := binGaps(&h)
	if b.Log || len(b.Counts) != 2 || b.Counts[0] != 100 || b.Counts[1] != 100 {
		t.Errorf("%+v, want the two values apart on a linear axis", b)
	}
}

func TestShortNumbers(t *testing.T) {
	for v, want := range map[float64]string{1234567: "1234600", 0.000123456: "0.00012346", 434.25: "434.25", math.Inf(1): "null", 0: "0"} {
		if got, err := json.Marshal(short{V: v, OK: true}); err != nil || string(got) != want {
			t.Errorf("%v is %s (%v), want %s", v, got, err, want)
		}
	}
	if got, err := json.Marshal(short{}); err != nil || string(got) != "null" {
		t.Errorf("undefined is %s (%v), want null", got, err)
	}
}
