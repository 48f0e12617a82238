package stream

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// Version is the record format's version.
const Version = 1

// Log returns the generated events so far, with their tokens by the best source
// so far; before Finish the tokens are 0 where only a total can tell them. A
// call costs what the events since the last call cost, unless the source
// changed. The slice belongs to the Meter and is valid until the next Observe, Finish or
// Reset.
func (m *Meter) Log() []Event {
	m.resolve()
	return m.log
}

// Counts reports whether the events of Log have their tokens. Before Finish they
// have none where only a total can tell them.
func (m *Meter) Counts() bool {
	m.resolve()
	return m.tally.perChunk || m.over
}

// Tokens returns the number of tokens so far, by the best source so far.
func (m *Meter) Tokens() int { return m.pick().tokens }

// GeneratedEvents returns the number of generated events so far.
func (m *Meter) GeneratedEvents() int { return m.events }

// gapsInto files the times between generated events of one choice that do not
// share an instant. A call costs what the log is long.
func (m *Meter) gapsInto(h *hist.H) {
	GapsIn(m.log, Edges{Close: math.MaxInt64}, h)
	h.Merge(m.beyond)
}

// gapHists are for the moment at which a record is made: a histogram of gaps
// takes up to 20 KB, too much for each open stream and for each one's end.
var gapHists = sync.Pool{New: func() any { return new(hist.H) }}

func (m *Meter) recordGaps() Gaps {
	h := gapHists.Get().(*hist.H)
	defer gapHists.Put(h)
	h.Reset()
	m.gapsInto(h)
	return gapsOf(h)
}

// Blind returns why a part of the body could not be read, see
// wire.Decoder.Blind.
func (m *Meter) Blind() string { return m.dec.Blind() }

// Finish ends the stream at instant at and returns its record, which belongs
// to the caller. The coordinates (cell, slot, phase, id, upstream, …) are the
// caller's to fill. The Meter's log stays readable until Reset; Finish is
// called once.
func (m *Meter) Finish(c Cause, at stamp.Instant) *Record {
	r := new(Record)
	m.FinishInto(r, c, at)
	return r
}

// FinishInto is Finish that writes the record to r, over another stream's: its lists
// are used again, and so is a name that is the same.
func (m *Meter) FinishInto(r *Record, c Cause, at stamp.Instant) {
	if ev := m.dec.Close(); ev != nil {
		m.event(ev, m.lastRead)
	}
	m.stale, m.over = true, true
	m.resolve()
	if m.end = m.marker; m.end == 0 {
		m.end = max(at, m.lastRead)
	}
	flags, loops, finish := r.Flags[:0], r.Loops[:0], r.Finish
	*r = Record{
		Type: "record", V: Version,
		Model: again(r.Model, m.model), Dialect: m.o.Dialect.String(), Status: Code(m.status),
		HeadersNS: m.since(m.headers), TTFENS: m.since(m.firstEvent), TTFTNS: m.since(m.firstToken),
		TTFVNS: m.since(m.visible), LastTokenNS: m.since(m.lastToken), EndNS: m.since(m.end),
		RequestReceivedNS: m.since(m.received),
		TBTNS:             m.tbt(), Tokens: m.tally.tokens, FirstTokens: m.firstTokens(), TokensFrom: m.tally.from,
		PromptTokens:    count(m.usage.PromptTokens),
		CachedTokens:    count(m.usage.CachedTokens),
		ReasoningTokens: count(m.usage.ReasoningTokens),
		Events:          m.all, GeneratedEvents: m.events, CoalescedEvents: m.coalesced,
		Gaps:   m.recordGaps(),
		Stamps: m.stamps.String(), Retries: max(m.sends-1, 0), Malformed: m.malformed,
		Loops: m.loops(loops),
	}
	if m.sent != 0 {
		r.SentMonoNS, r.SentRealNS = Some(int64(m.sent)), Some(m.sent.Realtime())
	}
	if !r.PromptTokens.OK {
		r.PromptTokens = count(m.nativePrompt)
	}
	if !r.CachedTokens.OK {
		r.CachedTokens = count(m.nativeCached)
	}
	if pos := m.choicePos(0); pos >= 0 {
		r.Finish = again(finish, m.choices[pos].finish)
	}
	r.End, r.Reason = m.judge(c)
	r.Error = Word(m.errorText(c, r))
	r.Flags = m.flags(flags, r)
}

