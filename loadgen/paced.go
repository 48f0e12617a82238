package loadgen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// Arrival says how the sends of a rate follow one another.
type Arrival string

const (
	Poisson  Arrival = "poisson"  // independently: the waits are exponential
	Constant Arrival = "constant" // evenly
)

// DefaultMaxOpen bounds the open streams of paced load.
const DefaultMaxOpen = 1024

// Pace is a stretch of paced load.
type Pace struct {
	Rate float64 // requests a second
	For  time.Duration
}

// arrivals yields the instants of a stage's sends as offsets from its beginning,
// in order and all below its length.
func (s Pace) arrivals(how Arrival, rng *rand.Rand) func() (time.Duration, bool) {
	var at float64 // seconds
	n := 0
	return func() (time.Duration, bool) {
		if how == Constant {
			at = float64(n) / s.Rate
			n++
		} else {
			at += rng.ExpFloat64() / s.Rate
		}
		d := time.Duration(at * float64(time.Second))
		return d, d < s.For && at < s.For.Seconds()
	}
}

// pacedHeader is the settings of paced load for the run file, nil without it.
func (c Config) pacedHeader() *matrix.PacedConfig {
	if !c.paced() {
		return nil
	}
	h := &matrix.PacedConfig{Rates: c.Rates, Arrival: string(c.Arrival), MaxOpen: c.MaxOpen}
	for _, s := range c.Stages {
		h.Stages = append(h.Stages, matrix.StageConfig{Rate: s.Rate, LengthS: s.For.Seconds()})
	}
	return h
}

// leadIn marks the sends before the first stage's window.
const leadIn = -1

// sending is one request of paced load.
type sending struct {
	life
	stage    int           // leadIn, or the stage in whose window it was intended
	intended stamp.Instant // chosen beforehand
	left     stamp.Instant // when a lane took it up
}

// stageRun is a stage under way.
type stageRun struct {
	Pace
	window   window
	from, to usage
	watch    *watch
	intended int
	dropped  int
	begun    bool
}

// paced runs the stages of one step, one after the other without a pause. It
// shares the cell's prime, ids, aborts and verdicts.
type paced struct {
	*cell
	tmpl   *template
	stages []stageRun
	free   chan int // lanes that are idle
	lanes  []*pacedLane
	gauges []*gauge
	seq    int
	fails  atomic.Int32 // in a row
	lead   int          // dropped before the first window
}

// pacedLane is a lane and what it has sent.
type pacedLane struct {
	*lane
	sent []*sending
}

// result is a cell and its records.
type result struct {
	cell    matrix.Cell
	records []stream.Record
}

// paced runs a step of phase Offered. There is a result for each stage.
func (r *runner) paced(ctx context.Context, step Step, n int) ([]result, error) {
	p := &paced{
		cell: &cell{
			r: r, step: step, n: n, start: make(chan struct{}), over: make(chan struct{}),
			current: make([]atomic.Pointer[string], step.Concurrency), hasLooped: make([]atomic.Bool, 1),
		},
		free: make(chan int, step.Concurrency),
	}
	for _, s := range step.Load {
		p.stages = append(p.stages, stageRun{Pace: s})
	}
	if v := r.barrier(ctx); v != nil {
		return p.unmeasured(ctx, *v)
	}
	tmpls, v := p.prime(ctx)
	if v != nil {
		return p.unmeasured(ctx, *v)
	}
	p.tmpl = tmpls[0]
	p.ttft = r.cfg.burstTimeout(step.Prompt, time.Minute)
	p.drive(ctx)
	if v := p.verdict.Load(); ctx.Err() == nil && (v == nil || !v.fatal) {
		p.undrained = r.barrier(ctx)
	}
	return p.fold(ctx)
}

// unmeasured is the result of a verdict that came before the first send.
func (p *paced) unmeasured(ctx context.Context, v verdict) ([]result, error) {
	c, records, err := p.cell.unmeasured(ctx, v)
	out := []result{{c, records}}
	out[0].cell.Offered = p.load(0)
	return append(out, p.skipped(1)...), err
}

// skipped are the cells of the stages from i on, none of which was begun.
func (p *paced) skipped(i int) []result {
	var out []result
	for ; i < len(p.stages); i++ {
		c := p.r.blank(p.step)
		c.Offered = p.load(i)
		c.Raise(matrix.Skipped, "stage", "the stages before it ended the load")
		out = append(out, result{cell: c})
	}
	return out
}

// load is what a stage offers, before anything was sent.
func (p *paced) load(stage int) *matrix.OfferedLoad { return p.step.Cells()[stage].Offered }

