package board

import (
	"strings"
	"time"
	"unicode"

	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// Size assumed until the terminal tells its own.
const (
	firstWidth  = 80
	firstHeight = 24
)

const (
	keptMessages = 50
	rateOver     = 4 // looks that the live rate is taken over: two seconds
)

// key is a place in the matrix, whatever the repeat.
type key struct {
	context int
	column  column
}

func keyOf(c *matrix.Cell) key { return key{c.Context, columnOf(c)} }

// model is what the screen knows. Its methods return the model that follows; the
// one before is not used again, they share what maps and slices hold.
type model struct {
	subject       Subject
	style         styles
	width, height int

	begun, now time.Time
	cells      map[key]matrix.Cell // the last measured of each place
	clock      clock

	snap    loadgen.Snapshot
	since   time.Time     // the stage began
	length  time.Duration // of the stage, where it is fixed; else 0
	looks   []look        // of the current step, the newest last
	rate    float64       // tok/s over the looks
	message []string      // the newest last

	stopping bool
}

// look is a reading of the token counter.
type look struct {
	at     time.Time
	tokens int64
}

func newModel(s Subject, now time.Time, st styles) model {
	m := model{
		subject: s, style: st, width: firstWidth, height: firstHeight, begun: now, now: now, since: now,
		cells: map[key]matrix.Cell{}, clock: newClock(&s.Plan, s.Cells, now),
		snap: loadgen.Snapshot{Stage: loadgen.Probing},
	}
	for _, c := range s.Cells {
		m.cells[keyOf(&c)] = c
	}
	return m
}

func (m model) resized(width, height int) model {
	m.width, m.height = width, height
	return m
}

// noted takes something that happened.
func (m model) noted(n note) model {
	switch c := n.event.Cell; {
	case n.stopping:
		m.stopping = true
	case c != nil:
		m.cells[keyOf(c)] = *c
		m.clock.done(n.event.N-1, n.at)
		return m.said(Summary(n.event))
	case n.event.Message != "":
		return m.said(n.event.Message)
	case n.event.N > 0:
		m.clock.begin(n.event.N-1, n.at)
	}
	return m
}

func (m model) said(text string) model {
	m.message = append(m.message, Printable(text))
	if over := len(m.message) - keptMessages; over > 0 {
		m.message = m.message[over:]
	}
	return m
}

// looked takes a reading of the run's state.
func (m model) looked(s loadgen.Snapshot, now time.Time) model {
	if s.N != m.snap.N || s.Stage != m.snap.Stage {
		m.since, m.length = now, s.Left
	}
	if s.N != m.snap.N || s.Tokens < m.snap.Tokens {
		m.looks = nil
	}
	m.looks = append(m.looks, look{now, s.Tokens})
	if over := len(m.looks) - rateOver - 1; over > 0 {
		m.looks = m.looks[over:]
	}
	m.rate = 0
	if first := m.looks[0]; now.After(first.at) {
		m.rate = float64(s.Tokens-first.tokens) / now.Sub(first.at).Seconds()
	}
	m.snap, m.now = s, now
	return m
}

// Printable makes text one line without control characters: what a server says
// must not move the cursor of whoever measures it.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
