package sim

import (
	"slices"
	"sync"
	"time"
)

// scheduler is the engine's loop without a loop: it keeps for every running
// job the absolute instant of its next step, and changes those instants only
// when the number of running sequences changes. All times are nanoseconds
// since start on the monotonic clock.
//
// A step's duration D depends on the load. A job has done the share frac of
// its step at the instant anchor, hence due = anchor + (1 − frac)·D; a change
// of load at t moves anchor to t and adds (t − anchor)/D to frac. A change that
// is undone at the same instant (a stream ends, its client starts the next at
// once) has no effect on the others. There is no queueing of late steps: a
// reader that was held up finds its steps due and catches up.
type scheduler struct {
	p     Profile
	mean  float64 // tokens per chunk
	start time.Time
	log   *Log

	mu       sync.Mutex
	cache    *cache
	waiting  []*job
	running  []*job // in order of admission
	load     int    // sequences running
	cold     int    // jobs in prefill with coldTokens or more to compute
	decoding int    // sequences past their first token
	closed   bool
}

// coldTokens is the amount of uncached prompt from which prefills compete for
// the device: k of them at once each run at 1/k of the speed. Smaller ones ride
// along in the batch, and the TTFT surface holds their cost.
const coldTokens = 1024

type phase uint8

const (
	queued phase = iota
	prefill
	decode
	over
)

// job is a request as the scheduler sees it.
type job struct {
	log      *entry
	n        int // sequences (choices)
	prompt   int // tokens
	prefixes []uint64
	noCache  bool

	// Guarded by the scheduler's lock.
	phase    phase
	end      End // set with over
	lease    *lease
	blocks   int // held
	cached   int // tokens found in the cache at admission
	uncached int
	isCold   bool
	made     int // tokens of all choices
	started  bool
	anchor   int64
	dur      float64
	frac     float64
	due      int64

	wake chan struct{} // capacity 1: due or phase changed
}

func newScheduler(p Profile, start time.Time) *scheduler {
	return &scheduler{
		p: p, mean: p.chunkMean(), start: start, log: newLog(start),
		cache: newCache(p.KVTokens / p.BlockSize),
	}
}

func (s *scheduler) now() int64 { return int64(time.Since(s.start)) }

// enter queues a job that arrived at the instant at.
func (s *scheduler) enter(j *job, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		j.phase, j.end = over, Closed
		s.log.end(j.log, time.Duration(at), Closed)
		return
	}
	s.waiting = append(s.waiting, j)
	s.admit(at)
	s.changed(s.now())
}

// admit moves jobs from the queue's head while they fit.
func (s *scheduler) admit(at int64) {
	for len(s.waiting) > 0 {
		j := s.waiting[0]
		if s.load+j.n > s.p.MaxRunning || !s.take(j) {
			return
		}
		s.waiting = s.waiting[1:]
		s.running = append(s.running, j)
		s.load += j.n
		j.phase = prefill
		if j.isCold = j.uncached >= coldTokens; j.isCold {
			s.cold++
		}
		j.anchor, j.frac, j.dur = at, 0, 0 // timed by changed
		j.log.edit(func(r *Request) {
			r.Admitted = time.Duration(at)
			r.Cached = j.cached
		})
		if !j.started {
			s.log.count(func(t *Totals) { t.Prompt += int64(j.prompt); t.Cached += int64(j.cached) })
		}
	}
}

// take gives the job its blocks. At least one prompt token is always computed,
// so a prompt that is cached whole computes its last block again.
func (s *scheduler) take(j *job) bool {
	size := s.p.BlockSize
	var hits []uint64
	if !j.noCache {
		hits = j.prefixes[:s.cache.hits(j.prefixes)]
	}
	if len(hits)*size >= j.prompt && len(hits) > 0 {
		hits = hits[:len(hits)-1]
	}
	total := (j.prompt + j.made + j.n + size - 1) / size
	l, ok := s.cache.admit(hits, total-len(hits))
	if !ok {
		return false
	}
	j.lease, j.blocks = l, total
	j.cached = len(hits) * size
	j.uncached = j.prompt + j.made - j.cached
	return true
}

// changed brings every running job to the present load and notes the gauges.
func (s *scheduler) changed(now int64) {
	for _, j := range s.running {
		s.retime(j, now)
	}
	s.gauge(now)
}

func (s *scheduler) gauge(now int64) {
	waiting := 0
	for _, j := range s.waiting {
		waiting += j.n
	}
	s.log.gauge(Gauge{time.Duration(now), s.load, s.decoding, waiting, s.cache.used()})
}

