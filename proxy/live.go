package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamgauge/streamgauge/passive"
	"github.com/streamgauge/streamgauge/stream"
)

// live is what the page at / shows: the passive matrix, the last minutes, and
// the latest loops.
type live struct {
	book   *passive.Book
	recent passive.Recent
	loops  loopList
	since  time.Time
	done   chan struct{} // closed when the admin port ends

	watchers atomic.Int64 // of the event stream

	mu    sync.Mutex // of the frame that the watchers share
	frame frame
}

func newLive() *live {
	return &live{book: passive.New(), since: time.Now(), done: make(chan struct{})}
}

// keepLoops is the number of loops that the page lists.
const keepLoops = 32

// loopList keeps the latest loops.
type loopList struct {
	mu    sync.Mutex
	loops []SeenLoop // newest last
}

// SeenLoop is a verdict in the list of recent loops. Excerpt is there only where
// texts may be stored.
type SeenLoop struct {
	At       time.Time `json:"at"` // the end of its stream
	ID       string    `json:"id"`
	Model    string    `json:"model"` // as the label
	Upstream string    `json:"upstream"`
	End      string    `json:"end"` // of the stream
	Tokens   int       `json:"tokens"`
	stream.Loop
	Acts bool `json:"acts"`
}

func (l *loopList) add(s SeenLoop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.loops) == keepLoops {
		copy(l.loops, l.loops[1:])
		l.loops = l.loops[:keepLoops-1]
	}
	l.loops = append(l.loops, s)
}

// newestFirst copies the list.
func (l *loopList) newestFirst() []SeenLoop {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]SeenLoop, 0, len(l.loops))
	for i := len(l.loops) - 1; i >= 0; i-- {
		out = append(out, l.loops[i])
	}
	return out
}