// again returns now as text: before, if it is the same.
func again[T ~string](before T, now []byte) T {
	if string(before) == string(now) {
		return before
	}
	return T(now)
}

func (m *Meter) choicePos(index int) int {
	for i := range m.choices {
		if m.choices[i].index == index {
			return i
		}
	}
	return -1
}

// since returns an instant relative to sent, null if either never was.
func (m *Meter) since(at stamp.Instant) Null[int64] {
	if at == 0 || m.sent == 0 {
		return Null[int64]{}
	}
	return Some(int64(at - m.sent))
}

func count(n int) Null[int] {
	if n == wire.None {
		return Null[int]{}
	}
	return Some(n)
}

func gapsOf(h *hist.H) Gaps {
	if h.Count() == 0 {
		return Gaps{}
	}
	return Gaps{
		N: h.Count(), MinNS: Some(h.Min()), MaxNS: Some(h.Max()),
		P50NS: Some(h.Quantile(0.5)), P90NS: Some(h.Quantile(0.9)), P99NS: Some(h.Quantile(0.99)),
	}
}

// flags appends what a reader of the record must know; the list is never nil.
func (m *Meter) flags(flags []string, r *Record) []string {
	if flags == nil {
		flags = []string{}
	}
	add := func(set bool, name string) {
		if set {
			flags = append(flags, name)
		}
	}
	add(r.End == Completed && !m.done, "no_marker")
	add(r.End == Completed && r.Finish == "", "no_finish")
	add(m.unterminated, "unterminated")
	add(m.late, "after_marker")
	add(m.hiddenReasoning(), "hidden_reasoning")
	add(m.tally.incomplete, "source_incomplete")
	add(m.tally.mismatch, "usage_mismatch")
	add(m.dec.Blind() != "", "blind")
	add(m.detectOff, "detect_off")
	add(m.stampOrder, "stamp_order")
	add(m.logged() < m.events, "log_full")
	return flags
}

// maxErrorText is the length in bytes of an error in a record, maxErrorBody what
// is kept of the body of a response that is no success until then.
const (
	maxErrorText = 300
	maxErrorBody = 2048
)

// errorText makes the record's sentence: our own error, or the server's words
// where texts may be stored, else the kind of error it named.
func (m *Meter) errorText(c Cause, r *Record) string {
	var parts []string
	if r.Reason == reasonHTTPStatus {
		parts = append(parts, fmt.Sprintf("HTTP status %d", m.status))
	}
	if m.aborted && r.End == Failed {
		parts = append(parts, "finish_reason abort")
	}
	if m.failed {
		for _, s := range []string{m.failure.Type, m.failure.Code} {
			if s != "" {
				parts = append(parts, s)
			}
		}
	}
	if m.o.StoreText {
		switch {
		case m.failure.Message != "":
			parts = append(parts, m.failure.Message)
		case r.Reason == reasonHTTPStatus && len(m.text) > 0:
			parts = append(parts, string(m.text))
		}
	}
	if c.Err != nil && r.End != Completed {
		parts = append(parts, c.Err.Error())
	}
	if len(parts) == 0 {
		return ""
	}
	// Redacted before it is cut: half a URL no longer shows that a password
	// stands in it.
	text := strings.Join(parts, ": ")
	text = Redact(oneLine(text[:min(len(text), maxErrorBody)]))
	if len(text) > maxErrorText {
		text = strings.TrimSpace(strings.ToValidUTF8(text[:maxErrorText], ""))
	}
	return text
}

// oneLine keeps what can be printed on one line.
func oneLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s))
}
