package sim

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// stream is one request between the scheduler and the HTTP layer. It is the
// body reader that fasthttp drains: each Read sleeps until the next instant and
// returns one event, which fasthttp sends as one chunk.
//
// Only CloseWithError is implemented: fasthttp 1.78 calls Close and
// CloseWithError both on a body that has both.
type stream struct {
	srv   *Server
	job   *job
	reply *reply
	shape shape
	left  atomic.Bool // the client has gone
	rule  *LoopRule   // chosen at the first token
	fault *Fault
	timer *time.Timer

	sent    int           // pieces handed over
	begun   int           // byte at which the next piece begins
	due     time.Duration // of the pieces' step
	faulted bool          // the fault has happened
	silent  bool          // scripted: nothing more comes
	told    bool          // the shape knows of the admission
	ended   bool          // the last pieces are in reply
	err     error         // returned after the last piece instead of EOF
	written int64         // last hand-over, ns; −1 before the header
}

var (
	errGone = errors.New("sim: client gone")
	errOver = errors.New("sim: request ended from outside")
	errPing = errors.New("sim: silence")
	errCut  = errors.New("sim: scripted cut")
)

// leave wakes the stream to find that its client has gone.
func (st *stream) leave() {
	st.left.Store(true)
	st.job.poke()
}

// await sleeps until ready says so of the job. It returns errGone, errOver or
// errPing when that comes first.
func (st *stream) await(ready func(ph phase, due, now int64) bool) error {
	s := st.srv.sched
	for {
		ph, due := s.look(st.job)
		now := s.now()
		if ph == over && !st.silent {
			return errOver
		}
		if st.left.Load() {
			return errGone
		}
		if ready(ph, due, now) {
			return nil
		}
		d := time.Hour
		if ph != queued && ph != over {
			d = time.Duration(due - now)
		}
		if ping := st.srv.profile.Ping; ping > 0 && st.written >= 0 {
			if silent := time.Duration(st.written-now) + ping; silent <= 0 {
				return errPing
			} else {
				d = min(d, silent)
			}
		}
		if st.timer == nil {
			st.timer = time.NewTimer(d)
		} else {
			st.timer.Reset(d)
		}
		select {
		case <-st.timer.C:
		case <-st.job.wake:
			st.timer.Stop()
		}
	}
}

func isDue(ph phase, due, now int64) bool {
	return (ph == prefill || ph == decode) && due <= now
}

func isAdmitted(ph phase, _, _ int64) bool { return ph == prefill || ph == decode }

func (st *stream) Read(p []byte) (int, error) {
	for st.sent == len(st.reply.pieces) {
		if st.ended {
			if st.err != nil {
				return 0, st.err
			}
			return 0, io.EOF
		}
		if err := st.advance(); err != nil {
			return 0, err
		}
	}
	pc := st.reply.pieces[st.sent]
	n := copy(p, st.reply.out[st.begun:pc.end])
	st.begun += n
	if st.begun < pc.end {
		return n, nil // the piece is longer than fasthttp's buffer
	}
	st.sent++
	st.handOver(pc)
	return n, nil
}

// handOver logs that a piece leaves now.
func (st *stream) handOver(pc piece) {
	st.written = st.srv.sched.now()
	if pc.tokens > 0 {
		st.job.log.emit(time.Duration(st.written), st.due, pc.tokens)
	}
}

// advance waits for the next step and makes its pieces.
func (st *stream) advance() error {
	st.reply.reset()
	st.sent, st.begun = 0, 0
	if !st.told {
		if err := st.admitted(); err != nil || len(st.reply.pieces) > 0 {
			return err
		}
	}
	err := st.await(isDue)
	switch {
	case err == nil:
		return st.step()
	case errors.Is(err, errPing):
		st.reply.str(st.srv.comment())
		st.reply.cut(0)
		return nil
	case errors.Is(err, errOver):
		return st.endedOutside()
	}
	return err
}

