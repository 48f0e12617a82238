package loadgen

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// Limits beyond which the generator, not the server, was the bottleneck
// (docs/measuring.md, "Status").
const (
	maxLagOfGap   = 0.5 // median (stamp to parsed) / median gap, with user stamps
	maxCPUShare   = 0.9 // of the process, of its cores, with kernel stamps
	maxLateMerges = 0.2 // generated events coalesced by our late reads
)

// lags says how late reads were parsed. The slots of a cell share one, for a
// pair of histograms each would be a sixth of what a stream costs.
type lags struct {
	mu     sync.Mutex
	all    hist.H // stamp to parsed, one entry a read
	merged hist.H // the same, one entry a coalesced event
}

// lag is one read: the time from its stamp until it was parsed, and how many
// generated events it completed.
type lag struct {
	d      time.Duration
	events int
}

// lagBatch is how many reads a lane keeps before it files them.
const lagBatch = 32

// lagNotes are the reads a lane has not filed yet.
type lagNotes struct {
	to    *lags
	batch []lag
}

// add notes one read, a few ns. A batch that is full is filed if nobody else is
// at it, else it grows: a lane never waits for another.
func (n *lagNotes) add(at, parsed stamp.Instant, events int) {
	n.batch = append(n.batch, lag{max(parsed.Sub(at), 0), events})
	if len(n.batch) >= lagBatch && n.to.mu.TryLock() {
		n.file()
	}
}

// flush files what is left.
func (n *lagNotes) flush() {
	n.to.mu.Lock()
	n.file()
}

// file empties the batch and unlocks.
func (n *lagNotes) file() {
	defer n.to.mu.Unlock()
	for _, l := range n.batch {
		n.to.all.Record(int64(l.d))
		n.to.merged.RecordN(int64(l.d), int64(l.events-1))
	}
	n.batch = n.batch[:0]
}

// above counts entries of h over v, to the resolution of its buckets.
func above(h *hist.H, v int64) int64 {
	n := h.Count()
	lo, hi := int64(0), n // the rank of the first entry over v lies in (lo, hi]
	for lo < hi {
		mid := (lo + hi) / 2
		if h.Quantile((float64(mid)+.5)/float64(n)) > v {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return n - lo
}

// usage is the process's own consumption up to an instant.
type usage struct {
	at      stamp.Instant
	cpu     time.Duration
	known   bool
	gcPause time.Duration
}

func takeUsage() usage {
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	u := usage{at: stamp.Now(), gcPause: gc.PauseTotal}
	u.cpu, u.known = processCPU()
	return u
}

// judge adds the generator's own figures to the cell and limits it if they say so.
func (g *lags) judge(c *matrix.Cell, from, to usage, generated int) {
	c.Lag = matrix.QuantilesOf(&g.all)
	if from.at != 0 {
		c.GCPauseMS = stream.Some(float64(to.gcPause-from.gcPause) / 1e6)
	}
	if wall := to.at.Sub(from.at); from.known && to.known && wall > 0 {
		c.CPUShare = stream.Some(float64(to.cpu-from.cpu) / float64(wall) / float64(runtime.GOMAXPROCS(0)))
	}
	if !c.HasNumbers() || c.Gaps.N == 0 {
		return
	}
	if strings.HasPrefix(c.Stamps, proxyStamps) {
		return // the numbers are the proxy's, whatever we were busy with
	}
	gap := c.Gaps.P50.V
	kernel := c.Stamps == stamp.Kernel.String()
	switch {
	case !kernel && c.Lag.P50.V > maxLagOfGap*gap:
		c.Raise(matrix.Limited, "lag", fmt.Sprintf(
			"half of the reads were parsed more than %.3g ms after their stamp, over half the median gap of %.3g ms", c.Lag.P50.V, gap))
	case kernel && c.CPUShare.OK && c.CPUShare.V > maxCPUShare:
		c.Raise(matrix.Limited, "cpu", fmt.Sprintf(
			"the generator used %.0f %% of its %d cores", 100*c.CPUShare.V, runtime.GOMAXPROCS(0)))
	case kernel && generated > 0:
		late := above(&g.merged, int64(maxLagOfGap*gap*1e6))
		if share := float64(late) / float64(generated); share > maxLateMerges {
			c.Raise(matrix.Limited, "late_reads", fmt.Sprintf(
				"%.0f %% of the events were merged by reads that came more than %.3g ms late", 100*share, maxLagOfGap*gap))
		}
	}
}
