package report

import (
	"cmp"
	"slices"

	"github.com/streamgauge/streamgauge/matrix"
)

// mostStreams bounds the streams that a page shows one by one, over all cells. A
// cell beyond its share shows how many were waiting and decoding at a time.
const mostStreams = 12000

// timeBins is the resolution of a cell whose streams are not shown one by one.
const timeBins = 60

// timeline is the streams of one cell. Times are milliseconds since the window
// opened, or since the first stream where it never did.
type timeline struct {
	From   int      `json:"from"`
	To     int      `json:"to"`
	Window int      `json:"win"` // its length; 0: never opened
	N      int      `json:"n"`
	Lanes  [][7]int `json:"lanes,omitempty"` // slot, sent, first token, last token, end, how, onset; none is -1e9
	// Of timeBins equal parts of From..To, where Lanes would be too many:
	Waiting  []short `json:"wait,omitempty"` // streams without a token yet, mean of the part
	Decoding []short `json:"dec,omitempty"`
	Loops    []int   `json:"loops,omitempty"` // onsets
}

// absent stands for an instant that never was.
const absent = -1e9

// timelines holds the streams of a run by cell.
type timelines struct {
	spans map[*matrix.Cell][]span
	share int
}

// newTimelines sorts the streams to the cells of the grid. Repeats of a cell
// have the same coordinates, and records do not carry the repeat: a stream
// belongs to the first repeat whose window had not closed when it was sent.
func newTimelines(run *Source, g grid) timelines {
	repeats := map[[2]int][]*matrix.Cell{}
	decode := 0
	for i := range run.Cells {
		if c := &run.Cells[i]; c.Phase == matrix.Decode {
			at := [2]int{c.Context, c.Concurrency}
			repeats[at] = append(repeats[at], c)
			decode++
		}
	}
	t := timelines{spans: map[*matrix.Cell][]span{}, share: mostStreams}
	if decode > 0 {
		t.share = max(mostStreams/decode, 16)
	}
	for _, sp := range run.spans {
		at := [2]int{int(sp.context), int(sp.concurrency)}
		cells := repeats[at]
		if len(cells) == 0 {
			continue
		}
		c := cells[len(cells)-1]
		for _, k := range cells {
			if k.OpenNS.OK && float64(sp.sent) < float64(k.OpenNS.V)+1e9*k.MeasuredS.V {
				c = k
				break
			}
		}
		if g.at[at] == c {
			t.spans[c] = append(t.spans[c], sp)
		}
	}
	return t
}

// of is the timeline of a cell; nil when it has no streams.
func (t *timelines) of(c *matrix.Cell) *timeline {
	spans := t.spans[c]
	if len(spans) == 0 {
		return nil
	}
	zero := spans[0].sent
	for _, sp := range spans {
		zero = min(zero, sp.sent)
	}
	out := &timeline{N: len(spans)}
	if c.OpenNS.OK {
		zero = c.OpenNS.V
		out.Window = int(1e3 * c.MeasuredS.V)
	}
	lanes := make([][7]int, len(spans))
	out.To = out.Window
	for i, sp := range spans {
		lanes[i] = sp.lane(zero)
		out.From, out.To = min(out.From, lanes[i][1]), max(out.To, lanes[i][4])
	}
	if len(lanes) > t.share {
		out.aggregate(lanes)
		return out
	}
	slices.SortFunc(lanes, func(a, b [7]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	out.Lanes = lanes
	return out
}

// lane is a stream's course in milliseconds since zero.
func (s *span) lane(zero int64) [7]int {
	at := func(ns int64) int {
		if ns == never {
			return absent
		}
		return int((ns - zero) / 1e6)
	}
	return [7]int{int(s.slot), at(s.sent), at(s.first), at(s.last), at(s.end), int(s.how), at(s.loopsSince)}
}

// aggregate replaces the lanes by how many were doing what, part by part.
func (t *timeline) aggregate(lanes [][7]int) {
	width := float64(max(t.To-t.From, 1)) / timeBins
	wait, dec := make([]float64, timeBins), make([]float64, timeBins)
	t.Loops = make([]int, timeBins)
	add := func(to []float64, from, until int) {
		a, z := float64(from-t.From)/width, float64(until-t.From)/width
		for i := int(max(a, 0)); i < timeBins && float64(i) < z; i++ {
			to[i] += max(min(z, float64(i+1))-max(a, float64(i)), 0)
		}
	}
	for _, l := range lanes {
		if l[2] == absent {
			add(wait, l[1], l[4])
			continue
		}
		add(wait, l[1], l[2])
		add(dec, l[2], l[4])
		if l[6] != absent {
			t.Loops[min(max(int(float64(l[6]-t.From)/width), 0), timeBins-1)]++
		}
	}
	t.Waiting, t.Decoding = shorts(wait), shorts(dec)
}
