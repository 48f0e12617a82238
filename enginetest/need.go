package enginetest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// Need returns an engine that a test can start, installing it when it is not in
// the cache. The test is skipped, with the reason, unless STREAMGAUGE_E2E=1; when
// the engine is missing and $STREAMGAUGE_ENGINES_SKIP forbids installing; and
// when the disk is too full for it. Any other trouble fails the test.
func Need(t testing.TB, kind Kind) Engine {
	t.Helper()
	if os.Getenv("STREAMGAUGE_E2E") != "1" {
		t.Skipf("starts a real %s: set STREAMGAUGE_E2E=1 (or run make e2e)", kind)
	}
	if u := os.Getenv(kind.URLVar()); u != "" {
		return Engine{Kind: kind, URL: u}
	}
	if os.Getenv("STREAMGAUGE_ENGINES_SKIP") != "" {
		e, err := Installed(kind)
		if errors.Is(err, ErrNotInstalled) {
			t.Skipf("STREAMGAUGE_ENGINES_SKIP is set: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	e, err := Install(ctx, kind, os.Stderr)
	if errors.Is(err, ErrDiskSpace) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Run starts an engine for one test and stops it when the test ends. The end of
// the engine's log is shown when the test failed.
func Run(t testing.TB, kind Kind, opts Options) *Server {
	t.Helper()
	s, err := Need(t, kind).Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && s.LogPath != "" {
			t.Logf("the end of %s's log:\n%s", kind, s.LogTail(4<<10))
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
