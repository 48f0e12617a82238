package board

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"

	"github.com/streamgauge/streamgauge/loadgen"
)

// styles use the sixteen colours that a terminal's theme sets.
type styles struct {
	title, dim, now, good, doubt, bad lipgloss.Style
}

func stylesFor(out io.Writer) styles {
	r := lipgloss.NewRenderer(out)
	plain := r.NewStyle()
	return styles{
		title: plain.Bold(true),
		dim:   plain.Faint(true),
		now:   plain.Bold(true).Foreground(lipgloss.Color("6")),
		good:  plain,
		doubt: plain.Foreground(lipgloss.Color("3")),
		bad:   plain.Foreground(lipgloss.Color("1")),
	}
}

const (
	// chrome is the lines of a frame that are neither matrix rows nor messages:
	// two of head, the matrix's head, two of the current step, the keys, and
	// three blank ones.
	chrome = 9
	// fewMessages stay visible however large the matrix is.
	fewMessages = 3
	// Below these the frame is the current step alone.
	leastWidth, leastHeight = 36, chrome + 3
)

// frame draws the whole screen: height lines at most, none wider than width.
func (m model) frame() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	lines := m.small()
	if m.width >= leastWidth && m.height >= leastHeight {
		lines = m.full()
	}
	clip := lipgloss.NewStyle().MaxWidth(m.width).Inline(true)
	for i := range lines {
		lines[i] = strings.TrimRight(clip.Render(lines[i]), " ")
	}
	return strings.Join(lines[:min(len(lines), m.height)], "\n")
}

// small is the frame of a terminal with no room for the matrix.
func (m model) small() []string {
	lines := m.current()
	if m.height > len(lines) {
		lines = append(lines, m.keys())
	}
	if m.height > len(lines) {
		lines = append([]string{m.clockLine()}, lines...)
	}
	return lines
}

func (m model) full() []string {
	room := m.height - chrome
	matrix := m.rows(max(room-fewMessages, 1))
	lines := []string{
		m.apart(m.style.title.Render(Printable(m.subject.Title)), m.clockLine()),
		m.style.dim.Render(Printable(m.subject.URL)),
		"",
	}
	lines = append(lines, matrix...)
	lines = append(lines, "")
	lines = append(lines, m.current()...)
	lines = append(lines, "")
	messages := m.messages(room - (len(matrix) - 1))
	lines = append(lines, messages...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines, m.keys())
}

// apart puts one text at the left edge and one at the right; where they do not
// both fit, the left one is cut.
func (m model) apart(left, right string) string {
	room := max(m.width-lipgloss.Width(right)-2, 0)
	left = lipgloss.NewStyle().MaxWidth(room).Inline(true).Render(left)
	return left + strings.Repeat(" ", max(m.width-lipgloss.Width(left)-lipgloss.Width(right), 1)) + right
}

func (m model) clockLine() string {
	done, of := m.clock.count()
	text := fmt.Sprintf("%d of %d done, %s", done, of, span(m.now.Sub(m.begun)))
	if left := m.clock.left(m.now); left > 0 {
		text += ", about " + span(left) + " left"
	}
	return text
}

// current is what is being done now: the step with what is left of its stage,
// and the streams.
func (m model) current() []string {
	s := &m.snap
	step := string(s.Stage)
	if s.N > 0 && s.Stage != loadgen.Finished {
		step = fmt.Sprintf("[%d/%d] %s: %s", s.N, s.Of, s.Stage, StepName(s.Step))
	}
	streams := fmt.Sprintf("%s tok/s, %d active, %d decoding, %s, %s", rateWord(m.rate), s.Active, s.Decoding,
		m.count(s.Loops, "looped", m.style.doubt), m.count(s.Failed, "failed", m.style.bad))
	return []string{m.apart(m.style.now.Render(step), m.stageLeft()), streams}
}

// count writes a number that is good news when it is 0.
func (m model) count(n int, what string, style lipgloss.Style) string {
	text := fmt.Sprintf("%d %s", n, what)
	if n == 0 {
		return text
	}
	return style.Render(text)
}

const (
	barWidth = 16 // cells of the bar of a stage
	barRoom  = 64 // least width of a terminal with one
)

// stageLeft is how far a stage of fixed length is. Others end when something
// happens, by their deadline at the latest.
func (m model) stageLeft() string {
	left, gone := m.snap.Left, span(m.now.Sub(m.since))
	switch {
	case left <= 0 || m.length <= 0:
		return gone
	case m.snap.Stage != loadgen.Settling && m.snap.Stage != loadgen.Measuring:
		return gone + ", at most " + span(left) + " more"
	case m.width < barRoom:
		return span(left) + " left"
	}
	n := min(max(int((1-left.Seconds()/m.length.Seconds())*barWidth+0.5), 0), barWidth)
	return m.style.now.Render(strings.Repeat("━", n)) + m.style.dim.Render(strings.Repeat("─", barWidth-n)) + " " + span(left) + " left"
}

// messages are the newest that fit whole into n lines; the very newest is cut
// rather than left out.
func (m model) messages(n int) []string {
	var out []string
	wrap := lipgloss.NewStyle().Width(m.width)
	for i := len(m.message) - 1; i >= 0; i-- {
		lines := strings.Split(wrap.Render(m.message[i]), "\n")
		for j := range lines {
			lines[j] = strings.TrimRight(lines[j], " ")
		}
		if len(out) == 0 {
			lines = lines[:min(len(lines), max(n, 0))]
		}
		if len(out)+len(lines) > n {
			break
		}
		out = append(lines, out...)
	}
	return out
}

func (m model) keys() string {
	if m.stopping {
		return m.style.bad.Render("stopping: what was measured is saved and reported; q again leaves at once")
	}
	return m.style.dim.Render("q stops: what was measured is saved and reported")
}

// span is a time for people: 42s, 12m03s, 3h20m.
func span(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", max(s, 0))
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
}
