package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
	"sync"
	"time"
)

// Log is the truth about a run: what every request was and when each of its
// tokens left. Times are relative to Start, which carries the monotonic clock:
// Start.Add(t) is comparable with any time.Now of the process.
// All methods are safe for concurrent use.
type Log struct {
	Start time.Time

	mu       sync.Mutex
	keep     int           // see Options.Keep
	opened   int           // requests that arrived
	unended  int           // requests that have not ended
	idle     chan struct{} // closed when unended falls to 0
	requests []*entry
	gauges   []Gauge
	totals   Totals
}

// Request is the truth about one request. A time that never came is −1.
type Request struct {
	Seq         int           `json:"seq"`           // order of arrival
	ID          string        `json:"id"`            // X-Request-Id, else rid or request_id of the body, else the engine's own
	RID         string        `json:"rid,omitempty"` // rid or request_id of the body: the name to abort it by
	Model       string        `json:"model"`
	Path        string        `json:"path"`
	Stream      bool          `json:"stream"`
	Choices     int           `json:"choices"`
	Arrived     time.Duration `json:"arrived_ns"`  // the request was read whole
	Admitted    time.Duration `json:"admitted_ns"` // last admission, when it was preempted
	FirstToken  time.Duration `json:"first_token_ns"`
	Ended       time.Duration `json:"ended_ns"`
	End         End           `json:"end"`
	Prompt      int           `json:"prompt_tokens"`
	Cached      int           `json:"cached_tokens"`
	Tokens      int           `json:"tokens"` // sum over choices
	Preemptions int           `json:"preemptions"`
	// Running is the number of sequences running at the first token.
	Running int `json:"running"`
	// Of the first choice; −1 = it was never to loop.
	LoopToken  int    `json:"loop_token"`  // tokens before the loop
	LoopChars  int    `json:"loop_chars"`  // characters before the loop; −1 until it was reached
	LoopPeriod int    `json:"loop_period"` // characters of a cycle; 0 until the loop was reached
	Emits      []Emit `json:"emits,omitempty"`
}

// Emit is one hand-over of tokens to the HTTP layer.
type Emit struct {
	At     time.Duration `json:"at_ns"`
	Due    time.Duration `json:"due_ns"` // when the schedule had it
	Tokens int32         `json:"tokens"`
	Total  int32         `json:"total"`
}

// End says why a request ended.
type End string

// The ways a request ends. Refused ones were answered with an HTTP error.
const (
	Open       End = ""
	Length     End = "length"
	Stop       End = "stop"
	ClientGone End = "client_gone"
	Aborted    End = "abort"
	Faulted    End = "fault"
	Refused    End = "refused"
	Closed     End = "shutdown"
)

// Gauge is the load from At on.
type Gauge struct {
	At       time.Duration `json:"at_ns"`
	Running  int           `json:"running"`  // sequences admitted
	Decoding int           `json:"decoding"` // of those, past their first token
	Waiting  int           `json:"waiting"`
	KVBlocks int           `json:"kv_blocks"` // in use
}

// Totals are the engine's own counters.
type Totals struct {
	Prompt      int64         `json:"prompt_tokens"` // cached ones included
	Cached      int64         `json:"cached_tokens"`
	Generated   int64         `json:"generated_tokens"`
	Chunks      int64         `json:"chunks"` // steps that made tokens, a choice
	Preemptions int64         `json:"preemptions"`
	Finished    map[End]int64 `json:"finished"`
}

// entry is a Request under construction. Its own lock keeps the token path off
// the log's.
type entry struct {
	mu sync.Mutex
	r  Request
}

func newLog(start time.Time) *Log {
	l := &Log{Start: start, idle: make(chan struct{}), totals: Totals{Finished: map[End]int64{}}}
	close(l.idle)
	return l
}

func (l *Log) open(r Request) *entry {
	r.Admitted, r.FirstToken, r.Ended = -1, -1, -1
	r.LoopToken, r.LoopChars = -1, -1
	e := &entry{r: r}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unended == 0 {
		l.idle = make(chan struct{})
	}
	l.unended++
	e.r.Seq = l.opened
	l.opened++
	l.requests = append(l.requests, e)
	return e
}

