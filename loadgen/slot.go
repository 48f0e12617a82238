package loadgen

import (
	"context"
	"fmt"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
)

// slot keeps one stream of a cell running: whenever one ends, the next starts at
// once with another tail.
type slot struct {
	*lane
	c     *cell
	n     int
	tmpl  *template
	ready *upstream.Ready // connection of the first stream
	lives []*life         // in the order they ran; read by others after the join
	fails int             // in a row
}

// Pauses of a slot after failures in a row: the first tries again soon, a dead
// server is not hammered.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// work runs streams until the cell is over.
func (s *slot) work(ctx context.Context) {
	defer s.release()
	select {
	case <-s.c.start:
	case <-ctx.Done():
		return
	}
	do := s.ready.Do
	var last *life
	for seq := 0; ctx.Err() == nil && !s.c.closing.Load(); seq++ {
		if last != nil {
			last.detach()
		}
		id := s.c.id(s.n, seq)
		tail := s.c.r.prompts.tail(s.c.step.Context, s.c.step.Concurrency, s.c.step.Repeat, s.n, seq)
		s.body = s.tmpl.append(s.body[:0], tail, id)
		s.c.current[s.n].Store(&id)
		out := s.run(ctx, shot{id: id, ttft: s.c.ttft, do: do, closing: &s.c.closing, retire: s.c.retire(id)})
		s.c.current[s.n].Store(nil)
		out.rec.ID, out.rec.Slot, out.rec.Seq = id, s.n, seq
		out.rec.Context, out.rec.Concurrency = s.c.step.Context, s.c.step.Concurrency
		s.lives = append(s.lives, &out.life)
		last = &out.life
		if pause := s.next(&out); pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		do = s.c.r.client.Do
	}
}

// next books how a stream ended and returns how long to wait before another.
func (s *slot) next(out *outcome) time.Duration {
	rec := out.rec
	if len(out.log) > 0 {
		s.c.alive.Store(true)
	}
	switch rec.End {
	case stream.Failed, stream.Truncated:
	case stream.Looped:
		s.fails = 0
		s.c.looped(out)
		return 0
	default:
		s.fails = 0
		if rec.End == stream.Completed {
			s.c.ended.Add(1)
		}
		return 0
	}
	s.fails++
	s.c.failed(s, out)
	pause := min(firstPause<<min(s.fails-1, 10), maxPause)
	return max(pause, out.retryAfter)
}

// retire returns what ends a looping stream. SGLang goes on generating for a
// client that has left, so it is told first, while the stream is still open; the
// lane does not wait for that.
func (c *cell) retire(id string) func(*upstream.Response, func()) {
	if !c.r.info.CanAbort {
		return nil
	}
	return func(resp *upstream.Response, release func()) {
		c.aborts.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), abortTime)
			defer cancel()
			c.r.abort(ctx, id)
			_ = resp.Close()
			release()
		})
	}
}

// failed looks whether a failure means that the cell, or the run, is over.
func (c *cell) failed(s *slot, out *outcome) {
	switch v := refused(out, c.r.deps.Target); {
	case v != nil && (!out.refused || s.fails >= refusedTries):
		c.give(*v)
	case s.fails >= failTries:
		c.give(verdict{matrix.Failed, "streams_failed", fmt.Sprintf("%d streams of one slot failed in a row: %s", s.fails, out.why()), false})
	}
}

// A slot that fails this often in a row ends its cell: with refused connections
// after about 1.5 s of trying, with anything else after about 25 s.
const (
	refusedTries = 5
	failTries    = 10
)

// looped counts a retired stream, and ends the cell when there is no hope: every
// slot has looped, nothing ended otherwise, and less than half of the time of
// these streams is clean. With --on-loop=discard one is enough.
func (c *cell) looped(out *outcome) {
	n := c.loops.Add(1)
	all := c.loopTime.Add(int64(out.end - out.sent))
	good := c.cleanTime.Load()
	if k := min(out.onset, len(out.log)); k > 0 {
		good = c.cleanTime.Add(int64(out.log[k-1].At - out.log[0].At))
	}
	evidence := loopEvidence(out.rec)
	if c.r.cfg.OnLoop == Discard {
		c.give(verdict{matrix.Looped, "loop_discarded", "a stream looped: " + evidence + "; --on-loop=discard leaves no numbers", false})
		return
	}
	if c.loopedOnce(out.rec.Slot) && n >= hopelessLoops && c.ended.Load() == 0 && good*2 < all {
		c.give(verdict{matrix.Looped, "every_stream", fmt.Sprintf(
			"each of the %d streams so far looped, %.0f %% of their time is clean: %s", n, 100*float64(good)/float64(all), evidence), false})
	}
}

// hopelessLoops is the least number of loops that condemns a cell.
const hopelessLoops = 4

// loopEvidence says what a record's acting verdict found.
func loopEvidence(rec *stream.Record) string {
	for _, l := range rec.Loops {
		if !l.Acts() {
			continue
		}
		s := l.Verdict + " in " + l.Channel
		if l.Period.OK {
			s += fmt.Sprintf(", period %d", l.Period.V)
		}
		if l.Cycles.OK {
			s += fmt.Sprintf(", %d cycles", l.Cycles.V)
		}
		if l.Onset.OK {
			s += fmt.Sprintf(", from character %d", l.Onset.V)
		}
		return s
	}
	return string(rec.Reason)
}