// drive sends, from the lead-in to the end of the last stage, and ends what is
// then open.
func (p *paced) drive(ctx context.Context) {
	streams, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var wg sync.WaitGroup
	// One source for the whole step: the same seed offers the same load.
	rng := rand.New(rand.NewPCG(p.r.cfg.Seed, uint64(p.step.Context)<<16|uint64(p.step.Repeat)))
	p.began = stamp.Now()
	open := p.began.Add(p.r.cfg.Settle)
	p.r.stage(Settling, open)
	if p.send(ctx, streams, &wg, Pace{p.stages[0].Rate, p.r.cfg.Settle}, p.began, leadIn, rng) && p.wait(ctx, open) {
		for i := range p.stages {
			s := &p.stages[i]
			s.begun, s.from = true, takeUsage()
			s.window = window{open: open, end: open.Add(s.For)}
			if open = s.window.end; !p.stage(ctx, streams, &wg, i, rng) {
				break
			}
		}
	}
	p.r.stage(Closing, 0)
	p.closing.Store(true)
	p.abortAll()
	if err := context.Cause(ctx); err != nil {
		end(err)
	} else {
		end(errClosed)
	}
	wg.Wait()
	p.aborts.Wait()
	for _, l := range p.lanes {
		l.release()
	}
}

// stage sends one stage's requests and waits for its end; false: the load or the
// run was ended first.
func (p *paced) stage(ctx, streams context.Context, wg *sync.WaitGroup, i int, rng *rand.Rand) bool {
	s := &p.stages[i]
	p.r.stage(Measuring, s.window.end)
	s.watch = p.r.newWatch()
	watching, stop := context.WithCancel(ctx)
	var scrapes sync.WaitGroup
	scrapes.Go(func() { s.watch.run(watching, s.window.end) })
	ok := p.send(ctx, streams, wg, s.Pace, s.window.open, i, rng) && p.wait(ctx, s.window.end)
	if !ok {
		s.window.end = min(s.window.end, stamp.Now())
	}
	s.to = takeUsage()
	stop()
	scrapes.Wait()
	return ok
}

// send starts a stage's requests at their instants, counted from begin.
func (p *paced) send(ctx, streams context.Context, wg *sync.WaitGroup, s Pace, begin stamp.Instant, stage int, rng *rand.Rand) bool {
	next := s.arrivals(p.r.cfg.Arrival, rng)
	for {
		at, ok := next()
		if !ok {
			return true
		}
		intended := begin.Add(at)
		if !p.wait(ctx, intended) {
			return false
		}
		p.one(streams, wg, intended, stage)
	}
}

// one hands a request to a lane, or drops it when none is free.
func (p *paced) one(streams context.Context, wg *sync.WaitGroup, intended stamp.Instant, stage int) {
	seq := p.seq
	p.seq++
	if stage != leadIn {
		p.stages[stage].intended++
	}
	var i int
	select {
	case i = <-p.free:
	default:
		if len(p.lanes) == p.step.Concurrency {
			if stage == leadIn {
				p.lead++
			} else {
				p.stages[stage].dropped++
			}
			return
		}
		i = len(p.lanes)
		l := &pacedLane{lane: p.r.newLane(&p.lags)}
		p.lanes, p.gauges = append(p.lanes, l), append(p.gauges, &l.live)
		p.r.gauges(p.gauges)
	}
	l := p.lanes[i]
	wg.Go(func() {
		p.run(streams, l, i, seq, intended, stage)
		p.free <- i
	})
}

// run sends one request and books how it ended.
func (p *paced) run(ctx context.Context, l *pacedLane, i, seq int, intended stamp.Instant, stage int) {
	id := p.id(0, seq)
	s := &sending{stage: stage, intended: intended, left: stamp.Now()}
	l.body = p.tmpl.append(l.body[:0], p.r.prompts.tail(p.step.Context, p.step.Concurrency, p.step.Repeat, 0, seq), id)
	p.current[i].Store(&id)
	out := l.lane.run(ctx, shot{id: id, ttft: p.ttft, do: p.r.client.Do, closing: &p.closing, retire: p.retire(id)})
	p.current[i].Store(nil)
	out.rec.ID, out.rec.Slot, out.rec.Seq = id, i, seq
	out.rec.Context, out.rec.Concurrency = p.step.Context, p.step.Concurrency
	out.rec.IntendedNS = stream.Some(int64(intended - p.r.start))
	s.life = out.life
	s.detach()
	l.sent = append(l.sent, s)
	p.book(&out)
}

// failsInARow ends paced load whose requests all fail: it would only go on to
// knock at a closed door.
const failsInARow = 50

// book looks whether an ending means that the load is over.
func (p *paced) book(out *outcome) {
	switch out.rec.End {
	case stream.Failed, stream.Truncated:
	case stream.Looped:
		p.fails.Store(0)
		if p.r.cfg.OnLoop == Discard {
			p.give(verdict{matrix.Looped, "loop_discarded", "a stream looped: " + loopEvidence(out.rec) + "; --on-loop=discard leaves no numbers", false})
		}
		return
	default:
		p.fails.Store(0)
		return
	}
	n := int(p.fails.Add(1))
	switch v := refused(out, p.r.deps.Target); {
	case v != nil && (!out.refused || n >= refusedTries):
		p.give(*v)
	case n >= failsInARow:
		p.give(verdict{matrix.Failed, "streams_failed", fmt.Sprintf("%d streams failed in a row: %s", n, out.why()), false})
	}
}

