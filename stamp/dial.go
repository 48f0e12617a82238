package stamp

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Dialer opens stamped connections. The zero Dialer is usable.
type Dialer struct {
	// Timeout limits connecting and the TLS handshake together; 0 is no limit
	// beyond that of the context and the system.
	Timeout time.Duration
	// KeepAlive is the TCP keep-alive period; 0 is 15 s, negative is off.
	KeepAlive time.Duration
	// TLS, if not nil, is handshaken before DialContext returns. Its
	// ServerName defaults to the host of the address. HTTP/2 is never offered.
	TLS *tls.Config
	// TLSNow, if not nil, takes TLS's place: it is asked at each dial, so that
	// certificates can change.
	TLSNow func() *tls.Config
	// User asks for user stamps.
	User bool
	// Dial replaces the network, for tests; nil is net.Dialer: dual stack,
	// TCP_NODELAY.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// DialContext connects to addr ("host:port"). TCP and TLS are up when it
// returns. The context is not needed afterwards.
func (d *Dialer) DialContext(ctx context.Context, addr string) (*Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	dial := d.Dial
	if dial == nil {
		nd := net.Dialer{KeepAlive: d.KeepAlive}
		if !d.User {
			nd.Control = enable // before the connect: even an early byte is stamped
		}
		dial = nd.DialContext
	}
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := Wrap(conn, d.User)
	settings := d.TLS
	if d.TLSNow != nil {
		settings = d.TLSNow()
	}
	if settings == nil {
		return c, nil
	}
	t := tls.Client(c.sock, clientTLS(settings, addr))
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Abort()
		return nil, err
	}
	c.Conn = t
	return c, nil
}

func clientTLS(settings *tls.Config, addr string) *tls.Config {
	cfg := settings.Clone()
	if cfg.ServerName == "" {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			cfg.ServerName = host
		}
	}
	return withoutH2(cfg)
}

// Listener accepts stamped connections.
type Listener struct {
	net.Listener
	user bool
}

// WrapListener returns ln with stamped connections: each that Accept returns is
// a *Conn. See Wrap for user.
func WrapListener(ln net.Listener, user bool) net.Listener {
	if t, ok := ln.(*net.TCPListener); ok && !user {
		if raw, err := t.SyscallConn(); err == nil {
			_ = enable("", "", raw) // else Wrap sets it later, or falls back
		}
	}
	return &Listener{Listener: ln, user: user}
}

// Accept returns a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Wrap(c, l.user), nil
}
