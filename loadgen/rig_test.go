package loadgen

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"
	"go.uber.org/goleak"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stamp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a simulated engine in a synctest bubble and what a run needs to reach it.
type rig struct {
	t    *testing.T
	srv  *sim.Server
	ln   *fasthttputil.InmemoryListener
	deps Deps
	path string // of the run file
}

// bubble runs f beside a simulated engine in virtual time.
func bubble(t *testing.T, p sim.Profile, o sim.Options, f func(r *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, srv: sim.New(p, o), ln: fasthttputil.NewInmemoryListener(), path: filepath.Join(dir, "run.ndjson")}
		done := make(chan error, 1)
		go func() { done <- r.srv.Serve(r.ln) }()
		transport := memoryTransport(r.ln)
		r.deps = depsOver(r.ln, transport)
		w, err := matrix.Create(r.path)
		if err != nil {
			t.Fatal(err)
		}
		r.deps.Writer = w

		f(r)

		if err := w.Close(); err != nil {
			t.Errorf("closing the run file: %v", err)
		}
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-time.After(2 * time.Minute) // virtual: fasthttp's idle workers end
	})
}

func memoryTransport(ln *fasthttputil.InmemoryListener) *http.Transport {
	return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ln.Dial() }}
}

func depsOver(ln *fasthttputil.InmemoryListener, transport http.RoundTripper) Deps {
	return Deps{
		Target: &engine.Target{URL: "http://engine.test:8000", Transport: transport},
		Dialer: stamp.Dialer{Dial: func(context.Context, string, string) (net.Conn, error) { return ln.Dial() }},
	}
}

// run runs cfg and fails the test when it does not come to its end.
func (r *rig) run(cfg Config) Outcome {
	r.t.Helper()
	out, err := Run(context.Background(), cfg, r.deps)
	if err != nil {
		r.t.Fatalf("Run: %v", err)
	}
	if out.Outcome != Done {
		r.t.Fatalf("outcome %s (%s), want %s", out.Outcome, out.Message, Done)
	}
	return out
}

// file reads the run file as it stands.
func (r *rig) file() *matrix.Run {
	r.t.Helper()
	f, err := os.Open(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	run, err := matrix.Read(f)
	if err != nil {
		r.t.Fatalf("run file: %v", err)
	}
	return run
}

// cell returns the cell of a context and concurrency.
func cellOf(t *testing.T, out Outcome, phase matrix.CellPhase, context, concurrency int) matrix.Cell {
	t.Helper()
	for _, c := range out.Cells {
		if c.Phase == phase && c.Context == context && c.Concurrency == concurrency {
			return c
		}
	}
	t.Fatalf("no %s cell of context %d, concurrency %d", phase, context, concurrency)
	return matrix.Cell{}
}

func profile(t *testing.T, name string) sim.Profile {
	t.Helper()
	p, err := sim.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
