package enginetest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func startFake(t *testing.T, how string) *Server {
	t.Helper()
	s, err := fakeRecipe(t, how).start(t.Context(), Engine{Kind: "fake"}, Options{Model: "/no/model"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return s
}

func TestStartWaitsUntilReady(t *testing.T) {
	s := startFake(t, "good")
	resp, err := http.Get(s.URL + "/health")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	// The fake refuses twice: had Start not waited, this would be a 503.
	if resp.StatusCode != http.StatusOK {
		t.Errorf("after Start: %s", resp.Status)
	}
	if s.MetricsURL != s.URL+"/metrics" || s.Model != "tiny" {
		t.Errorf("MetricsURL %q, Model %q", s.MetricsURL, s.Model)
	}
	if got := s.LogTail(1 << 10); !strings.HasSuffix(got, "fake engine: good") {
		t.Errorf("LogTail = %q", got)
	}
	if got := s.LogTail(4); got != "ood" {
		t.Errorf("LogTail(4) = %q, want the last four bytes without the line's end", got)
	}
}

func TestStopEndsTheProcessAndItsLog(t *testing.T) {
	s := startFake(t, "good")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Exited():
	default:
		t.Error("Exited is open after Stop")
	}
	if err := syscall.Kill(-s.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("signal to the group after Stop: %v, want no such process", err)
	}
	if _, err := os.Stat(s.LogPath); !os.IsNotExist(err) {
		t.Errorf("the temporary log is still there: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestStopKillsWhatIgnoresSIGTERM(t *testing.T) {
	s := startFake(t, "stubborn")
	s.grace = 50 * time.Millisecond
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.exitErr.Error(), "killed") {
		t.Errorf("it ended with %v, want killed", s.exitErr)
	}
}

func TestStopKeepsALogDirOfTheCaller(t *testing.T) {
	dir := t.TempDir()
	s, err := fakeRecipe(t, "good").start(t.Context(), Engine{Kind: "fake"}, Options{Model: "/no/model", LogDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(s.LogPath); err != nil || !strings.Contains(string(b), "fake engine: good") {
		t.Errorf("log after Stop: %q, %v", b, err)
	}
}

func TestStartFailures(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name, how string
		ctx       context.Context
		opts      Options
		want      []string
	}{
		{"the engine exits", "broken", t.Context(), Options{}, []string{"before it was ready", "exit status 3", "cannot load the model"}},
		{"the engine ends without an error", "done", t.Context(), Options{}, []string{"before it was ready", "exit status 0"}},
		{"it never gets ready", "loading", t.Context(), Options{ReadyTimeout: 300 * time.Millisecond}, []string{"not ready after 300ms", "fake engine: loading"}},
		{"the caller gives up", "loading", canceled, Options{}, []string{"context canceled"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Model = "/no/model"
			s, err := fakeRecipe(t, c.how).start(c.ctx, Engine{Kind: "fake"}, c.opts)
			if err == nil {
				s.Stop()
				t.Fatal("it started")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q: %v", w, err)
				}
			}
		})
	}
}

func TestStartWithoutProgram(t *testing.T) {
	r := recipe{command: func(Engine, Options) (argv, env []string) { return []string{"/no/such/engine"}, nil }}
	if _, err := r.start(t.Context(), Engine{Kind: "fake"}, Options{Model: "/no/model"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want not exist", err)
	}
}

func TestSignalReachesTheProcess(t *testing.T) {
	s := startFake(t, "good")
	if err := s.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Exited()
}

func TestServerFromTheEnvironment(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	e := Engine{Kind: LlamaCPP, URL: srv.URL + "/"}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := e.Start(short, Options{}); err == nil || !strings.Contains(err.Error(), "STREAMGAUGE_LLAMACPP_URL") {
		t.Errorf("a server without /health: error %v, want one that names the variable", err)
	}
	srv.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s, err := e.Start(t.Context(), Options{Name: "big"})
	if err != nil {
		t.Fatal(err)
	}
	if s.URL != srv.URL || s.Model != "big" || s.PID != 0 {
		t.Errorf("URL %q, Model %q, PID %d", s.URL, s.Model, s.PID)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if err := s.Signal(syscall.SIGKILL); err == nil {
		t.Error("a signal was sent to a server that was not started here")
	}
	resp, err := http.Get(srv.URL)
	if err != nil {
		t.Fatalf("Stop ended a server that was not started here: %v", err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

func TestFreePortIsBelowTheKernelsRange(t *testing.T) {
	p, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	if p < 20000 || p >= 30000 {
		t.Errorf("port %d", p)
	}
}
