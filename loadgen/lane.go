package loadgen

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
	"github.com/streamgauge/streamgauge/wire"
)

// Sizes of a lane's read buffer. What a small one leaves behind of a read has
// the same kernel stamp when it is read next, so nothing is lost but a call. A
// stamp of our own would be another one, and bytes that came together would seem
// to have come one after the other: then the buffer must hold a whole backlog.
const (
	readSize     = 2 << 10
	readSizeUser = 32 << 10
	maxErrorBody = 64 << 10
)

// lane runs one request at a time and measures it. Its memory is reused from
// request to request; no two goroutines share a lane.
type lane struct {
	r     *runner
	meter *stream.Meter
	buf   []byte
	body  []byte
	live  gauge
	lags  lagNotes
}

// newLane returns a lane that files its lags to l.
func (r *runner) newLane(l *lags) *lane {
	return &lane{r: r, meter: stream.NewMeter(r.meterOptions()), buf: make([]byte, readSize), lags: lagNotes{to: l}}
}

// release gives up the lane's memory once its last stream has ended.
func (n *lane) release() {
	n.lags.flush()
	n.meter, n.buf, n.body = nil, nil, nil
}

func (r *runner) meterOptions() stream.Options {
	return stream.Options{
		Dialect:   wire.ForPath([]byte(engine.EndpointPath(r.cfg.Endpoint))),
		Limits:    r.cfg.Limits,
		MaxLog:    max(stream.DefaultMaxLog, 2*r.cfg.MaxTokens),
		StoreText: true, // the prompts are ours, so are the replies
	}
}

// shot is one request to measure. Its body is the lane's.
type shot struct {
	id   string
	ttft time.Duration // longest wait for the first token
	do   func(context.Context, *upstream.Request) (*upstream.Response, error)
	// closing, when set, says that whatever ends the stream now is our doing:
	// an engine told to abort ends it politely.
	closing *atomic.Bool
	// retire, if not nil, takes over a looping stream's open response and ends
	// it; release frees what watched it.
	retire func(resp *upstream.Response, release func())
	text   func(wire.Channel, int, []byte)
}

// outcome is what became of a shot.
type outcome struct {
	life
	status     int           // HTTP, 0: none
	overflow   bool          // refused for its length
	retryAfter time.Duration // as the server asked
	refused    bool          // no connection came up
	said       string        // what the server or the system said of a failure
}

// run sends the lane's body and reads the reply to its end. Nothing but
// reading, metering and the lane's own notes happens between two reads.
func (n *lane) run(parent context.Context, s shot) outcome {
	ctx, cancel := context.WithCancelCause(parent)
	release := func() { cancel(nil) }
	m := n.meter
	o := n.r.meterOptions()
	o.Text = s.text
	m.Reset(o)
	n.live.lastAt.Store(0)
	n.live.open.Store(true)
	defer n.live.open.Store(false)
	dog := n.guard(cancel)
	defer dog.Stop()
	dog.Reset(s.ttft)

	resp, err := s.do(ctx, n.r.request(s.id, n.body))
	if err != nil {
		cause := causeOf(ctx, err)
		release()
		var sent stamp.Instant
		var up *upstream.Error
		if errors.As(err, &up) && up.Sent != 0 {
			sent = up.Sent
			m.Sent(sent)
		}
		out := n.finish(sent, cause)
		out.refused = cause.Kind == stream.Connect
		return out
	}
	m.Sent(resp.Sent)
	m.Headers(resp.Status, resp.HeadersAt)
	if resp.HeadersSource != stamp.Kernel && len(n.buf) < readSizeUser {
		n.buf = make([]byte, readSizeUser)
	}
	if resp.Status != http.StatusOK {
		defer release()
		return n.refusal(resp)
	}
	cause := n.read(ctx, resp, dog)
	if s.closing != nil && s.closing.Load() && cause.Kind != stream.Retired && cause.Kind != stream.Cancel {
		cause = stream.Cause{Kind: stream.Cancel, Reason: reasonWindow}
	}
	out := n.finish(resp.Sent, cause)
	out.status, out.rec.Retries = resp.Status, resp.Retries
	if cause.Kind == stream.Retired && s.retire != nil {
		s.retire(resp, release)
		return out
	}
	_ = resp.Close() // aborts what was not read to its end
	release()
	return out
}