func (st *stream) admitted() error {
	switch err := st.await(isAdmitted); {
	case err == nil:
	case errors.Is(err, errOver):
		return st.endedOutside()
	case errors.Is(err, errPing):
		st.reply.str(st.srv.comment())
		st.reply.cut(0)
		return nil
	default:
		return err
	}
	st.told = true
	st.reply.cached = st.job.log.copy().Cached
	st.shape.admitted(st.reply)
	return nil
}

// endedOutside closes a stream whose job was ended by an abort or a shutdown.
func (st *stream) endedOutside() error {
	s := st.srv.sched
	s.mu.Lock()
	why := st.job.end
	s.mu.Unlock()
	if why != Aborted && why != Length {
		return errOver
	}
	if st.reply.head == nil {
		st.shape.begin(st.reply)
	}
	for i := range st.reply.choices {
		if c := &st.reply.choices[i]; c.finish == "" {
			c.step, c.finish = c.step[:0], why
			st.shape.tokens(st.reply, i, why)
		}
	}
	st.shape.end(st.reply)
	st.ended = true
	return nil
}

// step makes the tokens that are due now.
func (st *stream) step() error {
	s, r := st.srv.sched, st.reply
	due, first, load, ok := s.step(st.job)
	if !ok {
		return nil // preempted or ended in between: wait again
	}
	st.due = time.Duration(due)
	if first {
		st.rule = st.srv.chooseLoops(st, load)
		st.job.log.edit(func(q *Request) { q.Running = load })
		st.shape.begin(r)
	}
	open, tokens, chunks := 0, 0, 0
	why := Stop
	for i := range r.choices {
		c := &r.choices[i]
		if c.finish != "" {
			continue
		}
		onset := c.prose.loopAt
		was := c.made
		finish := c.advance(st.srv.profile, st.rule)
		if i == 0 && onset >= 0 && was <= onset && c.made > onset {
			st.noteOnset(c)
		}
		tokens += len(c.step)
		chunks++
		if r.req.stream {
			st.shape.tokens(r, i, finish)
		} else {
			c.keep()
		}
		if finish == "" {
			open++
		} else if finish == Length {
			why = Length
		}
	}
	s.made(st.job, tokens, chunks)
	if st.broken() {
		return nil
	}
	if open == 0 {
		if r.req.stream {
			st.shape.end(r)
		}
		st.ended = true
		s.leave(st.job, why)
	}
	return nil
}

// noteOnset logs where the text began to repeat: characters before the loop.
func (st *stream) noteOnset(c *choice) {
	chars := c.chars
	for _, t := range c.step[:len(c.step)-(c.made-c.prose.loopAt)] {
		chars += len(vocabulary[t])
	}
	st.job.log.edit(func(r *Request) { r.LoopChars, r.LoopPeriod = chars, c.prose.cycle })
}

// keep stores a step's text of an answer that is sent whole.
func (c *choice) keep() {
	for _, t := range c.step {
		if c.channel == reasoned {
			c.thought = append(c.thought, vocabulary[t]...)
		} else {
			c.text = append(c.text, vocabulary[t]...)
		}
	}
}

// broken applies the request's fault when its time has come.
func (st *stream) broken() bool {
	f := st.fault
	if f == nil || st.reply.made() < f.After {
		return false
	}
	st.srv.sched.leave(st.job, Faulted)
	st.ended, st.faulted = true, true
	switch f.Kind {
	case ErrorEvent:
		st.shape.broken(st.reply, f.Message)
	case Cut:
		st.err = errCut
	case Silence:
		st.silent, st.ended = true, false
	}
	return true
}

// CloseWithError is fasthttp's word that the body is no longer wanted; err is
// nil when all of it was sent.
func (st *stream) CloseWithError(err error) error {
	if st.timer != nil {
		st.timer.Stop()
	}
	if err == nil || st.ended {
		st.srv.sched.leave(st.job, Stop) // no effect: it has left
		return nil
	}
	st.srv.gone(st.job)
	return nil
}