// fold turns what was sent into a cell and records for each stage. The prime's
// record and those of the lead-in go with the first.
func (p *paced) fold(ctx context.Context) ([]result, error) {
	var all []*sending
	for _, l := range p.lanes {
		all = append(all, l.sent...)
	}
	slices.SortFunc(all, func(a, b *sending) int { return a.rec.Seq - b.rec.Seq })
	lives := make([]*life, len(all))
	for i, s := range all {
		lives[i] = &s.life
	}
	if p.r.proxy != nil {
		p.r.proxy.join(ctx, lives)
	}
	counted := settleCounts(lives)
	cause, v := context.Cause(ctx), p.verdict.Load()
	var out []result
	for i := range p.stages {
		s := &p.stages[i]
		length := s.window.end.Sub(s.window.open)
		last := i == len(p.stages)-1 || !p.stages[i+1].begun
		var c matrix.Cell
		switch {
		case !s.begun && i > 0:
			return append(out, p.skipped(i)...), p.why(cause)
		case v != nil && last:
			c = p.r.blank(p.step)
			c.Offered = p.load(i)
			c.Offered.Intended, c.Offered.Dropped = s.intended, s.dropped
			c.Raise(v.status, v.reason, v.message)
		case cause != nil && last && length < minPartial:
			c = p.r.blank(p.step)
			c.Offered = p.load(i)
			c.Raise(matrix.Interrupted, interruption(cause), "the run was ended before the window had a second")
		default:
			c = p.numbers(i, all, lives)
			if cause != nil && last {
				c.Raise(matrix.Interrupted, interruption(cause), fmt.Sprintf(
					"the run was ended %.1f s into the window of %v; the numbers are those of the time measured", length.Seconds(), s.For))
			}
		}
		if counted.scaled > 0 {
			c.Warn("usage_final_aborted", fmt.Sprintf(
				"%d streams were cut short before the server told their count: %.4g tokens an event are assumed, as in the completed streams", counted.scaled, counted.perEvent))
		}
		if counted.estimated > 0 {
			c.Warn("tokens_estimated", fmt.Sprintf("%d streams tell no token count: one token an event is assumed", counted.estimated))
		}
		if p.undrained != nil && last {
			c.Warn("drain", p.undrained.message)
		}
		out = append(out, result{c, p.records(i, all)})
	}
	return out, p.why(cause)
}

// why is the error that ends the run, if it is to end.
func (p *paced) why(cause error) error {
	if cause != nil {
		return cause
	}
	return p.fatal()
}

// numbers folds one stage: every stream that was open in its window is looked at.
func (p *paced) numbers(stage int, all []*sending, lives []*life) matrix.Cell {
	s := &p.stages[stage]
	load := p.load(stage)
	load.Intended, load.Dropped = s.intended, s.dropped
	var gaps, lag hist.H
	in := matrix.DecodeInput{
		Context: p.step.Context, Concurrency: p.step.Concurrency, Repeat: p.step.Repeat, Gaps: &gaps,
		OpenNS: int64(s.window.open - p.r.start), Duration: s.window.end.Sub(s.window.open),
		Discard: p.r.cfg.OnLoop == Discard, MaxTokens: p.r.cfg.MaxTokens, MaxFailed: p.r.cfg.MaxFailed,
	}
	generated := 0
	for _, d := range all {
		rec := *d.rec
		part := stream.WindowOf(d.log, s.window.edges(&d.life))
		rec.Window = &part
		in.Records = append(in.Records, rec)
		s.window.gaps(&gaps, &d.life)
		generated += len(d.log)
		if d.stage != stage {
			continue
		}
		late := d.left.Sub(d.intended)
		lag.Record(int64(late))
		if late > matrix.LateAfter {
			load.Late++
		}
	}
	load.SendLag = matrix.QuantilesOf(&lag)
	c := matrix.FoldOffered(in, *load)
	if c.HasNumbers() {
		c.PerSecond = s.window.perSecond(lives)
		c.CI95 = matrix.CI95(c.PerSecond)
	}
	s.watch.tell(&c)
	s.window.bursts(lives).warn(&c)
	p.lags.judge(&c, s.from, s.to, generated)
	return c
}

// records are those of a stage, their window parts by its window.
func (p *paced) records(stage int, all []*sending) []stream.Record {
	s := &p.stages[stage]
	var out []stream.Record
	if stage == 0 {
		out = p.primes
	}
	for _, d := range all {
		if d.stage != stage && (stage > 0 || d.stage != leadIn) {
			continue
		}
		d.rec.Phase = stream.InWin
		if d.stage == leadIn {
			d.rec.Phase = stream.Warmup
		}
		if s.begun {
			part := stream.WindowOf(d.log, s.window.edges(&d.life))
			d.rec.Window = &part
		}
		if p.r.cfg.Events {
			d.rec.EventLog = stream.EventLog(d.log, d.sent)
		}
		out = append(out, *d.rec)
	}
	return out
}
