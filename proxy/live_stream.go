package proxy

import (
	"cmp"
	"encoding/json"
	"io"
	"net"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/passive"
	"github.com/streamgauge/streamgauge/stamp"
)

const (
	// frameEvery is how often a watcher is told how things stand, matrixEvery
	// at how many of these the matrix is told too.
	frameEvery  = time.Second
	matrixEvery = 5
	// maxWatchers bounds the open event streams.
	maxWatchers = 32
	// maxListed bounds the open streams that the page lists.
	maxListed = 100
)

// LiveState is the event "state" of /live, once a second.
type LiveState struct {
	Now     time.Time `json:"now"`
	Since   time.Time `json:"since"` // when the proxy was started
	Version string    `json:"version"`
	Data    string    `json:"data"`      // the data port
	Ready   string    `json:"not_ready"` // why no request is wanted; "": all is well

	Open     int          `json:"open"`     // observed requests
	Decoding int          `json:"decoding"` // of these, past their first token
	Whole    int          `json:"whole"`    // of these, not asked for as streams
	Streams  []OpenStream `json:"streams"`  // the oldest of them

	Last      passive.LastMinutes `json:"last"`
	Loops     []SeenLoop          `json:"loops"` // newest first
	Upstreams []LiveUpstream      `json:"upstreams"`
}

// LiveUpstream is an upstream and what it told of itself.
type LiveUpstream struct {
	UpstreamState
	Models []ServedModel `json:"models"` // empty until it was asked
}

// frame is an encoded state, shared by the watchers of one moment.
type frame struct {
	at            stamp.Instant
	state, matrix []byte
}

func (p *Proxy) liveState(now stamp.Instant) LiveState {
	s := LiveState{
		Now: time.Now(), Since: p.live.since, Version: p.cfg.Version, Data: p.dataAddr(), Ready: p.notReady(),
		Streams: p.openStreams(), Last: p.live.recent.Last(now), Loops: p.live.loops.newestFirst(),
		Upstreams: make([]LiveUpstream, 0, len(p.backends)),
	}
	for _, b := range p.backends {
		u := LiveUpstream{UpstreamState: b.state(now), Models: []ServedModel{}}
		if served := b.served.Load(); served != nil {
			u.Models = *served
		}
		s.Upstreams = append(s.Upstreams, u)
	}
	s.Open = len(s.Streams)
	for i := range s.Streams {
		switch {
		case s.Streams[i].Whole:
			s.Whole++
		case s.Streams[i].TTFTNS.OK:
			s.Decoding++
		}
	}
	slices.SortFunc(s.Streams, func(a, b OpenStream) int {
		return cmp.Or(cmp.Compare(b.AgeNS, a.AgeNS), cmp.Compare(a.ID, b.ID))
	})
	s.Streams = s.Streams[:min(len(s.Streams), maxListed)]
	return s
}

// liveFrame returns the state, and the matrix, as events of the stream. What is
// younger than half a period is not made again for another watcher.
func (p *Proxy) liveFrame() frame {
	l := p.live
	l.mu.Lock()
	defer l.mu.Unlock()
	now := stamp.Now()
	if l.frame.at == 0 || now.Sub(l.frame.at) > frameEvery/2 {
		l.frame = frame{at: now, state: sseEvent("state", p.liveState(now)), matrix: sseEvent("matrix", l.book.Matrix())}
	}
	return l.frame
}

// sseEvent encodes one server-sent event. JSON has no raw line feed, so that its
// data is one line.
func sseEvent(name string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		data = []byte("null")
	}
	return append(append([]byte("event: "+name+"\ndata: "), data...), "\n\n"...)
}

// serveLive answers with the stream of events that the page is drawn from.
func (p *Proxy) serveLive(ctx *fasthttp.RequestCtx) {
	if ctx.IsHead() {
		ctx.SetContentType("text/event-stream")
		return
	}
	if p.live.watchers.Add(1) > maxWatchers {
		p.live.watchers.Add(-1)
		ctx.Response.Header.Set("Retry-After", "5")
		say(ctx, fasthttp.StatusServiceUnavailable, "too many watchers\n")
		return
	}
	ctx.SetContentType("text/event-stream")
	ctx.Response.Header.Set("X-Accel-Buffering", "no") // nginx would hold the events back
	ctx.SetBodyStream(&liveBody{p: p, conn: ctx.Conn()}, -1)
}

// liveBody is the body of an event stream: its Read returns the next event when
// it is due.
type liveBody struct {
	p     *Proxy
	conn  net.Conn
	timer *time.Timer // nil before the first event
	sent  int
	rest  []byte
	over  bool
}

func (b *liveBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if !b.wait() {
			return 0, io.EOF
		}
		f := b.p.liveFrame()
		b.rest = f.state
		if b.sent%matrixEvery == 0 {
			b.rest = slices.Concat(f.matrix, f.state)
		}
		b.sent++
		// The server's limit is one for the whole response, and this one has
		// no end.
		_ = b.conn.SetWriteDeadline(time.Now().Add(liveWrite))
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// liveWrite bounds the writing of one event to a watcher.
const liveWrite = 10 * time.Second

// wait returns when an event is due; false when the admin port ends.
func (b *liveBody) wait() bool {
	if b.timer == nil {
		b.timer = time.NewTimer(frameEvery)
		return true
	}
	select {
	case <-b.timer.C:
		b.timer.Reset(frameEvery)
		return true
	case <-b.p.live.done:
		return false
	}
}

// Close is called by the server in every ending, more than once in some.
func (b *liveBody) Close() error {
	if !b.over {
		b.over = true
		b.p.live.watchers.Add(-1)
		if b.timer != nil {
			b.timer.Stop()
		}
	}
	return nil
}
