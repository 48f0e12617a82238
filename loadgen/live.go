package loadgen

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
)

// Stage is what a run is doing.
type Stage string

const (
	Probing     Stage = "probing"     // what the server is and takes
	Calibrating Stage = "calibrating" // growing a prompt to its length
	Draining    Stage = "draining"    // waiting for the server to be idle
	Priming     Stage = "priming"     // filling the prompt cache, and prefill samples
	Connecting  Stage = "connecting"
	Starting    Stage = "starting" // waiting for every slot's first token
	Settling    Stage = "settling"
	Measuring   Stage = "measuring" // the window is open
	Closing     Stage = "closing"
	Finished    Stage = "finished"
)

// Event tells a front end that something happened. It is delivered by the
// goroutine that runs the plan, never by one that measures, and holds it up
// until the receiver returns.
type Event struct {
	Step    Step
	N, Of   int // the step's number, from 1, and how many there are
	Stage   Stage
	Cell    *matrix.Cell // set once, when the step is done
	Message string       // a remark for people; "" mostly
}

// Snapshot is the state of the current cell.
type Snapshot struct {
	Step     Step
	N, Of    int
	Stage    Stage
	Active   int     // streams with a request under way
	Decoding int     // of those, between first token and end
	Tokens   int64   // of the cell so far
	TokS     float64 // since the Snapshot before
	Loops    int     // streams retired
	Failed   int
	Left     time.Duration // of the stage, where it has a fixed length; else 0
}

// Live is the state of a run for screens. Reading it costs the measurement
// nothing but the cache line of a few atomics a slot. The zero Live is usable;
// give it to one Run.
type Live struct {
	now atomic.Pointer[liveCell]

	mu     sync.Mutex // of those who look
	cell   *liveCell
	tokens int64
	at     stamp.Instant
}

type liveCell struct {
	step  Step
	n, of int
	slots []*gauge
	stage Stage
	until stamp.Instant // 0: open
}

// gauge is the live state of one slot, written by its goroutine alone and kept
// on cache lines of its own.
type gauge struct {
	_       [64]byte
	open    atomic.Bool
	firstAt atomic.Int64 // instant of the slot's first token in this cell; 0: none yet
	lastAt  atomic.Int64 // instant of the last generated event of the open stream; 0: none yet
	tokens  atomic.Int64
	loops   atomic.Int32
	failed  atomic.Int32
	_       [64]byte
}

// Snapshot reads the current state. Safe from any goroutine.
func (l *Live) Snapshot() Snapshot {
	c := l.now.Load()
	if c == nil {
		return Snapshot{Stage: Probing}
	}
	s := Snapshot{Step: c.step, N: c.n, Of: c.of, Stage: c.stage}
	for _, g := range c.slots {
		if g.open.Load() {
			s.Active++
			if g.lastAt.Load() != 0 {
				s.Decoding++
			}
		}
		s.Tokens += g.tokens.Load()
		s.Loops += int(g.loops.Load())
		s.Failed += int(g.failed.Load())
	}
	now := stamp.Now()
	if c.until > now {
		s.Left = c.until.Sub(now)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cell != nil && l.cell.n == c.n && now > l.at {
		s.TokS = float64(s.Tokens-l.tokens) / now.Sub(l.at).Seconds()
	}
	l.cell, l.tokens, l.at = c, s.Tokens, now
	return s
}

// set publishes a new stage of a cell.
func (l *Live) set(c liveCell) { l.now.Store(&c) }
