package board

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden frames anew")

// begun is when the run of the tests began.
var begun = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(d time.Duration) time.Time { return begun.Add(d) }

// plan is a matrix of two contexts and the model's limit on a server with room
// for some of it.
func plan(t *testing.T, concurrency ...int) loadgen.Plan {
	t.Helper()
	p, err := loadgen.NewPlan(
		loadgen.Config{Contexts: []int{8 << 10, 32000}, Concurrency: concurrency, Duration: 30 * time.Second},
		engine.Info{Model: "m", MaxModelLen: 65536, KVTokens: 400000},
	)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func subject(t *testing.T) Subject {
	t.Helper()
	return Subject{Title: "laguna-xs on vllm 0.11.0", URL: "http://127.0.0.1:8000", Plan: plan(t, 1, 2, 4, 8, 16, 32, 64, 128)}
}

// told is a model that was told n of the plan's steps, each 40 s long.
func told(t *testing.T, n int) model {
	t.Helper()
	m := newModel(subject(t), begun, stylesFor(io.Discard))
	for i, s := range m.subject.Plan.Steps[:n] {
		c := matrix.Cell{Phase: s.Phase, Context: s.Context, Concurrency: s.Concurrency, Status: matrix.Valid,
			TotalTokS: stream.Some(143.26 * float64(s.Concurrency)), TTFTMS: stream.Some(412.5), TBTMS: stream.Some(6.98)}
		switch s.Concurrency {
		case 4:
			c.Status, c.Message = matrix.Looped, "21 % of the stream-time is clean"
		case 8:
			c.Status, c.Message, c.TotalTokS = matrix.Failed, "3 of 9 streams failed: reset \x1b[2J by\r\npeer", stream.Null[float64]{}
		}
		e := loadgen.Event{Step: s, N: i + 1, Of: len(m.subject.Plan.Steps)}
		at := time.Duration(i) * 40 * time.Second
		m = m.noted(note{at: after(at), event: e})
		e.Cell = &c
		m = m.noted(note{at: after(at + 40*time.Second), event: e})
	}
	return m
}

// measuring is told, in the middle of the next step's window.
func measuring(t *testing.T, n int) model {
	t.Helper()
	m := told(t, n)
	at := time.Duration(n) * 40 * time.Second
	s := loadgen.Snapshot{Step: m.subject.Plan.Steps[n], N: n + 1, Of: len(m.subject.Plan.Steps), Stage: loadgen.Measuring, Active: 16, Decoding: 15, Loops: 2, Left: 30 * time.Second}
	m = m.noted(note{at: after(at), event: loadgen.Event{Step: s.Step, N: s.N, Of: s.Of, Stage: loadgen.Starting}})
	for i := range 20 {
		s.Tokens = int64(i) * 1000
		s.Left = 30*time.Second - time.Duration(i)*tick
		m = m.looked(s, after(at+10*time.Second+time.Duration(i)*tick))
	}
	return m
}

func TestFrames(t *testing.T) {
	for _, tc := range []struct {
		name          string
		width, height int
		model         func(*testing.T) model
	}{
		{"probing", 80, 24, func(t *testing.T) model { return newModel(subject(t), begun, stylesFor(io.Discard)) }},
		{"measuring", 80, 24, func(t *testing.T) model { return measuring(t, 5) }},
		{"wide", 120, 40, func(t *testing.T) model { return measuring(t, 12) }},
		{"narrow", 50, 14, func(t *testing.T) model { return measuring(t, 12) }},
		{"tiny", 30, 4, func(t *testing.T) model { return measuring(t, 12) }},
		{"one_line", 80, 1, func(t *testing.T) model { return measuring(t, 12) }},
		{"stopping", 80, 24, func(t *testing.T) model { return measuring(t, 5).noted(note{stopping: true}) }},
		{"waiting", 80, 24, func(t *testing.T) model {
			m := told(t, 3)
			s := loadgen.Snapshot{Step: m.subject.Plan.Steps[3], N: 4, Of: len(m.subject.Plan.Steps), Stage: loadgen.Draining, Left: time.Minute}
			return m.looked(s, after(2*time.Minute)).looked(s, after(2*time.Minute+20*time.Second))
		}},
		{"finished", 80, 24, func(t *testing.T) model {
			m := told(t, len(subject(t).Plan.Steps))
			return m.looked(loadgen.Snapshot{Step: m.subject.Plan.Steps[3], N: 4, Of: 4, Stage: loadgen.Finished}, after(time.Hour))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.model(t).resized(tc.width, tc.height).frame()
			lines := strings.Split(got, "\n")
			if len(lines) > tc.height {
				t.Errorf("%d lines on a terminal of %d", len(lines), tc.height)
			}
			for i, l := range lines {
				if w := lipgloss.Width(l); w > tc.width {
					t.Errorf("line %d is %d wide on a terminal of %d: %q", i+1, w, tc.width, l)
				}
			}
			if strings.ContainsAny(got, "\x1b\r") {
				t.Errorf("control characters in a frame without colour: %q", got)
			}
			golden(t, tc.name, got)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got += "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the frame is not that of %s (-want +got); -update writes it anew:\n%s", path, d)
	}
}

// TestFrameFitsEveryTerminal: no size makes a frame too large, or panics.
func TestFrameFitsEveryTerminal(t *testing.T) {
	m := measuring(t, 12)
	for w := 0; w < 140; w += 7 {
		for h := 0; h < 45; h += 2 {
			lines := strings.Split(m.resized(w, h).frame(), "\n")
			if len(lines) > max(h, 1) {
				t.Fatalf("%d × %d: %d lines", w, h, len(lines))
			}
			for _, l := range lines {
				if lipgloss.Width(l) > w {
					t.Fatalf("%d × %d: %q is %d wide", w, h, l, lipgloss.Width(l))
				}
			}
		}
	}
}

// TestCurrentCellIsAlwaysVisible: on a terminal too small for the matrix the
// part around the current cell is shown.
func TestCurrentCellIsAlwaysVisible(t *testing.T) {
	n := len(subject(t).Plan.Steps)
	for i := range n {
		m := measuring(t, i)
		for _, size := range [][2]int{{leastWidth, leastHeight}, {50, 14}, {80, 24}} {
			if f := m.resized(size[0], size[1]).frame(); !strings.Contains(f, "▸") {
				t.Errorf("step %d of %d at %v: the current cell is not in the frame:\n%s", i+1, n, size, f)
			}
		}
	}
}

func TestLeft(t *testing.T) {
	p := plan(t, 1, 2)
	reckoned := p.Estimate
	c := newClock(&p, nil, begun)
	if got := c.left(begun); got != reckoned {
		t.Errorf("%v before the first step, want the plan's %v", got, reckoned)
	}
	// The prefill row takes its 10 s, the first cell twice its 35 s.
	c.begin(0, begun)
	c.done(0, after(10*time.Second))
	c.begin(1, after(10*time.Second))
	if got, want := c.left(after(20*time.Second)), reckoned-20*time.Second; got != want {
		t.Errorf("%v in the middle of a step, want %v", got, want)
	}
	c.done(1, after(80*time.Second))
	rest := 3*35*time.Second*2 + 2*10*time.Second // three cells as slow as the first, two prefill rows
	if got := c.left(after(80 * time.Second)); got != rest {
		t.Errorf("%v after a cell of twice its time, want %v", got, rest)
	}
	if done, of := c.count(); done != 2 || of != len(p.Steps) {
		t.Errorf("%d of %d done, want 2 of %d", done, of, len(p.Steps))
	}
	// A step that hangs does not make the rest negative.
	c.begin(2, after(80*time.Second))
	if got, want := c.left(after(time.Hour)), rest-70*time.Second; got != want {
		t.Errorf("%v beside a step that hangs, want %v", got, want)
	}
}

// TestResumedCellsAreThere: what the file has is on the screen at once and is
// not waited for.
func TestResumedCellsAreThere(t *testing.T) {
	s := subject(t)
	first := s.Plan.Steps[1]
	s.Cells = []matrix.Cell{{Phase: first.Phase, Context: first.Context, Concurrency: first.Concurrency, Status: matrix.Valid, TotalTokS: stream.Some(77.7)}}
	m := newModel(s, begun, stylesFor(io.Discard))
	if f := m.frame(); !strings.Contains(f, "77.7") || !strings.Contains(f, "1 of 19 done") {
		t.Errorf("the cell of the file is not on the screen:\n%s", f)
	}
	if got, want := m.clock.left(begun), s.Plan.Estimate-first.Estimate; got != want {
		t.Errorf("%v left, want %v", got, want)
	}
}

func TestRate(t *testing.T) {
	m := measuring(t, 5)
	if m.rate != 2000 {
		t.Errorf("%v tok/s of 1000 tokens each %v, want 2000", m.rate, tick)
	}
	s := m.snap
	s.N, s.Tokens = s.N+1, 3
	if m = m.looked(s, m.now.Add(tick)); m.rate != 0 {
		t.Errorf("%v tok/s at the first look into a new step, want 0", m.rate)
	}
}

func TestPrintable(t *testing.T) {
	if got := Printable("a\x1b]0;title\ab\r\nc\u009bx — ok"); got != "a ]0;title b  c x — ok" {
		t.Errorf("%q keeps control characters", got)
	}
}

// TestKeys: each of the keys that stop asks once a press, outside Update.
func TestKeys(t *testing.T) {
	for _, tc := range []struct {
		name  string
		key   tea.KeyMsg
		asked int
	}{
		{"q", tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{'q'}}, 1},
		{"Ctrl-C, which is a key in raw mode", tea.KeyMsg{Type: tea.KeyCtrlC}, 1},
		{"another", tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{'x'}}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked := 0
			s := screen{model: measuring(t, 5), feed: &feed{}, live: &loadgen.Live{}, stop: func() { asked++ }}
			next, cmd := s.Update(tc.key)
			if asked != 0 {
				t.Error("stop was called inside Update, where a second press would wait for itself")
			}
			if cmd != nil {
				cmd()
			}
			if asked != tc.asked {
				t.Errorf("asked %d times, want %d", asked, tc.asked)
			}
			if got := strings.Contains(next.View(), "stopping"); got != (tc.asked > 0) {
				t.Errorf("the frame says it is stopping: %t", got)
			}
		})
	}
}

