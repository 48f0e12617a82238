package stream

import (
	"unsafe"

	"github.com/streamgauge/streamgauge/detect"
	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// Signal says what the bytes of one Observe brought; bits are or-ed.
type Signal uint8

const (
	SigFirstToken Signal = 1 << iota // the first generated event
	SigToken                         // at least one generated event
	SigLoop                          // our detector reached an acting verdict; the engine's own ends the stream by itself
	SigSuspect                       // a warning verdict was reached
	SigFinish                        // terminal marker, or finish of all choices
	SigError                         // an error inside the stream
)

// DefaultMaxLog is the number of generated events kept of a stream.
const DefaultMaxLog = 65536

// keepLog is the capacity of a log that survives Reset: 16,384 entries and the
// slack of growing. With one source of token counts it is half a megabyte.
const keepLog = 20480

// maxChoices bounds the state of a stream; the events of further choices are
// counted with the last.
const maxChoices = 256

// Options of a Meter. The zero value measures, detects, and stores no text.
type Options struct {
	Dialect wire.Dialect
	// MaxEvent is the size in bytes of the largest event that is read,
	// 0 means wire.DefaultMaxEvent.
	MaxEvent int
	// StoreText allows excerpts of loops and the words of the server's errors
	// in the record.
	StoreText bool
	// Limits of the detectors; NoDetect switches them off. A stream whose
	// limits are out of range is flagged detect_off.
	Limits   detect.Limits
	NoDetect bool
	// MaxLog is the number of generated events kept, 0 means DefaultMaxLog.
	// Totals stay right beyond it, windows and onsets do not; the stream is
	// then flagged log_full.
	MaxLog int
	// Text, if not nil, is given every piece of text as it comes, except
	// names of functions. The bytes are only valid during the call.
	Text func(channel wire.Channel, choice int, text []byte)
}

// Meter measures one stream at a time; Reset makes it ready for the next and
// keeps its memory. It is not safe for concurrent use.
type Meter struct {
	// What every token touches comes first, and lies in one allocation with the
	// decoder and with the choice and the channel that most streams have only:
	// where thousands of streams take turns, each cache line costs a miss.
	lastRead, lastToken stamp.Instant
	firstEvent, visible stamp.Instant
	all                 int // complete events
	events              int // generated
	status              int
	lastLog             int // entry of the last generated event, -1 when it is not in the log
	log                 []Event
	choices             []choice
	detectors           []detector
	ownDetector         [1]detector
	stamps              stamp.Source
	stamped             bool // Stamps was called
	done                bool // terminal marker
	stale               bool // events came since resolve
	named               bool // model is known
	reasoned            bool // a reasoning text came
	unterminated        bool
	ledger              ledger
	model               []byte
	dec                 wire.Decoder
	sends               int
	stampOrder          bool
	o                   Options
	ownChoice           [1]choice

	received, sent, headers stamp.Instant
	firstToken, marker, end stamp.Instant

	coalesced int
	malformed int
	beyond    *hist.H // gaps before events that the log has no room for; nil without any

	usage        wire.Usage // prompt, cached and reasoning tokens: the greatest told
	total        int        // completion tokens of the whole stream, told at its end, or None
	totalAt      int        // generated events when it was told
	nativePrompt int        // prompt tokens by timings, or None; nativeCached likewise
	nativeCached int
	perChoice    bool  // usage events without a choice come one per choice
	lastEnded    int   // position of the choice that finished last, -1 none
	tally        tally // see resolve
	filled       int   // entries of the log that have their tokens, by filledBy
	filledBy     TokensFrom
	over         bool // Finish was called

	free       []*detect.Loop
	detectOff  bool
	engineLoop bool

	failed  bool // error event, or finish error/abort
	aborted bool // finish abort
	failure wire.Error
	late    bool   // events after the terminal marker
	text    []byte // start of the body of a response that is no success
}

// NewMeter returns a Meter for one stream.
func NewMeter(o Options) *Meter {
	m := new(Meter)
	m.Init(o)
	return m
}

// Init makes the zero Meter ready for a stream.
func (m *Meter) Init(o Options) {
	m.dec = *wire.NewDecoder(o.Dialect, o.MaxEvent)
	m.o.MaxEvent = o.MaxEvent
	m.Reset(o)
}

// Reset makes the Meter ready for another stream. It keeps its memory: the log, and
// the windows of its detectors.
func (m *Meter) Reset(o Options) {
	if m.o.MaxEvent != o.MaxEvent {
		m.dec = *wire.NewDecoder(o.Dialect, o.MaxEvent)
	} else {
		m.dec.Reset(o.Dialect)
	}
	if o.MaxLog <= 0 {
		o.MaxLog = DefaultMaxLog
	}
	free := m.releaseDetectors(o.Limits)
	choices, detectors := m.choices[:0], m.detectors[:0]
	if cap(choices) == 0 {
		choices, detectors = m.ownChoice[:0], m.ownDetector[:0]
	}
	*m = Meter{
		o: o, dec: m.dec,
		log: emptied(m.log), ledger: m.ledger.emptied(), lastLog: -1,
		choices: choices, ownChoice: m.ownChoice, total: wire.None, nativePrompt: wire.None, nativeCached: wire.None, lastEnded: -1, stale: true,
		usage:     wire.Usage{PromptTokens: wire.None, CompletionTokens: wire.None, CachedTokens: wire.None, ReasoningTokens: wire.None},
		detectors: detectors, free: free,
		model: m.model[:0], text: m.text[:0],
	}
}

// Kept is about how many bytes the streams before have left the Meter, just after a
// Reset: a long text leaves much.
func (m *Meter) Kept() int {
	size := sizeOf(m.log) + sizeOf(m.choices) + sizeOf(m.detectors)
	for _, c := range [...]*counts{&m.ledger.chars, &m.ledger.ids, &m.ledger.logprobs} {
		size += sizeOf(c.small) + sizeOf(c.large)
	}
	return size + sizeOf(m.ledger.usage) + sizeOf(m.ledger.native) + sizeOf(m.model) + sizeOf(m.text) + memoryOf(m.free)
}

func sizeOf[S ~[]T, T any](s S) int {
	var one T
	return cap(s) * int(unsafe.Sizeof(one))
}

// RequestReceived notes when the last byte of the client's request was read.
func (m *Meter) RequestReceived(at stamp.Instant) { m.received = at }

// Sent notes the instant just before the first byte of the request was written
// upstream. On a retry it is called again: what counts is the retry's.
func (m *Meter) Sent(at stamp.Instant) {
	m.sent = at
	m.sends++
}

// Headers notes the status and when the header block was complete. It comes
// before the first Observe.
func (m *Meter) Headers(status int, at stamp.Instant) {
	m.status, m.headers = status, at
}

// Stamps notes who took the instants given to Observe. A stream that mixes them
// is as good as its worst: it counts as stamped by the user.
func (m *Meter) Stamps(src stamp.Source) {
	if !m.stamped || src == stamp.User {
		m.stamps, m.stamped = src, true
	}
}

// Observe takes the body bytes of one read and the instant at which they
// arrived. p is not kept.
func (m *Meter) Observe(p []byte, at stamp.Instant) Signal {
	if len(p) == 0 {
		return 0
	}
	if at < m.lastRead {
		// Instants of one connection do not go back; a wall clock that was
		// stepped may claim so.
		m.stampOrder = true
		at = m.lastRead
	}
	m.lastRead = at
	if m.status >= 300 && len(m.text) < maxErrorBody {
		m.text = append(m.text, p[:min(len(p), maxErrorBody-len(m.text))]...)
	}
	var sig Signal
	ev := m.dec.One(p)
	if ev == nil {
		m.dec.Push(p)
		ev = m.dec.Next()
	}
	for ; ev != nil; ev = m.dec.Next() {
		sig |= m.event(ev, at)
	}
	return sig
}

// event takes one complete event.
func (m *Meter) event(ev *wire.Event, at stamp.Instant) Signal {
	m.unterminated = m.unterminated || ev.Unterminated
	if ev.Kind == wire.Malformed {
		m.malformed++
		return 0
	}
	m.all++
	if m.firstEvent == 0 {
		m.firstEvent = at
	}
	if m.done {
		// Some servers put [DONE] behind the marker of another dialect.
		m.late = m.late || ev.Kind != wire.Done
		return 0
	}
	switch ev.Kind {
	case wire.Done:
		sig := m.chunk(ev, at) // of Responses and Ollama
		m.done = true
		m.ended(at)
		return sig | SigFinish
	case wire.Failure:
		m.fail(ev.Error, at)
		return SigError
	}
	return m.chunk(ev, at)
}

// ended notes the first instant at which the server said that it was over.
func (m *Meter) ended(at stamp.Instant) {
	if m.marker == 0 {
		m.marker = at
	}
}

func (m *Meter) fail(e wire.Error, at stamp.Instant) {
	if !m.failed {
		m.failed, m.failure = true, e
	}
	m.ended(at)
}

// chunk takes an event that carries choices or counts.
func (m *Meter) chunk(ev *wire.Event, at stamp.Instant) (sig Signal) {
	if !m.named && len(ev.Model) > 0 {
		m.model, m.named = appendWord(m.model, ev.Model), true
	}
	m.stale = true
	m.counts(ev)
	if len(ev.Choices) == 0 {
		m.final(ev)
		return 0
	}
	for i := range ev.Choices {
		c := &ev.Choices[i]
		pos := m.choiceAt(c.Index)
		said := m.said(ev, c, pos)
		if m.generated(c, pos, said) {
			sig |= m.token(c, pos, said, at)
		}
		m.choices[pos].see(said)
		sig |= m.finish(ev, c, pos, at)
	}
	if len(ev.Choices) > 1 && ev.Choices[0].Finish != nil && ev.Usage.Has {
		m.tell(ev.Usage.CompletionTokens) // a bare JSON reply
	}
	return sig
}

// token books one generated event.
func (m *Meter) token(c *wire.Choice, pos int, said evidence, at stamp.Instant) Signal {
	sig := SigToken
	if m.events == 0 {
		sig |= SigFirstToken
		m.firstToken = at
	} else if at == m.lastToken {
		m.coalesced++
		if m.lastLog >= 0 {
			m.log[m.lastLog].Flags |= Coalesced
		}
	}
	m.events++
	m.lastToken = at

	ch := &m.choices[pos]
	ch.book(said)
	if m.lastLog = len(m.log); m.lastLog < m.o.MaxLog {
		m.log = extend(m.log, Event{At: at, Choice: uint16(pos)})
		m.ledger.note(m.lastLog, said)
	} else {
		m.lastLog = -1
		m.unlogged(ch, at)
	}
	ch.last = at
	return sig | m.texts(c, pos, at)
}

// unlogged books the gap before an event that the log has no room for. The
// others follow from the log, when they are asked for.
func (m *Meter) unlogged(ch *choice, at stamp.Instant) {
	if ch.last == 0 || at <= ch.last {
		return
	}
	if m.beyond == nil {
		m.beyond = new(hist.H)
	}
	m.beyond.Record(int64(at - ch.last))
}

// texts books the texts of a generated event and feeds them to the detectors.
func (m *Meter) texts(c *wire.Choice, pos int, at stamp.Instant) (sig Signal) {
	entry, fresh := m.lastLog, true
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Channel == wire.Reasoning {
			m.reasoned = true
		} else if m.visible == 0 && !p.Name {
			m.visible = at // the name of a function is no output yet, its arguments are
		}
		if entry >= 0 {
			switch {
			case fresh:
				m.log[entry].Channel, fresh = uint8(p.Channel), false
			case m.log[entry].Channel != uint8(p.Channel):
				entry = len(m.log)
				m.log = extend(m.log, Event{At: at, Choice: uint16(pos), Channel: uint8(p.Channel), Flags: SameEvent})
			}
		}
		if p.Name {
			continue
		}
		if entry >= 0 && !m.o.NoDetect {
			m.ledger.chars.put(entry, max(m.ledger.chars.at(entry), 0)+int32(detect.Chars(p.Text)))
		}
		if m.o.Text != nil {
			m.o.Text(p.Channel, c.Index, p.Text)
		}
		sig |= m.feed(pos, p.Channel, p.Text)
	}
	return sig
}

