package main

import (
	"net"
	"testing"
)

func TestUpstreamIsTheProxyItself(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	own := "127.0.0.1"
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			own = n.IP.String()
		}
	}
	for _, tc := range []struct {
		name, upstream, listen string
		self                   bool
	}{
		{"loopback, every interface", "http://127.0.0.1:9000", ":9000", true},
		{"an interface's address", "http://" + own + ":9000", ":9000", true},
		{"any loopback address", "http://127.0.0.2:9000", "0.0.0.0:9000", true},
		{"by name", "http://localhost:9000", "127.0.0.1:9000", true},
		{"IPv6", "http://[::1]:9000", "[::]:9000", true},
		{"unspecified is dialled as loopback", "http://0.0.0.0:9000", "127.0.0.1:9000", true},
		{"the scheme's port", "http://127.0.0.1", ":80", true},
		{"the admin port", "http://127.0.0.1:9464", ":9000", true},
		{"another port", "http://127.0.0.1:8000", ":9000", false},
		{"another loopback address", "http://127.0.0.2:9000", "127.0.0.1:9000", false},
		{"another machine", "http://192.0.2.1:9000", ":9000", false},
		{"a port the system chooses", "http://127.0.0.1:0", "127.0.0.1:0", false},
	} {
		got := selfMistakes([]string{tc.upstream}, tc.listen, "127.0.0.1:9464")
		if (len(got) == 1) != tc.self {
			t.Errorf("%s: got %v, want a mistake: %v", tc.name, got, tc.self)
		}
	}
}
