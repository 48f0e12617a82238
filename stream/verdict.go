package stream

import (
	"encoding/hex"

	"github.com/streamgauge/streamgauge/detect"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// maxDetectors bounds the channels of a stream that are judged: each needs up
// to a quarter of a megabyte.
const maxDetectors = 64

// detector judges one channel of one choice.
type detector struct {
	choice  int // position
	channel wire.Channel
	loop    *detect.Loop
}

// feed gives a text to its channel's detector, made at the first text.
func (m *Meter) feed(pos int, channel wire.Channel, text []byte) Signal {
	if m.o.NoDetect {
		return 0
	}
	d := m.detector(pos, channel)
	if d == nil || !d.loop.Feed(text) {
		return 0
	}
	if d.loop.Level().Acts() {
		return SigLoop
	}
	return SigSuspect
}

func (m *Meter) detector(pos int, channel wire.Channel) *detector {
	for i := range m.detectors {
		if d := &m.detectors[i]; d.choice == pos && d.channel == channel {
			return d
		}
	}
	if len(m.detectors) == maxDetectors {
		m.detectOff = true
		return nil
	}
	var loop *detect.Loop
	if n := len(m.free); n > 0 {
		loop, m.free = m.free[n-1], m.free[:n-1]
	} else {
		var err error
		if loop, err = detect.New(m.o.Limits); err != nil {
			m.detectOff = true
			return nil
		}
	}
	m.detectors = append(m.detectors, detector{choice: pos, channel: channel, loop: loop})
	return &m.detectors[len(m.detectors)-1]
}

// keepDetectors is the number of idle detectors that a Meter keeps, and
// keepState what they may hold together: one that has seen a long text, or
// several that have not.
const (
	keepDetectors = 4
	keepState     = 288 << 10
)

// releaseDetectors returns the detectors that the next stream, judged by
// limits, can use.
func (m *Meter) releaseDetectors(limits detect.Limits) []*detect.Loop {
	free, state := m.free, memoryOf(m.free)
	for i := range m.detectors {
		loop := m.detectors[i].loop
		if state += loop.Memory(); len(free) < keepDetectors && state <= keepState {
			loop.Reset()
			free = append(free, loop)
		}
		m.detectors[i].loop = nil
	}
	if limits != m.o.Limits {
		return nil
	}
	return free
}

func memoryOf(loops []*detect.Loop) (n int) {
	for _, loop := range loops {
		n += loop.Memory()
	}
	return n
}

// actingVerdict is the kind of the first acting verdict, "" without one.
func (m *Meter) actingVerdict() string {
	for i := range m.detectors {
		if level := m.detectors[i].loop.Level(); level.Acts() {
			return level.String()
		}
	}
	if m.engineLoop {
		return detect.Engine.String()
	}
	return ""
}

// LoopOnset maps the onset of the earliest acting verdict to the log: at is the
// instant of the last event of its choice before the onset (0 when the stream
// began with it), event the index in Log of the event in which the loop begins.
// ok is false without an acting verdict, and where its onset is not known.
func (m *Meter) LoopOnset() (at stamp.Instant, event int, ok bool) {
	event = -1
	for i := range m.detectors {
		d := &m.detectors[i]
		v := d.loop.Verdict()
		if !v.Kind.Acts() {
			continue
		}
		if e, found := m.locate(d.choice, d.channel, v.Onset.Chars); found && (event < 0 || e < event) {
			event = e
			at = m.before(e)
		}
	}
	return at, event, event >= 0
}

// Candidate is LoopOnset for what is no verdict yet: an exact repetition, of at
// least 2 cycles and 256 characters, that a channel ends in right now. It
// costs about a millisecond: ask when a stream is ended from outside.
func (m *Meter) Candidate() (at stamp.Instant, event int, ok bool) {
	event = -1
	for i := range m.detectors {
		d := &m.detectors[i]
		c, live := d.loop.Candidate()
		if !live {
			continue
		}
		if e, found := m.locate(d.choice, d.channel, c.Onset.Chars); found && (event < 0 || e < event) {
			event = e
			at = m.before(e)
		}
	}
	return at, event, event >= 0
}

// locate returns the index of the event that holds code point offset of a
// channel.
func (m *Meter) locate(pos int, channel wire.Channel, offset int64) (int, bool) {
	var seen int64
	event := -1
	for i := range m.log {
		e := &m.log[i]
		if e.Flags&SameEvent == 0 {
			event = i
		}
		if int(e.Choice) != pos || e.Channel != uint8(channel) {
			continue
		}
		if seen += int64(max(m.ledger.chars.at(i), 0)); seen > offset {
			return event, true
		}
	}
	return -1, false
}

// before returns the instant of the event of the same choice before event i,
// 0 when there is none.
func (m *Meter) before(i int) stamp.Instant {
	for j := i - 1; j >= 0; j-- {
		if m.log[j].Choice == m.log[i].Choice && m.log[j].Flags&SameEvent == 0 {
			return m.log[j].At
		}
	}
	return 0
}

// loops ends the detectors and appends all verdicts to out; the list is never nil. A
// suspicion that was confirmed is not told beside it.
func (m *Meter) loops(out []Loop) []Loop {
	if out == nil {
		out = []Loop{}
	}
	for i := range m.detectors {
		d := &m.detectors[i]
		ch := &m.choices[d.choice]
		var candidate detect.Candidate
		live := false
		if ch.engineLoop {
			candidate, live = d.loop.Candidate()
		}
		d.loop.Finish()
		vs := d.loop.Verdicts()
		for j := range vs {
			if j+1 < len(vs) && vs[j].Kind == detect.Suspected && vs[j].Onset == vs[j+1].Onset {
				continue
			}
			out = append(out, m.loop(d, &vs[j]))
		}
		if ch.engineLoop {
			v := detect.Verdict{Kind: detect.Engine}
			l := m.loop(d, &v)
			l.Onset, l.OnsetToken, l.OnsetNS, l.ConfirmedAt = Null[int64]{}, Null[int64]{}, Null[int64]{}, Some(d.loop.Fed().Chars)
			if live {
				v.Onset, v.Period, v.Cycles = candidate.Onset, candidate.Period, candidate.Cycles
				confirmed := l.ConfirmedAt
				l = m.loop(d, &v)
				l.ConfirmedAt = confirmed
			}
			out = append(out, l)
			ch.engineLoop = false // told once, with the choice's first channel
		}
	}
	for i := range m.choices {
		if m.choices[i].engineLoop {
			out = append(out, Loop{Verdict: detect.Engine.String(), Channel: wire.Content.String(), Choice: m.choices[i].index})
		}
	}
	return out
}

func (m *Meter) loop(d *detector, v *detect.Verdict) Loop {
	l := Loop{
		Verdict: v.Kind.String(), Channel: d.channel.String(), Choice: m.choices[d.choice].index,
		Onset: Some(v.Onset.Chars), ConfirmedAt: Some(v.ConfirmedAt.Chars),
	}
	if v.Period.Chars > 0 {
		l.Period, l.Cycles = Some(v.Period.Chars), Some(v.Cycles)
	}
	if v.SHA256 != [32]byte{} {
		l.SHA256 = hex.EncodeToString(v.SHA256[:])
	}
	if m.o.StoreText {
		l.Excerpt = v.Excerpt
	}
	event, ok := m.locate(d.choice, d.channel, v.Onset.Chars)
	if !ok {
		return l
	}
	tokens := int64(0)
	for i := range m.log[:event] {
		if int(m.log[i].Choice) == d.choice {
			tokens += int64(m.log[i].Tokens)
		}
	}
	l.OnsetToken = Some(tokens)
	if at := m.before(event); at != 0 && m.sent != 0 {
		l.OnsetNS = Some(int64(at - m.sent))
	}
	return l
}
