package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/streamgauge/streamgauge/sim"
)

// A proxy that serves another address and saw nothing of what was sent is not in
// the path: that is said before the first cell, and in the file.
func TestProxyOutOfThePath(t *testing.T) {
	for _, c := range []struct {
		name         string
		blind, warns bool
		url          string
	}{
		{"another address, and no record", true, true, "http://engine.test:8000"},
		{"another name of it, with a record", false, false, "http://engine.test:8000"},
		{"its own address, before it wrote a record", true, false, "http://127.0.0.1:9000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
				r.deps.Admin = &fakeProxy{r: r, lost: func(string) bool { return c.blind }}
				r.deps.Target.URL = c.url
				var said []string
				cells := 0
				r.deps.Progress = func(e Event) {
					if e.Cell != nil {
						cells++
					}
					if e.Message != "" && cells == 0 {
						said = append(said, e.Message)
					}
				}
				cfg := oneCell(1)
				cfg.ProxyAdmin = "http://proxy.test:9464"
				r.run(cfg)
				head := r.file().Header.Warnings
				if !c.warns {
					if len(head)+len(said) > 0 {
						t.Errorf("header warnings %v, said %q; want none", head, said)
					}
					return
				}
				if len(head) != 1 || head[0].Code != "proxy_elsewhere" || !strings.Contains(head[0].Message, "serves 127.0.0.1:9000") {
					t.Errorf("header warnings %v, want proxy_elsewhere with the address it serves", head)
				}
				if len(said) != 1 || !strings.Contains(said[0], "not in the path") {
					t.Errorf("said before the first cell: %q", said)
				}
			})
		})
	}
}

func TestSameAddress(t *testing.T) {
	for _, c := range []struct {
		data, url string
		want      bool
	}{
		{"127.0.0.1:9000", "http://127.0.0.1:9000", true},
		{"127.0.0.1:9000", "http://localhost:9000", true},
		{"[::]:9000", "http://gpu7:9000", true},
		{":9000", "http://gpu7:9000", true},
		{"0.0.0.0:443", "https://gpu7", true},
		{"[::1]:9000", "http://[::1]:9000/v1", true},
		{"127.0.0.1:9000", "http://127.0.0.1:8000", false},
		{"10.0.0.1:9000", "http://10.0.0.2:9000", false},
		{"10.0.0.1:9000", "http://localhost:9000", false},
		{"somewhere", "http://somewhere", false},
	} {
		if got := sameAddress(c.data, c.url); got != c.want {
			t.Errorf("%s is %s: %v, want %v", c.data, c.url, got, c.want)
		}
	}
}

// What the proxy's port gives is a record of this version or an error, never
// numbers of another meaning.
func TestProxyRecordsAreChecked(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"another version", `{"type":"record","v":2,"id":"a"}`, "version 2"},
		{"another type", `{"type":"cell","v":1,"id":"a"}`, `type "cell"`},
		{"no type", `{"id":"a"}`, `type ""`},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &proxyRecords{base: "http://proxy.test", http: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				fmt.Fprintln(w, c.line)
				return w.Result(), nil
			})}}
			got, err := p.pull(t.Context(), map[string]bool{"a": true})
			if err == nil || !strings.Contains(err.Error(), c.want) || len(got) != 0 {
				t.Errorf("%s: %v with %d records, want an error that names %s and none", c.name, err, len(got), c.want)
			}
		})
	}
}

// The sentence about an admin port that nobody serves names the address once.
func TestDeadAdminPort(t *testing.T) {
	_, err := findProxy(context.Background(), "http://127.0.0.1:1", roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("dial tcp 127.0.0.1:1: connect: %w", syscall.ECONNREFUSED)
	}))
	if want := "proxy admin port: cannot reach http://127.0.0.1:1: connection refused"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
