//go:build unix

package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/cmd/internal/child"
	"github.com/streamgauge/streamgauge/matrix"
)

// spawn starts loadgen.
func spawn(t *testing.T, dir string, args ...string) *child.Child {
	t.Helper()
	return child.Spawn(t, dir, "loadgen", args...)
}

// runIn reads the run file in the folder, whatever happened to the run.
func runIn(t *testing.T, dir string) *matrix.Run {
	t.Helper()
	run, err := matrix.ReadFile(filepath.Join(dir, runFileName))
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Bad) != 0 {
		t.Errorf("unreadable lines in the run file: %v", run.Bad)
	}
	return run
}

// engineOf starts a simulated engine of the plain profile, 100 tok/s a stream,
// and returns it with its URL.
func engineOf(t *testing.T) (*child.Child, string) {
	t.Helper()
	c := spawn(t, t.TempDir(), "sim", "--profile", "plain", "--listen", "127.0.0.1:0")
	_, address, _ := strings.Cut(c.Says("simulating"), "http://")
	address, _, _ = strings.Cut(address, ",")
	return c, "http://" + address
}

// front is a server before an engine that sees what passes.
type front struct {
	*httptest.Server
	chunks chan struct{} // a token for each piece of a streamed answer, if somebody waits

	mu   sync.Mutex
	seen []string // method and path of each request
}

func frontOf(t *testing.T) *front {
	t.Helper()
	_, engine := engineOf(t)
	u, err := url.Parse(engine)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	f := &front{chunks: make(chan struct{})}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, FlushInterval: -1, Transport: transport,
		ModifyResponse: func(r *http.Response) error {
			if strings.Contains(r.Header.Get("Content-Type"), "event-stream") {
				r.Body = &noticed{r.Body, f.chunks}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.seen = append(f.seen, r.Method+" "+r.URL.Path)
		f.mu.Unlock()
		// Whole, for the transport looks for more of a body behind its end, which
		// the server has closed when an answer comes as fast as ours.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { f.CloseClientConnections(); f.Close(); transport.CloseIdleConnections() })
	return f
}

// requests are those that passed so far.
func (f *front) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.seen...)
}

// die does what the kernel does for a server that is killed: nobody listens any
// more, and what was connected is closed.
func (f *front) die() {
	_ = f.Listener.Close()
	f.CloseClientConnections()
}

// streamed waits until n pieces of answers have passed.
func (f *front) streamed(t *testing.T, n int) {
	t.Helper()
	limit := time.After(child.Patience)
	for range n {
		select {
		case <-f.chunks:
		case <-limit:
			t.Fatal("nothing is streamed")
		}
	}
}

type noticed struct {
	io.ReadCloser
	chunks chan<- struct{}
}

func (n *noticed) Read(p []byte) (int, error) {
	k, err := n.ReadCloser.Read(p)
	if k > 0 {
		select {
		case n.chunks <- struct{}{}:
		default:
		}
	}
	return k, err
}
