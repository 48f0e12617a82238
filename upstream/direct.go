package upstream

import (
	"net"
	"net/netip"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

// knownFor is how long the address that a name stood for is used without asking
// again.
const knownFor = 30 * time.Second

// known is the address of a connection that was made, or found open.
type known struct {
	addr netip.AddrPort
	at   time.Time
}

func (c *Client) know(sc *stamp.Conn) {
	if c.Dialer.Dial != nil {
		return
	}
	if a, ok := sc.RemoteAddr().(*net.TCPAddr); ok {
		c.known.Store(&known{a.AddrPort(), time.Now()})
	}
}

// Direct returns the address to which connections can be made without the Client,
// for an event loop that must not wait for a name. ok is false where only the
// Client can: over TLS, through a dialer of the test's, or while a name's address is
// not known.
func (c *Client) Direct() (addr netip.AddrPort, ok bool) {
	if c.Dialer.TLS != nil || c.Dialer.TLSNow != nil || c.Dialer.Dial != nil {
		return addr, false
	}
	if addr, err := netip.ParseAddrPort(c.Addr); err == nil {
		return addr, addr.Addr().Zone() == ""
	}
	k := c.known.Load()
	if k == nil || time.Since(k.at) > knownFor || k.addr.Addr().Zone() != "" {
		return addr, false
	}
	return k.addr, true
}

// Unreached notes that no connection could be made to the address of Direct. It
// reports whether that came from a name: the Client asks for it again, and may find
// the server at another address.
func (c *Client) Unreached() bool {
	if _, err := netip.ParseAddrPort(c.Addr); err == nil {
		return false
	}
	c.known.Store(nil)
	return true
}

// AppendRequest appends req as it is sent, head and body. The body must not be a
// stream.
func (c *Client) AppendRequest(dst []byte, req *Request) ([]byte, error) {
	dst, err := req.appendHead(dst, c.host())
	if err != nil {
		return dst, &Error{Op: OpWrite, Addr: c.Addr, Err: err}
	}
	return append(dst, req.Body...), nil
}

// IdleLimit is how long a connection may wait for its next request; negative is
// not at all.
func (c *Client) IdleLimit() time.Duration { return c.maxIdle() }

// Opened counts a connection that is made without the Client; it reports false, and
// counts nothing, where MaxConns are open.
func (c *Client) Opened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.MaxConns > 0 && c.stats.Open >= c.MaxConns {
		return false
	}
	c.stats.Open++
	c.stats.Dials++
	return true
}

// Closed counts the end of a connection of Opened.
func (c *Client) Closed() { c.gone(1) }

// Parked counts n connections of Opened more as idle, or fewer.
func (c *Client) Parked(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parked += n
}

// Retried counts a request that is sent a second time.
func (c *Client) Retried() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Retries++
}
