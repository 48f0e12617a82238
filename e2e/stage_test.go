package e2e

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/enginetest"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/proxy"
	"github.com/streamgauge/streamgauge/report"
)

// stage is an engine, the relay before it, and the proxy before that.
type stage struct {
	engine      *enginetest.Server
	relay       *relay
	data, admin string // host:port of the proxy
	direct      bool   // loadgen talks to the relay, past the proxy
	told        map[string]*told
}

// raise puts a relay and a proxy before an engine until the test ends.
func raise(t *testing.T, s *enginetest.Server) *stage {
	t.Helper()
	st := &stage{engine: s, told: map[string]*told{}}
	st.relay = startRelay(t, strings.TrimPrefix(s.URL, "http://"))
	p, err := proxy.New(proxy.Config{
		Upstreams: []string{"http://" + st.relay.ln.Addr().String()},
		Records:   1 << 16, RecordBytes: 1 << 30, Drain: time.Second, Version: "e2e",
	}, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel))
	if err != nil {
		t.Fatal(err)
	}
	data, admin := listen(t), listen(t)
	st.data, st.admin = data.Addr().String(), admin.Addr().String()
	done := make(chan error, 2)
	go func() { done <- p.Serve(data) }()
	go func() { done <- p.ServeAdmin(admin) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(p.Shutdown(ctx), <-done, <-done); err != nil {
			t.Errorf("end of the proxy: %v", err)
		}
	})
	return st
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func (st *stage) target(t *testing.T) *engine.Target {
	t.Helper()
	at := st.data
	if st.direct {
		at = st.relay.ln.Addr().String()
	}
	target, err := engine.ParseURL("http://" + at)
	if err != nil {
		t.Fatal(err)
	}
	return &target
}

// run runs a matrix through the proxy, or past it, logs its text report, and returns its run
// file. The relay's bytes are read between the cells, while nothing is measured.
func (st *stage) run(t *testing.T, cfg loadgen.Config, info *engine.Info) (loadgen.Outcome, *matrix.Run) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.ndjson")
	w, err := matrix.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Tool = "streamgauge e2e"; !st.direct {
		cfg.ProxyAdmin = "http://" + st.admin
	}
	deps := loadgen.Deps{Target: st.target(t), Info: info, Writer: w, Progress: func(e loadgen.Event) {
		if e.Cell != nil {
			st.relay.fold(t, st.told)
		}
	}}
	out, err := loadgen.Run(t.Context(), cfg, deps)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatalf("run: %v", err)
	}
	if out.Outcome != loadgen.Done {
		t.Fatalf("the run ended as %s (%s), want %s", out.Outcome, out.Message, loadgen.Done)
	}
	st.relay.fold(t, st.told)
	run, err := matrix.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Bad) > 0 {
		t.Errorf("line %d of the run file: %v", run.Bad[0].Line, run.Bad[0].Err)
	}
	var text bytes.Buffer
	if err := report.Write(&text, "text", run); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text.Bytes())
	if dir := os.Getenv("STREAMGAUGE_E2E_OUT"); dir != "" {
		keep(t, path, filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-")+".ndjson"))
	}
	return out, run
}

// keep copies a run file to where a person wants to look at it.
func keep(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}