// maxWord bounds what a record keeps of a name or a finish reason, which servers
// may make as long as an event.
const maxWord = 256

func appendWord(dst, word []byte) []byte { return append(dst, word[:min(len(word), maxWord)]...) }

// finish takes the finish reason of a choice.
func (m *Meter) finish(ev *wire.Event, c *wire.Choice, pos int, at stamp.Instant) (sig Signal) {
	if string(c.Stop) == "repetition_detected" || string(c.Finish) == "repetition" {
		m.choices[pos].engineLoop = true
		m.engineLoop = true
	}
	ch := &m.choices[pos]
	if c.Finish != nil {
		ch.finished = true
		ch.finish = appendWord(ch.finish[:0], c.Finish)
		m.lastEnded = pos
	}
	if !ch.finished {
		return sig
	}
	switch string(c.Finish) {
	case "abort":
		m.aborted = true // ours, if we are the ones who end the stream
		m.ended(at)
		sig |= SigError
	case "error":
		m.fail(wire.Error{Type: "finish_reason", Code: string(c.Finish)}, at)
		sig |= SigError
	}
	if ev.Usage.Has && len(ev.Choices) == 1 {
		ch.final = max(ch.final, ev.Usage.CompletionTokens)
	}
	if ev.Native.Has && len(ev.Choices) == 1 {
		ch.nativeFinal = max(ch.nativeFinal, ev.Native.PredictedN)
	}
	if m.allFinished() {
		sig |= SigFinish
	}
	return sig
}
