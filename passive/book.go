package passive

import (
	"sync"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// maxModels bounds the models of a Book; further ones are booked as Other.
const maxModels = 64

// Other is the model of streams beyond that.
const Other = "other"

// Book is a passive matrix in the making. It is safe for concurrent use.
type Book struct {
	since time.Time

	mu     sync.Mutex
	lines  map[string]*timeline
	groups map[groupKey]*group
	ratios map[string]*ratio
	out    LeftOut
}

type groupKey struct{ model, upstream string }

// New returns an empty Book.
func New() *Book {
	return &Book{since: time.Now(), lines: map[string]*timeline{}, groups: map[groupKey]*group{}, ratios: map[string]*ratio{}}
}

// Stream is one reply while it runs. It belongs to one goroutine.
type Stream struct {
	book     *Book
	upstream string
	line     *timeline
	first    stamp.Instant
	begun    int // sequences that count as decoding
}

// Stream returns the account of a reply that has not begun. Upstreams are the
// caller's few; their number is not bounded here.
func (b *Book) Stream(upstream string) *Stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := b.lines[upstream]
	if line == nil {
		line = &timeline{open: map[*Stream]struct{}{}}
		b.lines[upstream] = line
	}
	return &Stream{book: b, upstream: upstream, line: line}
}

// Decodes counts one more of the reply's choices as decoding since its first
// generated event, at instant at.
func (s *Stream) Decodes(at stamp.Instant) {
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	if s.begun == 0 {
		s.first = at
		s.line.open[s] = struct{}{}
	}
	s.begun++
	s.line.add(at, 1)
}

// Drop ends a reply of which nothing can be booked: its choices counted as
// decoding until at.
func (s *Stream) Drop(at stamp.Instant) { s.leave(at, nil, nil) }

// leave ends the counting: choice i decoded until last[i], those without an
// entry until at. It returns how many were decoding at each event of the reply's
// log; after it the timeline need not reach back so far.
func (s *Stream) leave(at stamp.Instant, last []stamp.Instant, log []stream.Event) []float32 {
	if s.begun == 0 {
		return nil
	}
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	for i := range s.begun {
		end := at
		if i < len(last) && last[i] != 0 {
			end = last[i]
		}
		// It decoded at its last event, and no longer behind it.
		s.line.add(end+1, -1)
	}
	counts := s.line.during(log)
	delete(s.line.open, s)
	s.begun = 0
	return counts
}

// Reply is what is known of a stream when it is over.
type Reply struct {
	// Record is the stream's; Log its events, with their tokens (Meter.Log after
	// Finish). Neither is kept.
	Record *stream.Record
	Log    []stream.Event
	Sent   stamp.Instant // of the request, which the record's times are relative to
	// Model is the model's label, of a bounded number of them.
	Model string
	// RequestBytes is the size of the request's body, 0 when not known.
	RequestBytes int64
	// Whole says that the reply was not asked for as a stream: its one event
	// is neither a first token nor a pace.
	Whole bool
}

// End books a reply that is over; to be called once, at most, and not beside
// Drop.
func (s *Stream) End(r Reply) {
	rec := r.Record
	var last []stamp.Instant
	for i := range r.Log {
		last = grown(last, int(r.Log[i].Choice))
		last[r.Log[i].Choice] = r.Log[i].At
	}
	counts := s.leave(r.Sent.Add(time.Duration(rec.EndNS.V)), last, r.Log)
	b := s.book
	context, byRatio, why := b.place(&r)
	if len(r.Log) == 0 {
		return
	}
	looped := int64(0)
	if why == nil {
		looped = b.group(r.Model, s.upstream).book(&r, context, byRatio, counts)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out.LoopTokens += looped
	if why != nil {
		*why++
	}
}

// grown returns list with room for index i.
func grown(list []stamp.Instant, i int) []stamp.Instant {
	for len(list) <= i {
		list = append(list, 0)
	}
	return list
}

// place finds the context bucket of a reply and learns from it. why is the
// counter of what cannot be booked, to be raised under the lock; nil: it can.
func (b *Book) place(r *Reply) (bucket int, byRatio bool, why *int64) {
	rec := r.Record
	b.mu.Lock()
	defer b.mu.Unlock()
	learned := b.ratios[b.model(r.Model)]
	if rec.PromptTokens.OK {
		learned.learn(rec.PromptTokens.V, r.RequestBytes)
	}
	switch {
	case r.Whole:
		return 0, false, &b.out.NotStreamed
	case rec.End == stream.Failed || rec.End == stream.Truncated:
		return 0, false, &b.out.Failed
	case hidden(rec):
		return 0, false, &b.out.Hidden
	case rec.PromptTokens.OK && rec.PromptTokens.V > 0:
		return contextBucket(rec.PromptTokens.V), false, nil
	}
	perByte, ok := learned.median()
	if !ok || r.RequestBytes <= 0 {
		return 0, false, &b.out.NoContext
	}
	return contextBucket(int(perByte * float64(r.RequestBytes))), true, nil
}

// model bounds the models; each has a ratio. The lock is held.
func (b *Book) model(name string) string {
	if b.ratios[name] == nil {
		if len(b.ratios) >= maxModels {
			name = Other
		}
		if b.ratios[name] == nil {
			b.ratios[name] = &ratio{}
		}
	}
	return name
}

func (b *Book) group(model, upstream string) *group {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := groupKey{b.model(model), upstream}
	g := b.groups[k]
	if g == nil {
		g = &group{}
		b.groups[k] = g
	}
	return g
}

// LeftOut counts what is not in the cells, and why.
type LeftOut struct {
	LoopTokens  int64 `json:"loop_tokens"`          // from the onset of loops on
	NoContext   int64 `json:"no_context_streams"`   // no usage, and no ratio learned yet
	Failed      int64 `json:"failed_streams"`       // with tokens, then failed or cut
	Hidden      int64 `json:"hidden_streams"`       // reasoning out of sight: the pace of the rest says nothing
	NotStreamed int64 `json:"not_streamed_replies"` // one event, no pace
}
