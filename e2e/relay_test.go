package e2e

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// relay copies TCP connections to an engine and keeps what went over them.
type relay struct {
	ln     net.Listener
	engine string // host:port
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns int
	tapes []*tape
}

// tape is one connection, kept.
type tape struct {
	n     int // of the connection
	mu    sync.Mutex
	asked []byte // from the proxy
	told  []byte // from the engine, as far as it was passed on
	marks []mark // of told, in its order
	over  bool
}

// mark says when told[:end] had been passed on. The kernel's stamp at the other
// end of a loopback connection lies between the two times; only where segments
// were merged it is that of the last of them.
type mark struct {
	end           int
	before, after time.Time
}

// startRelay runs a relay to an engine until the test ends. What connects to it
// has to be ended before: register its cleanup later.
func startRelay(t *testing.T, engine string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln, engine: engine}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		ln.Close()
		r.wg.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		c, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.carry(c.(*net.TCPConn)) })
	}
}

// carry copies one connection both ways until either side ends, and then ends
// the other in the same way: a reset stays a reset.
func (r *relay) carry(proxy *net.TCPConn) {
	c, err := net.Dial("tcp", r.engine)
	if err != nil {
		_ = proxy.SetLinger(0)
		proxy.Close()
		return
	}
	engine := c.(*net.TCPConn)
	r.mu.Lock()
	r.conns++
	tp := &tape{n: r.conns}
	r.tapes = append(r.tapes, tp)
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { pass(engine, proxy, tp.ask) })
	both.Go(func() { pass(proxy, engine, tp.tell) })
	both.Wait()
	tp.mu.Lock()
	tp.over = true
	tp.mu.Unlock()
}

// pass copies from one connection to the other until one fails, and closes both.
func pass(to, from *net.TCPConn, write func(to net.Conn, p []byte) error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if werr := write(to, buf[:n]); werr != nil {
				err = werr
			}
		}
		if err == nil {
			continue
		}
		if errors.Is(err, syscall.ECONNRESET) {
			_ = to.SetLinger(0)
		}
		to.Close()
		from.Close()
		return
	}
}

// ask keeps a piece of a request before it goes on, so that no answer is older
// than its question.
func (tp *tape) ask(to net.Conn, p []byte) error {
	tp.mu.Lock()
	tp.asked = append(tp.asked, p...)
	tp.mu.Unlock()
	_, err := to.Write(p)
	return err
}

// tell passes a piece of a response on and keeps what of it went.
func (tp *tape) tell(to net.Conn, p []byte) error {
	m := mark{before: time.Now()}
	n, err := to.Write(p)
	m.after = time.Now()
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.told = append(tp.told, p[:n]...)
	m.end = len(tp.told)
	tp.marks = append(tp.marks, m)
	return err
}

// read gives what was kept so far; what is appended later does not touch it.
func (tp *tape) read() (asked, told []byte, marks []mark, over bool) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return tp.asked, tp.told, tp.marks, tp.over
}

// fold reads the streams that went over the relay into all, by id, and drops the
// connections that are over. A stream that was not yet over when it was read is
// read again by the next call.
func (r *relay) fold(t *testing.T, all map[string]*told) {
	t.Helper()
	r.mu.Lock()
	tapes := r.tapes
	r.tapes = nil
	r.mu.Unlock()
	for _, tp := range tapes {
		asked, said, marks, over := tp.read()
		streams, err := readTape(asked, said, marks)
		if err != nil {
			t.Fatalf("connection %d of the relay: %v", tp.n, err)
		}
		for i, s := range streams {
			if s.id == "" { // a probe of the load generator's
				s.id = fmt.Sprintf("connection %d request %d", tp.n, i)
			}
			if s.status == 0 && all[s.id] != nil {
				continue // the engine had closed this connection; asked again on another
			}
			all[s.id] = s
		}
		if !over {
			r.mu.Lock()
			r.tapes = append(r.tapes, tp)
			r.mu.Unlock()
		}
	}
}
