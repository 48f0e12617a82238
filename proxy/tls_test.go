package proxy

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamgauge/streamgauge/sim"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  ed25519.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	own := a.issue("authority")
	a.cert, a.key = own.Leaf, own.PrivateKey.(ed25519.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// issue makes a certificate for 127.0.0.1; the first one signs itself.
func (a *authority) issue(name string) tls.Certificate {
	a.t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: a.cert == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, public, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) server(name string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.issue(name)}}
}

// secure makes the world's clients speak TLS.
func (w *world) secure(cfg *tls.Config) {
	plain := w.dial
	w.dial = func() (net.Conn, error) {
		c, err := plain()
		if err != nil {
			return nil, err
		}
		return tls.Client(c, cfg), nil
	}
}

// TestDataTLS: what holds on a plain port holds on this one.
func TestDataTLS(t *testing.T) {
	ca := newAuthority(t)
	w := sockets(t, Config{TLS: ca.server("data")}, func(n int, _ *sim.Played) sim.Script {
		switch n {
		case 0:
			return script(`C("a")@1 | C("b")@20 | FIN("stop") D @30`)
		case 1:
			sc := script(`C("a")@1`)
			sc.End = sim.Drop
			return sc
		}
		return endless(3)
	})
	defer w.close()
	w.secure(&tls.Config{RootCAs: ca.pool, ServerName: "127.0.0.1", NextProtos: []string{"h2", "http/1.1"}})

	a := w.say(chat())
	if want := string(bytesOf(script(`C("a")@1 | C("b")@20 | FIN("stop") D @30`))); string(a.body) != want || a.err != nil || len(a.pieces) < 3 {
		t.Errorf("got %q in %d pieces (%v), want %q in 3", a.body, len(a.pieces), a.err, want)
	}
	if a := w.say(chat()); a.err == nil {
		t.Error("an upstream that died looks like a clean end")
	}
	c, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, chat()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if p := c.(*tls.Conn).ConnectionState().NegotiatedProtocol; p != "http/1.1" {
		t.Errorf("negotiated %q, want http/1.1", p)
	}
	_ = c.Close()
	eventually(t, "the upstream of a client that left is aborted", func() bool { p := w.up.Played(); return len(p) == 3 && !p[2].Gone.IsZero() })
}

// A client that does not get through its handshake is let go.
func TestHandshakeTimeout(t *testing.T) {
	ca := newAuthority(t)
	synctest.Test(t, func(t *testing.T) {
		w := memory(t, Config{TLS: ca.server("data"), HandshakeTimeout: 3 * time.Second}, sim.Always(sim.Script{}))
		defer func() { w.close(); <-time.After(time.Minute) }()
		c, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err = c.Read(make([]byte, 1))
		if took := time.Since(begun); err == nil || took != 3*time.Second {
			t.Errorf("a silent client: %v after %v, want the end after 3s", err, took)
		}
	})
}

// TestReload: new connections get the new certificate and new requests the new
// policies; a stream that is open goes on.
func TestReload(t *testing.T) {
	ca := newAuthority(t)
	release := make(chan struct{})
	cfg := Config{TLS: ca.server("old"), Limits: small}
	body := looping(confirmed(t, small))
	w := sockets(t, cfg, func(n int, _ *sim.Played) sim.Script {
		if n == 0 {
			<-release
		}
		return sim.Script{Writes: []sim.Write{{Bytes: body}}}
	})
	defer w.close()
	client := &tls.Config{RootCAs: ca.pool, ServerName: "127.0.0.1"}
	w.secure(client)
	name := func() string {
		c, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.(*tls.Conn).Handshake(); err != nil {
			t.Fatal(err)
		}
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "old" {
		t.Fatalf("certificate %q, want old", got)
	}
	open := make(chan answer, 1)
	go func() { open <- w.say(chat()) }()
	eventually(t, "the stream is open", func() bool { return len(w.up.Played()) == 1 })

	if err := w.p.Reload(Config{TLS: ca.server("new"), Policies: []Policy{{Action: "kill"}}}); err == nil {
		t.Error("a policy that is none was taken")
	}
	if err := w.p.Reload(Config{Policies: policies(t, "cut")}); err == nil {
		t.Error("TLS was switched off")
	}
	if got := name(); got != "old" {
		t.Errorf("a reload that failed changed the certificate to %q", got)
	}
	if err := w.p.Reload(Config{TLS: ca.server("new"), Policies: policies(t, "cut")}); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "new" {
		t.Errorf("certificate %q after the reload, want new", got)
	}
	if a := w.say(chat()); !strings.HasSuffix(string(a.body), chatLast) {
		t.Errorf("the new policy does not hold: got …%q (%v)", tail(a.body), a.err)
	}
	close(release)
	if a := <-open; a.err != nil {
		t.Errorf("the open stream broke: %v", a.err)
	}
}

// The engine asks for a client certificate, and has one of an own authority;
// both can be reloaded.
func TestUpstreamTLS(t *testing.T) {
	ca := newAuthority(t)
	ln := loopbackListener(t)
	var asked []string
	settings := ca.server("engine")
	settings.ClientAuth, settings.ClientCAs = tls.RequireAnyClientCert, ca.pool
	settings.VerifyConnection = func(s tls.ConnectionState) error {
		asked = append(asked, s.PeerCertificates[0].Subject.CommonName)
		return nil
	}
	engine := sim.ServeScript(tls.NewListener(ln, settings), sim.Always(script(`C("a")@1 | FIN("stop") D @2`)))
	defer engine.Close()
	mine := func(name string) *tls.Config {
		return &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ca.issue(name)}}
	}
	w := sockets(t, Config{Upstreams: []string{"https://" + ln.Addr().String()}, UpstreamTLS: mine("one")}, sim.Always(sim.Script{}))
	defer w.close()
	for range 2 {
		if a := w.say(chat()); a.status != 200 || a.err != nil {
			t.Fatalf("got %d (%v), want 200", a.status, a.err)
		}
	}
	if err := w.p.Reload(Config{UpstreamTLS: mine("two")}); err != nil {
		t.Fatal(err)
	}
	if a := w.say(chat()); a.status != 200 || a.err != nil {
		t.Fatalf("after the reload: got %d (%v), want 200", a.status, a.err)
	}
	if got := strings.Join(asked, " "); got != "one two" {
		t.Errorf("the engine was shown %q, want one two: a kept connection for the second request, a new one after the reload", got)
	}
	if err := w.p.Reload(Config{UpstreamTLS: &tls.Config{RootCAs: x509.NewCertPool()}}); err != nil {
		t.Fatal(err)
	}
	if a := w.say(chat()); a.status != 502 || a.header.Get(errorHeader) != "connect" {
		t.Errorf("an engine of an unknown authority: got %d %q, want 502 connect", a.status, a.header.Get(errorHeader))
	}
}

// What is no TLS is not answered in the clear, where secrets would be expected
// next.
func TestPlainTextToTLS(t *testing.T) {
	ca := newAuthority(t)
	w := sockets(t, Config{TLS: ca.server("data")}, sim.Always(sim.Script{}))
	defer w.close()
	c, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if a := hear(t, c, bufio.NewReader(c), chat()); a.err == nil {
		t.Errorf("got %d", a.status)
	}
	if n := len(w.up.Played()); n != 0 {
		t.Errorf("the upstream got %d requests", n)
	}
}