func (s *scheduler) retime(j *job, now int64) {
	d := s.duration(j)
	if d == j.dur {
		return
	}
	if j.dur > 0 {
		if j.due <= now {
			return // due already; its reader has not come yet
		}
		if now > j.anchor {
			j.frac += float64(now-j.anchor) / j.dur
			j.anchor = now
		}
	}
	j.dur = d
	j.due = j.anchor + int64((1-j.frac)*d+0.5)
	j.poke()
}

func (s *scheduler) duration(j *job) float64 {
	if j.phase == decode {
		return s.p.Speed.TBT.At(j.prompt, s.load) * s.mean
	}
	compute := s.p.Speed.Prefill.At(j.uncached)
	if j.isCold {
		compute *= float64(s.cold)
	}
	return max(s.p.Speed.TTFT.At(j.prompt, s.load), compute)
}

func (j *job) poke() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// look returns the job's phase and the instant of its next step.
func (s *scheduler) look(j *job) (phase, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return j.phase, j.due
}

// step ends the step that is due and begins the next one. It returns the
// instant at which the step was due, whether it was the first one, and the load.
func (s *scheduler) step(j *job) (due int64, first bool, load int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.phase != prefill && j.phase != decode {
		return 0, false, 0, false
	}
	due, first = j.due, !j.started
	if j.phase == prefill {
		j.phase, j.started = decode, true
		s.decoding += j.n
		if !j.noCache {
			s.cache.computed(j.lease, j.prefixes[j.cached/s.p.BlockSize:])
		}
		if j.isCold {
			j.isCold = false
			s.cold--
			s.changed(s.now()) // the other cold prefills run faster now
		} else {
			s.gauge(s.now())
		}
	}
	j.anchor, j.frac = due, 0
	j.dur = s.duration(j)
	j.due = due + int64(j.dur+0.5)
	return due, first, s.load, true
}

// made books tokens of a step: the KV cache grows by them. When no block is
// left, the sequence admitted last gives up its own and queues again, first.
func (s *scheduler) made(j *job, tokens, chunks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.count(func(t *Totals) { t.Generated += int64(tokens); t.Chunks += int64(chunks) })
	if j.phase != decode {
		return
	}
	j.made += tokens
	for j.blocks*s.p.BlockSize < j.prompt+j.made {
		if s.cache.grow(j.lease) {
			j.blocks++
			continue
		}
		if len(s.running) == 1 {
			s.leaveLocked(j, Length) // the context does not fit the cache at all
			return
		}
		victim := s.running[len(s.running)-1]
		s.preempt(victim)
		if victim == j {
			return
		}
	}
}

func (s *scheduler) preempt(j *job) {
	s.drop(j)
	j.phase = queued
	s.waiting = slices.Insert(s.waiting, 0, j)
	s.log.count(func(t *Totals) { t.Preemptions++ })
	j.log.edit(func(r *Request) { r.Preemptions++ })
	s.changed(s.now())
}

// drop takes a job out of the running ones.
func (s *scheduler) drop(j *job) {
	i := slices.Index(s.running, j)
	s.running = slices.Delete(s.running, i, i+1)
	s.load -= j.n
	if j.phase == decode {
		s.decoding -= j.n
	}
	if j.isCold {
		j.isCold = false
		s.cold--
	}
	s.cache.release(j.lease)
	j.lease, j.blocks = nil, 0
}

// leave ends a job, once; later calls have no effect.
func (s *scheduler) leave(j *job, why End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(j, why)
}

func (s *scheduler) leaveLocked(j *job, why End) {
	switch j.phase {
	case over:
		return
	case queued:
		s.waiting = slices.DeleteFunc(s.waiting, func(x *job) bool { return x == j })
	default:
		s.drop(j)
	}
	j.phase, j.end = over, why
	now := s.now()
	s.log.end(j.log, time.Duration(now), why)
	s.admit(now)
	s.changed(now)
	j.poke()
}

// abort ends the jobs that match and returns how many there were.
func (s *scheduler) abort(why End, match func(*job) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, j := range slices.Concat(s.waiting, s.running) {
		if match(j) {
			s.leaveLocked(j, why)
			n++
		}
	}
	return n
}

// close ends all jobs and refuses new ones.
func (s *scheduler) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.abort(Closed, func(*job) bool { return true })
}

// flush empties the prompt cache, or reports false when requests run or wait.
func (s *scheduler) flush() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running)+len(s.waiting) > 0 {
		return false
	}
	s.cache.flush()
	return true
}

// status is the load as the engine's own endpoints tell it.
type status struct {
	running, waiting, decoding int
	usedBlocks, blocks         int
	totals                     Totals
}

func (s *scheduler) status() status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := status{running: s.load, decoding: s.decoding, usedBlocks: s.cache.used(), blocks: s.cache.capacity}
	for _, j := range s.waiting {
		st.waiting += j.n
	}
	st.totals = s.log.Totals()
	return st
}
