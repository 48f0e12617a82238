package proxy

import (
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// patient is a listener that outlives failures to accept: without a free
// descriptor, or memory, for a moment. The server takes every error but a timeout
// for the listener's end, and the open streams would drain.
type patient struct {
	net.Listener
	log zerolog.Logger // sampled
}

// passing are the errors of accepting that say nothing of the listener.
var passing = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}

// Accept waits a little longer after each such failure, as net/http's server does.
func (p patient) Accept() (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := p.Listener.Accept()
		if err == nil || !slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) }) {
			return c, err
		}
		p.log.Warn().Err(err).Stringer("again_in", wait).Msg("a connection could not be accepted")
		time.Sleep(wait)
	}
}

// deaf is the server's listener where event loops accept the clients: what they
// are not for they give to the server one by one.
type deaf struct {
	addr   net.Addr
	once   sync.Once
	closed chan struct{}
}

func newDeaf(addr net.Addr) *deaf {
	return &deaf{addr: addr, closed: make(chan struct{})}
}

// Accept returns net.ErrClosed after Close.
func (d *deaf) Accept() (net.Conn, error) {
	<-d.closed
	return nil, net.ErrClosed
}

// Close ends Accept.
func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// Addr is the loops' address.
func (d *deaf) Addr() net.Addr { return d.addr }
