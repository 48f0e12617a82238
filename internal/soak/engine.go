package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// engine is a server that does what the scripts say.
type engine struct {
	ln    net.Listener
	idle  time.Duration // connections without a request for this long are closed
	tally *tally

	open, most atomic.Int64 // streams, now and at most
	conns      sync.WaitGroup
	mu         sync.Mutex
	all        map[net.Conn]bool
	closed     bool
	gate       chan struct{} // if there is one, no stream finishes before it is closed
}

func newEngine(t *tally, idle time.Duration) (*engine, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &engine{ln: ln, idle: idle, tally: t, all: map[net.Conn]bool{}}
	e.conns.Go(e.accept)
	return e, nil
}

func (e *engine) addr() string { return e.ln.Addr().String() }

// close ends all connections and waits for that.
func (e *engine) close() {
	e.ln.Close()
	e.mu.Lock()
	e.closed = true
	for c := range e.all {
		c.Close()
	}
	e.mu.Unlock()
	e.conns.Wait()
}

func (e *engine) accept() {
	for {
		c, err := e.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			e.tally.fault("engine", fmt.Errorf("accept: %w", err))
			continue
		}
		e.mu.Lock()
		if e.closed {
			c.Close()
		} else {
			e.all[c] = true
			e.conns.Go(func() { e.serve(c.(*net.TCPConn)) })
		}
		e.mu.Unlock()
	}
}

// hold keeps all streams that begin from now on from finishing until open is
// called.
func (e *engine) hold() (open func()) {
	gate := make(chan struct{})
	e.mu.Lock()
	e.gate = gate
	e.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

func (e *engine) held() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gate
}

// session is one connection.
type session struct {
	e *engine
	c *net.TCPConn
	r *bufio.Reader
	b []byte

	// Of the answer under way: gone is closed when the peer has left, watched
	// when nobody looks for that any more.
	gone, watched chan struct{}
}

func (e *engine) serve(c *net.TCPConn) {
	defer func() {
		_ = c.Close()
		e.mu.Lock()
		delete(e.all, c)
		e.mu.Unlock()
	}()
	s := session{e: e, c: c, r: bufio.NewReader(c)}
	for s.request() {
	}
}

// request answers one; false when the connection is over.
func (s *session) request() bool {
	_ = s.c.SetReadDeadline(time.Now().Add(s.e.idle)) // a closed one ends the next read
	if _, err := s.r.Peek(1); err != nil {
		return false
	}
	_ = s.c.SetReadDeadline(time.Time{})
	r, err := http.ReadRequest(s.r)
	if err != nil {
		return false // a client that left while it asked
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	if r.Method != http.MethodPost {
		_, err := io.WriteString(s.c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n"+`{"object":"list","data":[]}`)
		return err == nil
	}
	sc, err := read(body)
	if err != nil {
		s.e.tally.fault("request", err)
		return false
	}
	now := s.e.open.Add(1)
	defer s.e.open.Add(-1)
	for most := s.e.most.Load(); now > most && !s.e.most.CompareAndSwap(most, now); most = s.e.most.Load() {
	}
	return s.answer(sc)
}

// patience is how long a silent engine waits to be left.
const patience = 30 * time.Second

// lost is how long an upstream may go on once its client has left, before that
// is a fault: far above the proxy's promise, since here a core may be busy for a
// while. The delays themselves are printed.
const lost = time.Second

// answer does what the script says, watching whether the peer leaves meanwhile.
func (s *session) answer(sc script) (keep bool) {
	s.gone, s.watched = make(chan struct{}), make(chan struct{})
	go s.watch()
	keep = s.play(sc)
	if at := time.Now(); keep {
		s.e.tally.ranOn(sc, at) // who has it all may leave at once
	} else {
		select {
		case <-s.gone:
			s.e.tally.aborted(sc, at)
		default:
		}
	}
	_ = s.c.SetReadDeadline(time.Unix(1, 0)) // ends the watching
	<-s.watched
	return keep
}

func (s *session) watch() {
	defer close(s.watched)
	if _, err := s.r.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		close(s.gone)
	}
}

// pause waits for d; false when the peer leaves meanwhile.
func (s *session) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.gone:
		return false
	}
}

// play sends the answer; false when the connection cannot be used again.
func (s *session) play(sc script) bool {
	switch {
	case sc.Fault == mute:
		return s.silence(sc)
	case sc.Whole:
		if !s.pause(time.Duration(sc.Events) * sc.Every) {
			return false
		}
		s.b = sc.appendAnswer(s.b[:0])
		return s.write(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(s.b), s.b))
	case !s.write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")):
		return false
	}
	next := time.Now()
	gate := s.e.held()
	var event []byte
	for i := range sc.total() {
		if i < sc.Events {
			next = next.Add(sc.Every)
			if !s.pause(time.Until(next)) {
				return false
			}
		} else if i == sc.Events && gate != nil {
			select {
			case <-gate:
			case <-s.gone:
				return false
			}
		}
		event = sc.appendEvent(event[:0], i)
		s.b = fmt.Appendf(s.b[:0], "%x\r\n%s\r\n", len(event), event)
		if sc.Fault != "" && i == sc.At {
			return s.fail(sc)
		}
		if i == sc.total()-1 {
			s.b = append(s.b, "0\r\n\r\n"...)
		}
		if !s.write(s.b) {
			return false
		}
	}
	return true
}

// write says whether the peer is still there.
func (s *session) write(p []byte) bool {
	if _, err := s.c.Write(p); err != nil {
		<-s.watched // which sees the same, and is to have said so
		return false
	}
	return true
}

// fail does the script's fault at the event in s.b.
func (s *session) fail(sc script) bool {
	switch sc.Fault {
	case quiet:
		return s.silence(sc)
	case reset:
		_ = s.c.SetLinger(0) // an error: it has ended already
	}
	_, _ = s.c.Write(s.b[:len(s.b)/2]) // likewise
	return false
}

func (s *session) silence(sc script) bool {
	if s.pause(patience) {
		s.e.tally.fault("silence", fmt.Errorf("stream %d: nobody left a silent engine within %v", sc.ID, patience))
	}
	return false
}