// read meters the reply until it ends, fails, or loops.
func (n *lane) read(ctx context.Context, resp *upstream.Response, dog *time.Timer) stream.Cause {
	m := n.meter
	tokens := 0
	for {
		k, err := resp.Read(n.buf)
		if k > 0 {
			at, src := resp.At()
			before := m.GeneratedEvents()
			m.Stamps(src)
			sig := m.Observe(n.buf[:k], at)
			events := m.GeneratedEvents() - before
			n.lags.add(at, stamp.Now(), events)
			if sig&stream.SigToken != 0 {
				n.live.lastAt.Store(int64(at))
				more := m.Tokens() - tokens
				tokens += more
				n.live.tokens.Add(int64(more))
			}
			if sig&stream.SigFirstToken != 0 {
				n.live.firstAt.CompareAndSwap(0, int64(at))
				dog.Reset(n.r.cfg.StallTimeout)
			}
			if sig&stream.SigLoop != 0 {
				n.live.loops.Add(1)
				return stream.Cause{Kind: stream.Retired}
			}
			if sig&stream.SigError != 0 {
				return stream.Cause{Kind: stream.Cut}
			}
		}
		if err != nil {
			return causeOf(ctx, err)
		}
	}
}

// guard ends a stream that waits too long: for its first token, then for each
// further one. A timer that fires early looks at the last token and sleeps on,
// so a token costs a store, not a timer.
func (n *lane) guard(cancel context.CancelCauseFunc) *time.Timer {
	var t *time.Timer
	t = time.AfterFunc(math.MaxInt64, func() {
		last := stamp.Instant(n.live.lastAt.Load())
		if last == 0 {
			cancel(errTTFT)
			return
		}
		if left := n.r.cfg.StallTimeout - stamp.Now().Sub(last); left > 0 {
			t.Reset(left)
			return
		}
		cancel(errStalled)
	})
	return t
}

// finish closes the record. The log of the outcome is the meter's, until the
// lane's next shot.
func (n *lane) finish(sent stamp.Instant, cause stream.Cause) outcome {
	m := n.meter
	end := stamp.Now()
	out := outcome{life: life{end: end, onset: clean}}
	at, ok := -1, false
	if cause.Kind == stream.Cancel {
		_, at, ok = m.Candidate()
	}
	out.rec = m.Finish(cause, end)
	if _, i, acting := m.LoopOnset(); acting {
		at, ok = i, true
	}
	out.retired = out.rec.End == stream.Looped
	out.keep(m.Log(), at, ok)
	if out.sent = sent; sent != 0 {
		out.rec.SentNS = stream.Some(int64(sent - n.r.start))
	}
	if out.rec.EndNS.OK {
		out.end = out.sent.Add(time.Duration(out.rec.EndNS.V))
	}
	out.rec.Error = stream.Word(n.r.redact.String(string(out.rec.Error)))
	if out.rec.Model == "" {
		out.rec.Model = n.r.info.Model
	}
	if out.rec.End == stream.Failed {
		n.live.failed.Add(1)
	}
	return out
}

// keep takes the log of a stream: one entry a generated event. Further channels
// of an event, which the meter lists behind it, are folded into it. The memory
// stays the meter's: see detach.
func (l *life) keep(log []stream.Event, onset int, loops bool) {
	l.log = log[:0]
	for i, e := range log {
		if loops && i == onset {
			l.onset = len(l.log)
		}
		if e.Flags&stream.SameEvent == 0 {
			l.log = append(l.log, e)
		}
	}
	if loops && onset < 0 || l.retired && l.onset == clean {
		l.onset = 0 // it loops, and nobody knows since when
	}
}

// refusal reads the body of an answer that is no stream.
func (n *lane) refusal(resp *upstream.Response) outcome {
	var body []byte
	var err error
	for err == nil && len(body) < maxErrorBody {
		var k int
		k, err = resp.Read(n.buf)
		at, _ := resp.At()
		n.meter.Observe(n.buf[:k], at)
		body = append(body, n.buf[:k]...)
	}
	cause := stream.Cause{Kind: stream.HTTPStatus}
	said := cmp.Or(strings.TrimSpace(engine.ErrorText(body)), http.StatusText(resp.Status))
	if resp.Status/100 == 3 {
		said = "the server redirects to " + string(resp.Get("Location")) + ", which is not followed: give that address if it is the right one"
		cause.Err = errors.New(said)
	}
	out := n.finish(resp.Sent, cause)
	out.status, out.rec.Retries = resp.Status, resp.Retries
	out.said = n.r.redact.String(said)
	out.overflow = engine.ContextOverflow(resp.Status, body)
	out.retryAfter = retryAfter(string(resp.Get("Retry-After")))
	_ = resp.Close()
	return out
}

// maxRetryAfter bounds what a server may ask for; a slot that sleeps through
// its window measures nothing.
const maxRetryAfter = time.Minute

// retryAfter reads the header's seconds (RFC 9110, 10.2.3); a date, which no
// inference server sends, counts as nothing.
func retryAfter(v string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxRetryAfter)
}