func (e *entry) edit(f func(*Request)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.r)
}

func (e *entry) copy() (r Request) {
	e.edit(func(q *Request) { r = *q })
	return r
}

func (e *entry) emit(at, due time.Duration, tokens int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.r.FirstToken < 0 {
		e.r.FirstToken = at
	}
	e.r.Tokens += tokens
	e.r.Emits = append(e.r.Emits, Emit{at, due, int32(tokens), int32(e.r.Tokens)})
}

// end notes the end of a request, whose fields are set already.
func (l *Log) end(e *entry, at time.Duration, why End) {
	e.edit(func(r *Request) { r.Ended, r.End = at, why })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Finished[why]++
	if l.unended--; l.unended == 0 {
		close(l.idle)
	}
	if ended := len(l.requests) - l.unended; l.keep > 0 && ended > 2*l.keep {
		l.forget(ended - l.keep)
	}
}

// forget drops the n oldest requests that have ended, and the gauges from
// before the oldest request that is left. The slices are made anew: readers
// may still go through the old ones.
func (l *Log) forget(n int) {
	var left []*entry
	oldest := time.Duration(math.MaxInt64)
	for _, e := range l.requests {
		r := e.copy()
		if n > 0 && r.End != Open {
			n--
			continue
		}
		left = append(left, e)
		oldest = min(oldest, r.Arrived)
	}
	l.requests = left
	i := sort.Search(len(l.gauges), func(i int) bool { return l.gauges[i].At >= oldest })
	l.gauges = append([]Gauge(nil), l.gauges[max(0, i-1):]...)
}

// Idle waits until every request that arrived has ended, or for ctx.
func (l *Log) Idle(ctx context.Context) error {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("sim: requests still open: %w", ctx.Err())
	}
}

func (l *Log) gauge(g Gauge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.gauges); n > 0 && l.gauges[n-1].At == g.At {
		l.gauges[n-1] = g
		return
	}
	l.gauges = append(l.gauges, g)
}

func (l *Log) count(f func(*Totals)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.totals)
}

// Requests returns copies of all requests in order of arrival. The emits are
// shared with the log and must not be changed.
func (l *Log) Requests() []Request {
	l.mu.Lock()
	entries := l.requests[:len(l.requests):len(l.requests)]
	l.mu.Unlock()
	out := make([]Request, len(entries))
	for i, e := range entries {
		out[i] = e.copy()
	}
	return out
}

// Gauges returns the changes of the load in order of time.
func (l *Log) Gauges() []Gauge {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Gauge(nil), l.gauges...)
}

// Totals returns the counters.
func (l *Log) Totals() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.totals
	t.Finished = map[End]int64{}
	for k, v := range l.totals.Finished {
		t.Finished[k] = v
	}
	return t
}

// Mean returns the time averages of a gauge over [from, to).
func (l *Log) Mean(from, to time.Duration, value func(Gauge) int) float64 {
	var area float64
	g := l.Gauges()
	for i, x := range g {
		until := to
		if i+1 < len(g) {
			until = min(to, g[i+1].At)
		}
		if begin := max(from, x.At); until > begin {
			area += float64(until-begin) * float64(value(x))
		}
	}
	return area / float64(to-from)
}

// Tokens returns how many tokens left in [from, to).
func (l *Log) Tokens(from, to time.Duration) int {
	n := 0
	for _, r := range l.Requests() {
		for _, e := range r.Emits {
			if e.At >= from && e.At < to {
				n += int(e.Tokens)
			}
		}
	}
	return n
}

// WriteJSON writes the log as one object {start, requests, gauges, totals}.
func (l *Log) WriteJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(struct {
		Start    time.Time `json:"start"`
		Requests []Request `json:"requests"`
		Gauges   []Gauge   `json:"gauges"`
		Totals   Totals    `json:"totals"`
	}{l.Start, l.Requests(), l.Gauges(), l.Totals()})
}
