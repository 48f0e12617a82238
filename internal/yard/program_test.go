package yard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the programs of the tests: role says which.
func TestMain(m *testing.M) {
	switch os.Getenv("YARD_TEST_ROLE") {
	case "serve":
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Getenv("YARD_TEST_ADDR"), http.NotFoundHandler()))
		os.Exit(1)
	case "fail":
		fmt.Fprintln(os.Stderr, "no such flag")
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

func role(name, addr string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "YARD_TEST_ROLE="+name, "YARD_TEST_ADDR="+addr)
	return cmd
}

func TestStartAndStop(t *testing.T) {
	addr, err := FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	for name, answers := range map[string]func() error{"answers": Answers("http://" + addr + "/"), "listens": Listens(addr)} {
		t.Run(name, func(t *testing.T) {
			p, err := Start(t.Context(), role("serve", addr), answers)
			if err != nil {
				t.Fatal(err)
			}
			if !p.Alive() {
				t.Error("it has ended")
			}
			if !p.Stop(syscall.SIGTERM) || p.Alive() || !p.Stop(syscall.SIGTERM) {
				t.Error("it did not end when it was told to")
			}
			if err := answers(); err == nil {
				t.Error("it still answers")
			}
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	never := func() error { return errors.New("nobody there") }
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	for _, tt := range []struct {
		name string
		ctx  context.Context
		cmd  *exec.Cmd
		want string
	}{
		{"it ends at once", t.Context(), role("fail", ""), "it ended at once: exit status 2\nno such flag"},
		{"there is no such program", t.Context(), exec.Command(filepath.Join(t.TempDir(), "none")), "no such file"},
		{"the context ends first", ended, role("serve", "127.0.0.1:0"), "interrupted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Start(tt.ctx, tt.cmd, never); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}
