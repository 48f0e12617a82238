package e2e

import (
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// late is how long before a stream's end an event must have been passed on for
// its absence from the record to be an error. What was passed on later may lie
// in a socket that was closed unread; the busier the machine, the longer.
const late = 500 * time.Millisecond

// tally is what was compared, for the log.
type tally struct {
	completed, aborted, cut int // streams
	tokens                  int
	unread                  int           // events passed on and never read, of all aborted streams
	most                    int           // of one stream
	oldest                  time.Duration // time of the earliest of them before its stream's end
}

// compareTokens holds each record against the engine's own bytes. A completed
// stream has the tokens of the engine's final usage. An aborted one has those of
// the engine's last per-chunk count within the events that its record says it
// has read; events behind those were passed on by the relay when the connection
// was being torn down, which their times must show.
func compareTokens(t *testing.T, records []stream.Record, all map[string]*told, start time.Time) tally {
	t.Helper()
	var sum tally
	for i := range records {
		r := &records[i]
		s := all[r.ID]
		if s == nil {
			// Ended before the request was on its way through the proxy.
			if r.End != stream.Cancelled || r.Status != 0 {
				t.Errorf("%s (%s): the relay saw no such stream", r.ID, r.End)
			}
			continue
		}
		sum.tokens += r.Tokens
		if r.PromptTokens.OK && r.PromptTokens.V != s.prompt {
			t.Errorf("%s: %d prompt tokens, the engine says %d", r.ID, r.PromptTokens.V, s.prompt)
		}
		if len(s.events) > 0 {
			if last := s.events[len(s.events)-1]; last.ids != 0 && last.counted != 0 && last.ids != last.counted {
				t.Errorf("%s: the engine's own counts differ: %d token ids, %d in its usage", r.ID, last.ids, last.counted)
			}
		}
		switch r.End {
		case stream.Completed:
			sum.completed++
			if s.final == nil {
				t.Errorf("%s: completed, but the engine told no final usage", r.ID)
			} else if r.Tokens != *s.final {
				t.Errorf("%s: completed with %d tokens, the engine's final usage is %d", r.ID, r.Tokens, *s.final)
			}
		case stream.Cancelled, stream.ClientGone, stream.Looped:
			sum.aborted++
			sum.compareAborted(t, r, s, start)
		default:
			t.Errorf("%s: ended as %s, reason %q, error %q", r.ID, r.End, r.Reason, r.Error)
		}
	}
	return sum
}

func (sum *tally) compareAborted(t *testing.T, r *stream.Record, s *told, start time.Time) {
	t.Helper()
	if r.Events > len(s.events) {
		t.Errorf("%s: %d events, the engine sent %d", r.ID, r.Events, len(s.events))
		return
	}
	if want := s.count(r.Events); r.Tokens != want {
		t.Errorf("%s: %s with %d tokens, the engine's count at event %d of %d is %d", r.ID, r.End, r.Tokens, r.Events, len(s.events), want)
	}
	rest := s.events[r.Events:]
	if len(rest) == 0 {
		return
	}
	sum.cut++
	sum.unread += len(rest)
	sum.most = max(sum.most, len(rest))
	ended := start.Add(time.Duration(r.SentNS.V + r.EndNS.V))
	age := ended.Sub(rest[0].after)
	sum.oldest = max(sum.oldest, age)
	if age > late {
		t.Errorf("%s: event %d was passed on %v before the stream's end and is in no record", r.ID, r.Events+1, age)
	}
}

func (sum tally) log(t *testing.T) {
	t.Helper()
	t.Logf("%d completed and %d aborted streams, %d tokens. %d aborted ones had events on their way which nobody read: %d in all, at most %d, the oldest %v before the end",
		sum.completed, sum.aborted, sum.tokens, sum.cut, sum.unread, sum.most, sum.oldest.Round(time.Microsecond))
}

// comparePrompts holds each record's prompt against the length that was asked for.
func comparePrompts(t *testing.T, run *matrix.Run, limit int) {
	t.Helper()
	for i := range run.Records {
		r := &run.Records[i]
		want := r.Context
		if want == limit {
			want-- // the row of the model's limit leaves room for one token
		}
		if !r.PromptTokens.OK {
			if r.Tokens > 0 {
				t.Errorf("%s: %d tokens, but the prompt's length is unknown", r.ID, r.Tokens)
			}
			continue
		}
		if d := r.PromptTokens.V - want; d > max(16, want/200) || -d > max(16, want/200) {
			t.Errorf("%s: a prompt of %d tokens, want %d ± %d", r.ID, r.PromptTokens.V, want, max(16, want/200))
		}
	}
}

// blur is how far a kernel's stamp may lie outside of the relay's two readings:
// merged segments carry the stamp of the last of them.
const blur = 20 * time.Millisecond

// compareWindow counts a cell's window from the relay's times. Since those bound
// the kernel's stamps, they bound the tokens in the window too.
func compareWindow(t *testing.T, c *matrix.Cell, records []stream.Record, all map[string]*told, start time.Time) {
	t.Helper()
	open := start.Add(time.Duration(c.OpenNS.V))
	end := open.Add(time.Duration(c.MeasuredS.V * float64(time.Second)))
	var least, most int
	for i := range records {
		r := &records[i]
		s := all[r.ID]
		if s == nil || r.Phase == stream.Prime || r.Context != c.Context || r.Concurrency != c.Concurrency {
			continue
		}
		before := 0
		for _, e := range s.events {
			n := e.tokens() - before
			before += n
			if !e.after.Before(open.Add(-blur)) && e.before.Before(end) {
				most += n
			}
			if !e.before.Before(open) && e.after.Before(end.Add(-blur)) {
				least += n
			}
		}
	}
	if got := c.OutputTokens.V; got < float64(least) || got > float64(most) {
		t.Errorf("context %d, concurrency %d: %.0f tokens in the window, by the relay's times between %d and %d",
			c.Context, c.Concurrency, got, least, most)
	}
	if got, want := c.TotalTokS.V, c.OutputTokens.V/c.MeasuredS.V; got < want-1e-6 || got > want+1e-6 {
		t.Errorf("context %d, concurrency %d: total %.3f tok/s, but %.0f tokens in %.3f s", c.Context, c.Concurrency, got, c.OutputTokens.V, c.MeasuredS.V)
	}
}
