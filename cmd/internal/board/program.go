package board

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/streamgauge/streamgauge/cmd/internal/hush"
	"github.com/streamgauge/streamgauge/loadgen"
)

func init() { hush.Over() }

// tick is the time between two frames.
const tick = 500 * time.Millisecond

// screen is the model as Bubble Tea runs it.
type screen struct {
	model model
	feed  *feed
	live  *loadgen.Live
	stop  func()
}

type tickMsg time.Time

func (s screen) Init() tea.Cmd { return next() }

func next() tea.Cmd { return tea.Tick(tick, func(t time.Time) tea.Msg { return tickMsg(t) }) }

func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.model = s.model.resized(msg.Width, msg.Height)
	case tickMsg:
		for _, n := range s.feed.take() {
			s.model = s.model.noted(n)
		}
		s.model = s.model.looked(s.live.Snapshot(), time.Time(msg))
		return s, next()
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "Q", "ctrl+c":
			s.model.stopping = true
			// Not here: at the second press stop takes this screen down, which
			// waits for Update.
			return s, func() tea.Msg { s.stop(); return nil }
		}
	}
	return s, nil
}

func (s screen) View() string { return s.model.frame() }
