package board

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// Subject is what a run measures, for the frame around the numbers.
type Subject struct {
	Title string // model, engine and version
	URL   string // of the server, without credentials
	Plan  loadgen.Plan
	Cells []matrix.Cell // of the run that is resumed
}

// Board is a screen that is up. Its methods are safe from any goroutine.
type Board struct {
	feed    *feed
	program *tea.Program
	done    chan struct{}
	err     error // of the terminal, once done
}

// Start takes the terminal and draws on out. Keys come from in; nil: there are
// none. The wish to stop is told to stop, once a key press.
func Start(in, out *os.File, s Subject, live *loadgen.Live, stop func()) *Board {
	b := &Board{feed: &feed{}, done: make(chan struct{})}
	var keys io.Reader // not a *os.File that is nil
	if in != nil {
		keys = in
	}
	b.program = tea.NewProgram(
		screen{model: newModel(s, time.Now(), stylesFor(out)), feed: b.feed, live: live, stop: stop},
		tea.WithInput(keys), tea.WithOutput(out), tea.WithAltScreen(), tea.WithoutSignalHandler(), tea.WithoutBracketedPaste(),
	)
	go func() {
		defer close(b.done)
		_, b.err = b.program.Run()
		if b.err != nil && !errors.Is(b.err, tea.ErrProgramKilled) {
			// Run leaves the terminal as it is when it cannot read keys.
			b.err = errors.Join(b.err, b.program.ReleaseTerminal())
		}
	}()
	return b
}

// Event takes what happened in the run.
func (b *Board) Event(e loadgen.Event) { b.feed.add(note{at: time.Now(), event: e}) }

// Stopping shows that the run has been told to stop.
func (b *Board) Stopping() { b.feed.add(note{at: time.Now(), stopping: true}) }

// Close takes the screen down and gives the terminal back. Its error is the
// terminal's: the run went on without a screen.
func (b *Board) Close() error {
	b.program.Quit()
	<-b.done
	return b.err
}

// Leave is Close for a program about to exit: it waits a moment, not for ever,
// for a terminal that takes nothing.
func (b *Board) Leave() {
	b.program.Kill()
	select {
	case <-b.done:
	case <-time.After(time.Second):
	}
}

// note is something that happened, for the screen to take when it draws.
type note struct {
	at       time.Time
	event    loadgen.Event
	stopping bool
}

// feed holds the notes that the screen has not taken yet.
type feed struct {
	mu    sync.Mutex
	notes []note
}

func (f *feed) add(n note) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, n)
}

func (f *feed) take() []note {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.notes
	f.notes = nil
	return out
}
