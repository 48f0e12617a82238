package stamp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// selfSigned returns a certificate for 127.0.0.1 and a pool that trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestDialTLS(t *testing.T) {
	if runtime.GOOS == "linux" {
		warm(t)
	}
	cert, pool := selfSigned(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert},
		NextProtos:   []string{"h2", "http/1.1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	proto := make(chan string, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		server := c.(*tls.Conn)
		if err := server.Handshake(); err != nil {
			return
		}
		proto <- server.ConnectionState().NegotiatedProtocol
		io.Copy(c, c)
	}()
	d := &Dialer{TLS: &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}}}
	c, err := d.DialContext(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := <-proto; got != "http/1.1" {
		t.Errorf("negotiated %q, want http/1.1: there is no HTTP/2 here", got)
	}
	buf := make([]byte, 16)
	for i := range 20 {
		before := Now()
		c.Write([]byte("token"))
		n, err := c.Read(buf)
		if err != nil || string(buf[:n]) != "token" {
			t.Fatalf("read %d: got %q, %v, want token", i, buf[:n], err)
		}
		at, src := c.Stamp()
		if at < before || at > Now() {
			t.Errorf("read %d: got a stamp %v after the write began, want it between write and read", i, at.Sub(before))
		}
		if i > 0 && runtime.GOOS == "linux" && src != Kernel {
			t.Errorf("read %d: got source %v, want kernel: stamps are the socket's", i, src)
		}
	}
}

func TestDialTLSRefusesAnUnknownCertificate(t *testing.T) {
	cert, _ := selfSigned(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	_, err = (&Dialer{TLS: &tls.Config{}}).DialContext(t.Context(), ln.Addr().String())
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("got %v, want x509.UnknownAuthorityError", err)
	}
}

func TestDialLimits(t *testing.T) {
	silent := func(ours *net.Conn) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			*ours = server
			go io.Copy(io.Discard, server)
			return client, nil
		}
	}
	stuck := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	t.Run("handshake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var server net.Conn
			d := &Dialer{Timeout: 3 * time.Second, TLS: &tls.Config{}, Dial: silent(&server)}
			begin := time.Now()
			_, err := d.DialContext(t.Context(), "engine:443")
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 3*time.Second {
				t.Errorf("got %v after %v, want context.DeadlineExceeded after 3s", err, time.Since(begin))
			}
			server.Close()
		})
	})
	t.Run("connect", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			_, err := (&Dialer{Timeout: 3 * time.Second, Dial: stuck}).DialContext(t.Context(), "engine:80")
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 3*time.Second {
				t.Errorf("got %v after %v, want context.DeadlineExceeded after 3s", err, time.Since(begin))
			}
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			begin := time.Now()
			_, err := (&Dialer{Dial: stuck}).DialContext(ctx, "engine:80")
			if !errors.Is(err, context.Canceled) || time.Since(begin) != time.Second {
				t.Errorf("got %v after %v, want context.Canceled after 1s", err, time.Since(begin))
			}
		})
	})
}

func TestAbortAndCloseWriteReachThroughTLS(t *testing.T) {
	cert, pool := selfSigned(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	seen := make(chan error, 1)
	go func() {
		for range 2 {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, err = io.Copy(io.Discard, c)
			c.Close()
			seen <- err
		}
	}()
	d := &Dialer{TLS: &tls.Config{RootCAs: pool}}
	for _, tt := range []struct {
		name  string
		do    func(*Conn) error
		clean bool
	}{
		{"CloseWrite is a clean end", (*Conn).CloseWrite, true},
		{"Abort is a reset", (*Conn).Abort, false},
	} {
		c, err := d.DialContext(t.Context(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.do(c); err != nil {
			t.Errorf("%s: got %v, want nil", tt.name, err)
		}
		if err := <-seen; (err == nil) != tt.clean {
			t.Errorf("%s: the peer saw %v", tt.name, err)
		}
		c.Close()
	}
}
