package sim

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Script is one response of a raw upstream: bytes at given times and an ending
// as bad as asked. Its zero value is an empty 200 event stream, chunked.
type Script struct {
	Status  int           // 0 = 200
	Header  []string      // "Name: value" lines; nil = Content-Type: text/event-stream
	After   time.Duration // when the header is sent; negative = with the first write
	Framing Framing
	Length  int // Content-Length told, with ByLength; 0 = what the writes sum to
	Writes  []Write
	End     Ending
	EndAt   time.Duration // when the ending happens; it never precedes the last write
	// Idle closes a connection that was kept alive after so long without a
	// request; 0 = never.
	Idle time.Duration
}

// Write is one write to the connection, with ByChunks one HTTP chunk.
// At counts from the moment the whole request was read.
type Write struct {
	At    time.Duration
	Bytes []byte
}

// Split cuts every write into writes of at most size bytes at the same time, to
// show that framing does not matter.
func Split(writes []Write, size int) []Write {
	var out []Write
	for _, w := range writes {
		for b := range slices.Chunk(w.Bytes, size) {
			out = append(out, Write{w.At, b})
		}
	}
	return out
}

// Framing is how the end of a body is told.
type Framing uint8

const (
	ByChunks Framing = iota // Transfer-Encoding: chunked
	ByLength                // Content-Length
	ByClose                 // neither: the body ends with the connection
	ByHTTP10                // the same under an HTTP/1.0 status line
	ByItself                // Writes hold status line, header and framing themselves
)

// Ending is what happens after the last write.
type Ending uint8

const (
	Finish Ending = iota // the framing's proper end; the connection stays open where it may
	Close                // the proper end, then FIN
	Drop                 // FIN without the proper end: no last chunk, or a body that is too short
	Reset                // RST; on connections that cannot send one, like Drop
	Hang                 // nothing: the connection stays open until the client leaves
)

// Played is the truth about one response of a ScriptServer. A time that never
// came is zero.
type Played struct {
	Conn   int // number of the connection, from 0
	Method string
	Target string
	Header http.Header
	Body   []byte
	Read   time.Time   // the request was read whole
	Wrote  []time.Time // taken directly before each write
	Ended  time.Time   // the ending happened
	Gone   time.Time   // the client was seen to leave before the ending
	Err    error       // of a write
}

// ScriptServer plays scripts on a listener.
type ScriptServer struct {
	ln   net.Listener
	next func(n int, p *Played) Script
	wg   sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	opened int
	played []*Played
	closed bool
}

// ServeScript answers request n, counted from 0 over all connections, with what
// next returns. It runs until Close; in a synctest bubble too, as long as the
// listener was made there. next is called from the connection's goroutine.
func ServeScript(ln net.Listener, next func(n int, p *Played) Script) *ScriptServer {
	s := &ScriptServer{ln: ln, next: next, conns: map[net.Conn]struct{}{}}
	s.wg.Go(s.accept)
	return s
}

// Always plays the same script for every request.
func Always(sc Script) func(int, *Played) Script {
	return func(int, *Played) Script { return sc }
}

// Addr is the listener's address.
func (s *ScriptServer) Addr() net.Addr { return s.ln.Addr() }

// Played returns copies of the responses so far in order of their requests.
func (s *ScriptServer) Played() []Played {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Played, len(s.played))
	for i, p := range s.played {
		out[i] = *p
		out[i].Wrote = append([]time.Time(nil), p.Wrote...)
	}
	return out
}

// Conns is the number of connections accepted so far.
func (s *ScriptServer) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Close closes the listener and all connections and waits for their goroutines.
func (s *ScriptServer) Close() {
	s.mu.Lock()
	s.closed = true
	s.ln.Close()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *ScriptServer) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			c.Close()
		}
		s.conns[c] = struct{}{}
		id := s.opened
		s.opened++
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(c, id)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			c.Close()
		})
	}
}

// player is one connection. Its reader runs beside it, so that the client's
// leaving is seen while the script waits.
type player struct {
	srv  *ScriptServer
	conn net.Conn
	id   int
	pipe *io.PipeWriter
	gone chan struct{} // closed when the client has left
	left time.Time     // set before gone is closed
}