// TestFeedNeverWaits: events are taken when the screen draws, in order, and a
// screen that draws nothing holds nobody up.
func TestFeedNeverWaits(t *testing.T) {
	s := screen{model: newModel(subject(t), begun, stylesFor(io.Discard)), feed: &feed{}, live: &loadgen.Live{}}
	b := &Board{feed: s.feed}
	step := s.model.subject.Plan.Steps[0]
	for range 1000 {
		b.Event(loadgen.Event{Step: step, N: 1, Of: 19, Message: "first"})
	}
	b.Event(loadgen.Event{Step: step, N: 1, Of: 19, Message: "last"})
	next, _ := s.Update(tickMsg(after(time.Second)))
	got := next.(screen).model.message
	if len(got) != keptMessages || got[len(got)-1] != "last" {
		t.Errorf("%d messages, the last %q; want %d, and %q", len(got), got[len(got)-1], keptMessages, "last")
	}
	if n := s.feed.take(); len(n) != 0 {
		t.Errorf("%d notes are left behind", len(n))
	}
}

// TestNoTerminal: a screen that cannot be drawn says so when it is closed, and
// neither events nor Close wait for it.
func TestNoTerminal(t *testing.T) {
	closed, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	b := Start(closed, closed, subject(t), &loadgen.Live{}, func() {})
	b.Event(loadgen.Event{Message: "x"})
	if err := b.Close(); err == nil || errors.Is(err, tea.ErrProgramKilled) {
		t.Errorf("closing gave %v, want what was wrong with the terminal", err)
	}
}
