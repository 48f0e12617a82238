package loadgen

import (
	"context"
	"fmt"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// prime makes the cell's prompts and fills the server's prompt cache with their
// heads, by one-token requests: the one text of --prefix shared, or each slot's
// in turn. It also learns how long a warm first token takes, which bounds the
// wait for readiness.
func (c *cell) prime(ctx context.Context) ([]*template, *verdict) {
	words, err := c.r.words(ctx, c.step.Prompt, c.r.promptLimit(c.r.cfg.MaxTokens))
	if err != nil {
		return nil, lengthVerdict(err)
	}
	heads, gen := 1, genShared
	if c.r.cfg.Prefix == Distinct {
		heads, gen = c.step.Concurrency, genDistinct
	}
	c.r.stage(Priming, 0)
	var tmpls []*template
	var warm time.Duration    // for the whole burst, one after the other
	l := c.r.newLane(&lags{}) // a prime is no stream of the cell
	for i := range heads {
		head := c.r.prompts.head(words, c.step.Context, gen+i)
		t, err := c.r.template(head, c.r.cfg.MaxTokens, false)
		if err != nil {
			return nil, &verdict{matrix.Failed, "request", err.Error(), true}
		}
		tmpls = append(tmpls, t)
		p, err := c.r.template(head, 1, false)
		if err != nil {
			return nil, &verdict{matrix.Failed, "request", err.Error(), true}
		}
		out := c.r.primeShot(ctx, l, p, c.step, fmt.Sprintf("%s-c%d-p%d", c.r.runID, c.n, i), i)
		out.rec.Concurrency = 0 // of no cell: it is not one of its streams
		c.primes = append(c.primes, *out.rec)
		if err := context.Cause(ctx); err != nil {
			return nil, &verdict{matrix.Interrupted, interruption(err), err.Error(), false}
		}
		if v := primeVerdict(&out, c.r.deps.Target); v != nil {
			return nil, v
		}
		warm += time.Duration(out.rec.TTFTNS.V)
	}
	if heads == 1 {
		warm *= time.Duration(c.step.Concurrency)
	}
	c.ready = max(time.Minute, 3*warm)
	c.ttft = c.r.cfg.burstTimeout(c.step.Prompt, c.ready)
	return tmpls, nil
}

// primeTries bounds how often a busy server is asked again.
const primeTries = 3

// primeShot sends a one-token request behind a head. A server that is busy (429,
// 503) is given the time it asks for.
func (r *runner) primeShot(ctx context.Context, l *lane, t *template, step Step, id string, i int) outcome {
	r.drained = false
	l.body = t.append(l.body[:0], r.prompts.primeTail(step.Context, i), id)
	out := l.run(ctx, shot{id: id, ttft: r.cfg.ttftTimeout(step.Prompt), do: r.client.Do})
	for try := 1; try < primeTries && out.busy() && sleep(ctx, max(out.retryAfter, time.Second)); try++ {
		out = l.run(ctx, shot{id: id, ttft: r.cfg.ttftTimeout(step.Prompt), do: r.client.Do})
	}
	out.rec.ID, out.rec.Phase, out.rec.Context, out.rec.Concurrency, out.rec.Slot = id, stream.Prime, step.Context, 1, i
	return out
}

// primeVerdict says why the cell cannot run when its prime failed.
func primeVerdict(out *outcome, at *engine.Target) *verdict {
	if out.rec.End != stream.Failed {
		return nil
	}
	if v := refused(out, at); v != nil {
		return v
	}
	return &verdict{matrix.Failed, "prime", "the one-token request before the cell failed: " + out.why(), false}
}

// promptLimit is the longest prompt that leaves room for the reply, 0 unknown.
func (r *runner) promptLimit(maxTokens int) int {
	if r.plan.Limit == 0 {
		return 0
	}
	return max(r.plan.Limit-maxTokens, 1)
}

// maxPrefillTries bounds the samples of a row whose salts the server turns out
// to know from an earlier run with the same seed.
const maxPrefillTries = 12

// prefill measures one prefill row: cold one-token requests, one at a time, each
// with a fresh salt, until there are enough samples or time is up. The first is
// the text that the context's cells share, so it is also their first prime.
func (r *runner) prefill(ctx context.Context, step Step, n int) (matrix.Cell, []stream.Record, error) {
	blank := r.blank(step)
	if v := r.barrier(ctx); v != nil {
		blank.Raise(v.status, v.reason, v.message)
		return blank, nil, v.err()
	}
	words, err := r.words(ctx, step.Prompt, r.promptLimit(1))
	if err != nil && ctx.Err() == nil {
		v := lengthVerdict(err)
		blank.Raise(v.status, v.reason, v.message)
		return blank, nil, v.err()
	}
	var records []stream.Record
	var stop *verdict
	var own lags
	l := r.newLane(&own)
	defer l.release()
	r.stage(Priming, 0)
	r.gauges([]*gauge{&l.live})
	begin, cold := stamp.Now(), 0
	for i := 0; cold < r.cfg.PrefillSamples && i < maxPrefillTries && ctx.Err() == nil; i++ {
		if i > 0 && stamp.Now().Sub(begin) >= r.cfg.PrefillTime {
			break
		}
		t, err := r.template(r.prompts.head(words, step.Context, genShared+i), 1, true)
		if err != nil {
			blank.Raise(matrix.Failed, "request", err.Error())
			return blank, records, err
		}
		out := r.primeShot(ctx, l, t, step, fmt.Sprintf("%s-c%d-p%d", r.runID, n, i), i)
		out.rec.Slot, out.rec.Seq = 0, i
		if out.rec.End != stream.Cancelled {
			records = append(records, *out.rec)
		}
		if stop = primeVerdict(&out, r.deps.Target); stop != nil {
			break
		}
		if !cachedSample(out.rec) {
			cold++
		}
	}
	r.join(ctx, records)
	if err := context.Cause(ctx); err != nil {
		blank.Raise(matrix.Interrupted, interruption(err), "the run was ended before the row was measured")
		return blank, records, err
	}
	if stop != nil && (cold == 0 || stop.fatal) {
		blank.Streams, blank.FailedStreams = len(records), 1
		blank.Raise(stop.status, stop.reason, stop.message)
		return blank, records, stop.err()
	}
	c := matrix.FoldPrefill(step.Context, records)
	c.Repeat = step.Repeat
	l.lags.flush()
	own.judge(&c, usage{}, usage{}, 0)
	return c, records, nil
}

// cachedSample reports whether the server took the prompt from its cache.
func cachedSample(rec *stream.Record) bool {
	return rec.CachedTokens.OK && rec.PromptTokens.OK && 100*rec.CachedTokens.V >= rec.PromptTokens.V && rec.CachedTokens.V > 0
}
