package loadgen

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
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

// lags is what one slot notes of itself, a few ns a read.
type lags struct {
	all    hist.H // stamp to parsed, one entry a read
	merged hist.H // the same, one entry a coalesced event
}

// note files one read: when its bytes were stamped and parsed, and how many
// generated events it completed.
func (g *lags) note(at, parsed stamp.Instant, events int) {
	lag := max(int64(parsed-at), 0)
	g.all.Record(lag)
	if events > 1 {
		g.merged.RecordN(lag, int64(events-1))
	}
}

func (g *lags) merge(o *lags) {
	g.all.Merge(&o.all)
	g.merged.Merge(&o.merged)
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
