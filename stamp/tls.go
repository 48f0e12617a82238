package stamp

import (
	"context"
	"crypto/tls"
	"slices"
)

// ServeTLS makes c the server's end of TLS; what is read and written from now on
// is inside it. HTTP/2 is never offered. Call it before the first Read.
func (c *Conn) ServeTLS(cfg *tls.Config) {
	c.Conn = tls.Server(c.sock, withoutH2(cfg.Clone()))
}

// Handshake brings TLS up, and does nothing where it is up or there is none. When
// ctx ends before, c is closed.
func (c *Conn) Handshake(ctx context.Context) error {
	if t, ok := c.Conn.(*tls.Conn); ok {
		return t.HandshakeContext(ctx)
	}
	return nil
}

// withoutH2 takes HTTP/2 out of cfg's protocols: nothing here speaks it.
func withoutH2(cfg *tls.Config) *tls.Config {
	cfg.NextProtos = slices.DeleteFunc(slices.Clone(cfg.NextProtos), func(p string) bool { return p == "h2" })
	if len(cfg.NextProtos) == 0 {
		cfg.NextProtos = []string{"http/1.1"}
	}
	return cfg
}
