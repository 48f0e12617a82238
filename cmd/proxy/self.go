package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// lookupLimit bounds the look-up of an upstream's name.
const lookupLimit = 2 * time.Second

// selfMistakes names the upstreams that are one of the program's own ports: a
// request would be forwarded to itself until the connections run out.
func selfMistakes(upstreams []string, listen, admin string) (errs []error) {
	for _, raw := range upstreams {
		u, err := url.Parse(raw)
		if err != nil {
			continue // told elsewhere
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		for _, door := range []struct{ flag, address string }{{"--listen", listen}, {"--admin", admin}} {
			host, own, err := net.SplitHostPort(door.address)
			if err == nil && own == port && own != "0" && reaches(u.Hostname(), host) {
				errs = append(errs, fmt.Errorf("--upstream: %s is the proxy itself, which listens there by %s %s", u.Redacted(), door.flag, door.address))
			}
		}
	}
	return errs
}

// reaches reports whether connecting to a host ends at a listener on another (""
// is every interface) of this machine.
func reaches(host, listener string) bool {
	own := interfaces()
	bound := lookUp(listener)
	everywhere := listener == "" || slices.ContainsFunc(bound, netip.Addr.IsUnspecified)
	for _, a := range lookUp(host) {
		switch {
		case a.IsUnspecified(): // dialled, it is loopback
			if everywhere || slices.ContainsFunc(bound, netip.Addr.IsLoopback) {
				return true
			}
		case everywhere && (a.IsLoopback() || slices.Contains(own, a)), slices.Contains(bound, a):
			return true
		}
	}
	return false
}

// lookUp returns a host's addresses; none when it cannot be resolved, which is
// the dialler's to tell.
func lookUp(host string) []netip.Addr {
	if host == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for i, a := range found {
		found[i] = a.Unmap().WithZone("")
	}
	return found
}

// interfaces are the machine's own addresses.
func interfaces() (own []netip.Addr) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap().WithZone(""))
		}
	}
	return own
}