func (s *ScriptServer) serve(c net.Conn, id int) {
	r, w := io.Pipe()
	p := &player{srv: s, conn: c, id: id, pipe: w, gone: make(chan struct{})}
	var reader sync.WaitGroup
	reader.Go(p.read)
	defer reader.Wait()
	defer r.Close() // frees a reader whose bytes nobody wants
	defer c.Close()
	br := bufio.NewReaderSize(r, 64<<10)
	var idle *time.Timer
	for {
		req, err := http.ReadRequest(br)
		if idle != nil && !idle.Stop() {
			return
		}
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		played := &Played{Conn: id, Method: req.Method, Target: req.RequestURI, Header: req.Header, Body: body, Read: time.Now()}
		s.mu.Lock()
		n := len(s.played)
		s.played = append(s.played, played)
		s.mu.Unlock()
		sc := s.next(n, played)
		if !p.play(sc, played) {
			return
		}
		if sc.Idle > 0 {
			idle = time.AfterFunc(sc.Idle, func() { c.Close() })
		}
	}
}

// read moves bytes from the connection to the request parser until it ends.
func (p *player) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.conn.Read(buf)
		if err != nil {
			p.left = time.Now()
			close(p.gone)
			p.pipe.CloseWithError(err)
			return
		}
		if _, err := p.pipe.Write(buf[:n]); err != nil {
			return // the player has ended
		}
	}
}

// play sends one response and reports whether the connection is to be kept.
func (p *player) play(sc Script, played *Played) bool {
	head := sc.head()
	if sc.After >= 0 && len(head) > 0 {
		if !p.at(sc.After, nil, head, played) {
			return false
		}
		head = nil
	}
	for _, w := range sc.Writes {
		if !p.at(w.At, played, append(head, sc.framed(w.Bytes)...), played) {
			return false
		}
		head = nil
	}
	if len(head) > 0 && !p.at(0, nil, head, played) {
		return false
	}
	if !p.wait(sc.EndAt, played) {
		return false
	}
	return p.end(sc, played)
}

// at waits until t after the request and writes. The instant is logged when
// logged is not nil.
func (p *player) at(t time.Duration, logged *Played, b []byte, played *Played) bool {
	if !p.wait(t, played) {
		return false
	}
	now := time.Now()
	p.srv.mu.Lock()
	if logged != nil {
		logged.Wrote = append(logged.Wrote, now)
	}
	p.srv.mu.Unlock()
	if _, err := p.conn.Write(b); err != nil {
		p.srv.mu.Lock()
		played.Err = err
		p.srv.mu.Unlock()
		return false
	}
	return true
}

// wait sleeps until t after the request, or reports that the client left.
func (p *player) wait(t time.Duration, played *Played) bool {
	d := time.Until(played.Read.Add(t))
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.gone:
		p.noteGone(played)
		return false
	}
}

func (p *player) noteGone(played *Played) {
	p.srv.mu.Lock()
	defer p.srv.mu.Unlock()
	played.Gone = p.left
}

func (p *player) end(sc Script, played *Played) bool {
	if sc.End == Hang {
		<-p.gone
		p.noteGone(played)
		return false
	}
	proper := sc.End == Finish || sc.End == Close
	if proper && sc.Framing == ByChunks && !p.at(0, nil, []byte("0\r\n\r\n"), played) {
		return false
	}
	if tcp, ok := p.conn.(*net.TCPConn); ok && sc.End == Reset {
		_ = tcp.SetLinger(0) // Close sends RST
	}
	p.srv.mu.Lock()
	played.Ended = time.Now()
	p.srv.mu.Unlock()
	return sc.End == Finish && (sc.Framing == ByChunks || sc.Framing == ByLength || sc.Framing == ByItself)
}

func (sc Script) head() []byte {
	if sc.Framing == ByItself {
		return nil
	}
	status, proto := sc.Status, "HTTP/1.1"
	if status == 0 {
		status = http.StatusOK
	}
	if sc.Framing == ByHTTP10 {
		proto = "HTTP/1.0"
	}
	header := sc.Header
	if header == nil {
		header = []string{"Content-Type: text/event-stream"}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %s\r\n", proto, status, http.StatusText(status))
	for _, line := range header {
		b.WriteString(line + "\r\n")
	}
	switch sc.Framing {
	case ByChunks:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case ByLength:
		n := sc.Length
		if n == 0 {
			for _, w := range sc.Writes {
				n += len(w.Bytes)
			}
		}
		fmt.Fprintf(&b, "Content-Length: %d\r\n", n)
	case ByClose:
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

func (sc Script) framed(b []byte) []byte {
	if sc.Framing != ByChunks || len(b) == 0 {
		return b
	}
	return fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b)
}
