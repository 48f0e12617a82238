package chaosloadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
	"github.com/streamgauge/streamgauge/matrix"
)

const (
	runs    = 20 // of each kind
	atOnce  = 4
	overBy  = 5 * time.Second
	longest = 14 * time.Second // of an undisturbed run, about
)

var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getenv("STREAMGAUGE_CHAOS") == "" {
			return m.Run() // each test says that it is skipped
		}
		// The children would warn of a variable that is no setting of theirs.
		if err := os.Unsetenv("STREAMGAUGE_CHAOS"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		dir, err := os.MkdirTemp("", "chaosloadgen-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		program = filepath.Join(dir, "loadgen")
		if err := yard.Build(context.Background(), ".", "github.com/streamgauge/streamgauge/cmd/loadgen", program); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// chaos runs a test at random instants, a few at once.
func chaos(t *testing.T, one func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	if program == "" {
		t.Skip("minutes of real time: set STREAMGAUGE_CHAOS=1")
	}
	slots := make(chan struct{}, atOnce)
	for i := range runs {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			one(t, rand.New(rand.NewPCG(uint64(i), 6)))
		})
	}
}

// engine starts a simulated engine and returns its URL.
func engine(t *testing.T) (string, *yard.Program) {
	t.Helper()
	addr, err := yard.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	p, err := yard.Start(t.Context(), exec.Command(program, "sim", "--profile", "plain", "--listen", addr), yard.Answers("http://"+addr+"/health"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(os.Kill) })
	return "http://" + addr, p
}

// args are those of a run of two prefill rows and six cells.
func args(url, out string) []string {
	return []string{"--url", url, "--contexts", "0,1k", "--concurrency", "1,2,4", "--duration", "1s", "--settle", "200ms",
		"--max-tokens", "50", "--no-tui", "--quiet", "--events", "--out", out}
}

// ended waits for a process; late: it was not over in time.
func ended(cmd *exec.Cmd, within time.Duration) (code int, late bool) {
	kill := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	late = !kill.Stop()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), late
	}
	return 0, late
}

// sound checks what a run has left behind and returns how many cells there are.
func sound(t *testing.T, out string) int {
	t.Helper()
	path := filepath.Join(out, "run.ndjson")
	run, err := matrix.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(out); err == nil {
			t.Errorf("no run file, but its folder is there")
		}
		return 0
	}
	if err != nil {
		t.Errorf("run file: %v", err)
		return 0
	}
	if len(run.Bad) > 1 { // one line can be torn, by a disk that is full
		t.Errorf("%d lines cannot be read: %+v", len(run.Bad), run.Bad)
	}
	for _, format := range []string{"text", "markdown", "csv", "json", "html"} {
		var said bytes.Buffer
		cmd := exec.Command(program, "report", path, "--format", format)
		cmd.Stdout, cmd.Stderr = io.Discard, &said
		if err := cmd.Run(); err != nil {
			t.Errorf("report --format %s: %v: %s", format, err, said.Bytes())
		}
	}
	return len(run.Cells)
}

func TestEngineKilled(t *testing.T) {
	chaos(t, func(t *testing.T, rng *rand.Rand) {
		url, sim := engine(t)
		out := filepath.Join(t.TempDir(), "run")
		var said bytes.Buffer
		cmd := exec.Command(program, args(url, out)...)
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		at := time.Duration(rng.Int64N(int64(longest)))
		<-time.After(at)
		sim.Stop(os.Kill)
		code, late := ended(cmd, overBy)
		cells := sound(t, out)
		t.Logf("killed after %v: code %d, %d cells", at, code, cells)
		if late {
			t.Errorf("killed after %v: loadgen went on for more than %v", at, overBy)
		}
		if code == 0 && cells < 9 || code != 0 && code != 1 {
			t.Errorf("killed after %v: exit code %d with %d cells, want 1: %s", at, code, cells, said.Bytes())
		}
	})
}

func TestInterrupted(t *testing.T) {
	chaos(t, func(t *testing.T, rng *rand.Rand) {
		url, _ := engine(t)
		out := filepath.Join(t.TempDir(), "run")
		cmd := exec.Command(program, args(url, out)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The first instants belong to the runtime, which has no handler yet.
		at := 100*time.Millisecond + time.Duration(rng.Int64N(int64(longest)))
		<-time.After(at)
		_ = cmd.Process.Signal(syscall.SIGINT) // it may be over
		code, late := ended(cmd, overBy)
		cells := sound(t, out)
		t.Logf("interrupted after %v: code %d, %d cells", at, code, cells)
		if late {
			t.Errorf("interrupted after %v: loadgen went on for more than %v", at, overBy)
		}
		if code == 0 && cells < 9 || code != 0 && code != 130 {
			t.Errorf("interrupted after %v: exit code %d with %d cells, want 130", at, code, cells)
		}
	})
}

// TestDiskFull gives loadgen a file system of its own that is full after a random
// number of pages. The instant at which that happens is the end of a cell.
func TestDiskFull(t *testing.T) {
	if exec.Command("unshare", "-rm", "true").Run() != nil {
		t.Skip("no right to a mount name space of its own (unshare -rm)")
	}
	chaos(t, func(t *testing.T, rng *rand.Rand) {
		url, _ := engine(t)
		dir := t.TempDir()
		disk, kept := filepath.Join(dir, "disk"), filepath.Join(dir, "kept")
		if err := os.Mkdir(disk, 0o755); err != nil {
			t.Fatal(err)
		}
		pages := 1 + rng.IntN(30) // the run file grows to some 90 KB, the reports to 150 more
		script := `size=$1 disk=$2 kept=$3; shift 3
mount -t tmpfs -o size=$size tmpfs "$disk" || exit 99
"$@"; code=$?
if [ -e "$disk/run" ]; then cp -r "$disk/run" "$kept"; fi
exit $code`
		argv := append([]string{"-rm", "sh", "-c", script, "sh", strconv.Itoa(pages << 12), disk, kept, program}, args(url, filepath.Join(disk, "run"))...)
		var said bytes.Buffer
		cmd := exec.Command("unshare", argv...)
		cmd.Stderr = &said
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		code, late := ended(cmd, 2*longest+overBy)
		took := time.Since(begin)
		if code == 99 {
			t.Skipf("no right to mount: %s", said.Bytes())
		}
		cells := sound(t, kept)
		t.Logf("%d KB: code %d after %v, %d cells: %s", pages*4, code, took, cells, bytes.TrimSpace(said.Bytes()))
		if late {
			t.Errorf("%d KB: loadgen went on for %v", pages*4, took)
		}
		if code == 0 && cells < 9 || code == 1 && !bytes.Contains(said.Bytes(), []byte("no space left")) || code > 2 {
			t.Errorf("%d KB: exit code %d with %d cells: %s", pages*4, code, cells, said.Bytes())
		}
	})
}
