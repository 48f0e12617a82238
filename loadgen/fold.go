package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// minPartial is the shortest window of an interrupted cell whose numbers are
// worth keeping.
const minPartial = time.Second

// fold turns what the slots kept into the cell and its records, primes first.
func (c *cell) fold(ctx context.Context) (matrix.Cell, []stream.Record, error) {
	c.phases()
	out := c.r.blank(c.step)
	cause := context.Cause(ctx)
	v := c.verdict.Load()
	length := c.window.end.Sub(c.window.open)
	switch {
	case v != nil:
		c.tally(&out)
		out.Raise(v.status, v.reason, v.message)
	case c.window.open == 0 || cause != nil && length < minPartial:
		c.tally(&out)
		out.Raise(matrix.Interrupted, interruption(cause), "the run was ended before the window had a second")
	default:
		out = c.fill(ctx)
		if cause != nil {
			out.Raise(matrix.Interrupted, interruption(cause), fmt.Sprintf(
				"the run was ended %.1f s into the window of %v; the numbers are those of the time measured", length.Seconds(), c.r.cfg.Duration))
		}
	}
	if c.undrained != nil {
		out.Warn("drain", c.undrained.message)
	}
	records := c.primes
	for _, s := range c.slots {
		for _, l := range s.lives {
			if c.r.cfg.Events {
				l.rec.EventLog = stream.EventLog(l.log, l.sent)
			}
			records = append(records, *l.rec)
		}
	}
	if cause != nil {
		return out, records, cause
	}
	return out, records, c.fatal()
}

// fatal is the error that ends the run, nil if other cells may do better.
func (c *cell) fatal() error {
	for _, v := range []*verdict{c.verdict.Load(), c.undrained} {
		if v != nil && v.fatal {
			return v.err()
		}
	}
	return nil
}

// phases notes for each stream what the cell was doing when it was sent.
func (c *cell) phases() {
	for _, s := range c.slots {
		for _, l := range s.lives {
			switch {
			case c.window.open == 0 || l.sent < c.window.open:
				l.rec.Phase = stream.Warmup
			case l.sent < c.window.end:
				l.rec.Phase = stream.InWin
			default:
				l.rec.Phase = stream.Drain
			}
		}
	}
}

// tally counts the streams of a cell that has no numbers.
func (c *cell) tally(out *matrix.Cell) {
	for _, s := range c.slots {
		for _, l := range s.lives {
			out.Streams++
			if l.rec.End == stream.Failed || l.rec.End == stream.Truncated {
				out.FailedStreams++
			}
			if l.retired {
				out.Loops++
			}
		}
	}
}

// fill computes the numbers: from the proxy's stamps where there is a proxy, and
// then once more from our own, for the difference.
func (c *cell) fill(ctx context.Context) matrix.Cell {
	slots := make([][]*life, len(c.slots))
	var lives []*life
	for i, s := range c.slots {
		slots[i] = s.lives
		lives = append(lives, s.lives...)
	}
	if c.r.proxy == nil {
		out := c.numbers(slots)
		c.judge(&out, lives)
		return out
	}
	mine := make([][]*life, len(slots))
	for i := range slots {
		for _, l := range slots[i] {
			mine[i] = append(mine[i], l.clone())
		}
	}
	alone := c.numbers(mine)
	joined, missing, fault := c.r.proxy.join(ctx, lives)
	out := c.numbers(slots)
	out.ProxyDiff = diff(mine, slots, &alone, joined, missing)
	if missing > 0 {
		out.Warn("proxy_records_missing", strings.TrimSpace(fmt.Sprintf(
			"the proxy has no record of %d of %d streams; those are measured by loadgen's own stamps. %s", missing, len(lives), fault)))
	}
	c.judge(&out, lives)
	return out
}

// numbers fills the window parts of the streams and folds them.
func (c *cell) numbers(slots [][]*life) matrix.Cell {
	var lives []*life
	var spans []span
	var gaps hist.H
	for _, s := range slots {
		lives = append(lives, s...)
	}
	counted := settleCounts(lives)
	trimmed := false
	in := matrix.DecodeInput{
		Context: c.step.Context, Concurrency: c.step.Concurrency, Repeat: c.step.Repeat,
		Gaps: &gaps, OpenNS: int64(c.window.open - c.r.start), Duration: c.window.end.Sub(c.window.open),
		Discard: c.r.cfg.OnLoop == Discard, ForceLength: c.r.cfg.ForceLength,
		MaxTokens: c.r.cfg.MaxTokens, MaxFailed: c.r.cfg.MaxFailed,
	}
	for _, s := range slots {
		spans = append(spans, c.window.slot(s)...)
		for _, l := range s {
			c.window.gaps(&gaps, l)
			trimmed = trimmed || l.rec.Window.Trimmed
			in.Records = append(in.Records, *l.rec)
		}
	}
	out := matrix.FoldDecode(in)
	if out.HasNumbers() {
		out.PerSecond = c.window.perSecond(lives)
		out.CI95 = c.window.rateCI95(&out, spans, trimmed || out.Loops > 0)
	}
	if counted.scaled > 0 {
		out.Warn("usage_final_aborted", fmt.Sprintf(
			"%d streams were cut short before the server told their count: %.4g tokens an event are assumed, as in the completed streams", counted.scaled, counted.perEvent))
	}
	if counted.estimated > 0 {
		out.Warn("tokens_estimated", fmt.Sprintf(
			"%d streams tell no token count: one token an event is assumed", counted.estimated))
	}
	return out
}

// judge adds what only the generator knows.
func (c *cell) judge(out *matrix.Cell, lives []*life) {
	var first, last stamp.Instant
	generated := 0
	for _, l := range lives {
		generated += len(l.log)
		if l.rec.Seq != 0 || l.sent == 0 {
			continue
		}
		if first == 0 || l.sent < first {
			first = l.sent
		}
		last = max(last, l.sent)
	}
	out.StartSkewMS = stream.Some(float64(last-first) / 1e6)
	if c.notReady != "" {
		switch k := mostDecoding(lives, c.window.open); {
		case k == 0:
			out.Raise(matrix.Failed, "no_token", "no stream produced a token: "+c.notReady)
		case k < c.step.Concurrency:
			out.Raise(matrix.OverCapacity, reasonAdmitted, fmt.Sprintf("admitted %d of %d: %s", k, c.step.Concurrency, c.notReady))
		default:
			out.Warn("not_ready", c.notReady)
		}
	}
	c.watch.tell(out)
	if out.SpecAcceptance.OK && out.Loops > 0 {
		out.Warn("loops_speed_speculation", "loops make speculative decoding look faster")
	}
	c.window.bursts(lives).warn(out)
	c.lags.judge(out, c.from, c.to, generated)
}

// reasonAdmitted is the reason of a cell that the server admitted in part.
const reasonAdmitted = "admitted"

// interruption is the reason of an interrupted cell.
func interruption(cause error) string {
	if errors.Is(cause, errMaxTime) {
		return "max_time"
	}
	return reasonInterrupt
}
