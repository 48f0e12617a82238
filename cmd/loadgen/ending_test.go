//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/cmd/internal/child"
	"github.com/streamgauge/streamgauge/matrix"
)

// small is a run of two cells whose windows outlast every test.
func small(url string, more ...string) []string {
	return append([]string{"--url", url, "--contexts", "256", "--concurrency", "1,2", "--duration", "60s", "--settle", "100ms", "--out", "out"}, more...)
}

// inWindow waits until the child's first cell has streamed for a while.
func inWindow(t *testing.T, c *child.Child, f *front, more int) {
	t.Helper()
	c.Says("concurrency 1 …")
	f.streamed(t, 60+more)
}

// TestSignalsSaveAndReport: at whatever instant of a cell a run is told to stop,
// it is over in five seconds, its file is whole and its report is printed.
func TestSignalsSaveAndReport(t *testing.T) {
	t.Parallel()
	f := frontOf(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		more := rng.IntN(100)
		t.Run(fmt.Sprintf("%v after %d pieces", s, more), func(t *testing.T) {
			if s == syscall.SIGHUP && signal.Ignored(s) {
				t.Skip("these tests run under nohup, and so would the child: it outlives a hangup, as it should")
			}
			dir := t.TempDir()
			c := spawn(t, dir, small(f.URL)...)
			inWindow(t, c, f, more)
			c.Signal(s)
			told := time.Now()
			c.WantCode(130)
			if d := time.Since(told); d > 5*time.Second {
				t.Errorf("it took %v to stop, 5 s are promised", d)
			}
			run := runIn(t, filepath.Join(dir, "out"))
			if run.End == nil || run.End.Outcome != "interrupted" || len(run.Cells) != 2 || run.Cells[1].Status != matrix.Interrupted {
				t.Errorf("footer %+v, %d cells; want the prefill row, the interrupted cell and the footer", run.End, len(run.Cells))
			}
			if out := c.Stdout.String(); !strings.Contains(out, "All measurements") || !strings.Contains(out, "Interrupted") {
				t.Errorf("no report on stdout:\n%s", out)
			}
			if _, err := os.Stat(filepath.Join(dir, "out", "report.md")); err != nil {
				t.Errorf("no report beside the run file: %v", err)
			}
		})
	}
}

// TestStopBeforeTheFirstCell: nothing was measured, so nothing is left behind.
func TestStopBeforeTheFirstCell(t *testing.T) {
	asked, over := make(chan struct{}, 16), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer srv.Close()
	defer close(over)
	dir := t.TempDir()
	c := spawn(t, dir, small(srv.URL)...)
	<-asked // the probe hangs
	c.Signal(os.Interrupt)
	c.WantCode(130)
	if got := c.Complaints("loadgen"); len(got) != 1 {
		t.Errorf("%q, want one sentence", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestSecondSignalLeavesAtOnce uses a run that never ends by itself.
func TestSecondSignalLeavesAtOnce(t *testing.T) {
	c := child.Start(t, exec.CommandContext(t.Context(), os.Args[0]), t.TempDir(), "stuck")
	c.Says("begun")
	c.Signal(os.Interrupt)
	c.Says("press Ctrl-C again to leave at once")
	c.Signal(os.Interrupt)
	c.WantCode(130)
}

// TestServerDies: the server goes away inside a cell, as one does that is killed.
func TestServerDies(t *testing.T) {
	t.Parallel()
	f := frontOf(t)
	dir := t.TempDir()
	c := spawn(t, dir, small(f.URL)...)
	inWindow(t, c, f, 0)
	f.die()
	c.WantCode(1)
	if got := c.Complaints("loadgen"); len(got) != 1 || !strings.Contains(got[0], strings.TrimPrefix(f.URL, "http://")) {
		t.Errorf("%q, want one sentence about the server", got)
	}
	if !strings.Contains(c.Stderr.String(), "to go on: loadgen --resume out/run.ndjson") {
		t.Errorf("stderr does not show the way on:\n%s", c.Stderr.String())
	}
	run := runIn(t, filepath.Join(dir, "out"))
	if run.End == nil || !slices.ContainsFunc(run.Cells, func(c matrix.Cell) bool { return c.Status == matrix.Failed }) {
		t.Errorf("footer %+v and no failed cell in the file", run.End)
	}
	if !strings.Contains(c.Stdout.String(), "Notes") {
		t.Errorf("no report on stdout:\n%s", c.Stdout.String())
	}
}

// TestFullDisk gives the run a file system of 16 KB, in a mount name space of its
// own: that takes the right to mount.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "unshare", "-m", "mount", "-t", "tmpfs", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount here: %v: %s", err, out)
	}
	saved := filepath.Join(t.TempDir(), "saved")
	_, url := engineOf(t)
	args := strings.Join(small(url, "--concurrency", "1,24", "--duration", "1s", "--kv-rule", "off"), " ")
	script := fmt.Sprintf("mount -t tmpfs -o size=16k none '%s' && cd '%s' && '%s' %s; code=$?; cp -r out '%s'; exit $code", dir, dir, os.Args[0], args, saved)
	c := child.Start(t, exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", script), dir, "loadgen")
	c.WantCode(1)
	if got := c.Complaints("loadgen"); len(got) != 1 || !strings.Contains(got[0], "no space left on device") {
		t.Errorf("%q, want one sentence about the disk", got)
	}
	run := runIn(t, saved)
	if len(run.Cells) != 2 || len(run.Records) == 0 {
		t.Errorf("%d cells and %d records in the file, want the two that fitted", len(run.Cells), len(run.Records))
	}
	if !strings.Contains(c.Stdout.String(), "its file has no end line") {
		t.Errorf("the report does not say that the file was cut off:\n%s", c.Stdout.String())
	}
	if reports, err := filepath.Glob(filepath.Join(saved, "report.*")); err != nil || slices.ContainsFunc(reports, isEmpty) {
		t.Errorf("half reports were left behind: %v %v", reports, err)
	}
}

func isEmpty(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Size() == 0
}

func TestMaxTimeEndsTheRun(t *testing.T) {
	t.Parallel()
	_, url := engineOf(t)
	dir := t.TempDir()
	c := spawn(t, dir, small(url, "--max-time", "2s")...)
	c.WantCode(130)
	run := runIn(t, filepath.Join(dir, "out"))
	if run.End == nil || !strings.Contains(run.End.Message, "--max-time") {
		t.Errorf("footer %+v, want that the time was over", run.End)
	}
}

// TestReaderLeavesEarly: | head -1 gets its line, and the reports are there all
// the same.
func TestReaderLeavesEarly(t *testing.T) {
	t.Parallel()
	_, url := engineOf(t)
	args := small(url, "--concurrency", "1", "--duration", "200ms")
	for _, tc := range []struct{ name, pipe string }{
		{"stdout", "'%s' %s | head -1"},
		{"progress too", "'%s' %s 2>&1 | head -1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			// The shell's own end is the reader's; the program's goes to a file.
			script := fmt.Sprintf("{ "+strings.Replace(tc.pipe, " |", "; echo $? >code; } |", 1), os.Args[0], strings.Join(args, " "))
			c := child.Start(t, exec.CommandContext(t.Context(), "sh", "-c", script), dir, "loadgen")
			c.WantCode(0)
			if n := strings.Count(c.Stdout.String(), "\n"); n != 1 {
				t.Errorf("%d lines came through head -1: %q", n, c.Stdout.String())
			}
			if code, err := os.ReadFile(filepath.Join(dir, "code")); err != nil || string(code) != "0\n" {
				t.Errorf("the program's exit code is %q (%v), want 0", code, err)
			}
			if run := runIn(t, filepath.Join(dir, "out")); run.End == nil || run.End.Outcome != "done" {
				t.Errorf("footer %+v, want a whole run", run.End)
			}
			if isEmpty(filepath.Join(dir, "out", "report.md")) {
				t.Error("no report beside the run file")
			}
		})
	}
}

// TestOut: where a run cannot be written it is not begun, and says why.
func TestOut(t *testing.T) {
	_, url := engineOf(t)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "old", runFileName)
	if err := os.WriteFile(old, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, out, want string
	}{
		{"a folder with a run", "old", "old holds a run already: give another folder, or --resume old/run.ndjson"},
		{"below a file", "old/run.ndjson/x", "--out: mkdir old/run.ndjson"},
		{"below a device", "/dev/null/x", "--out: mkdir /dev/null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := spawn(t, dir, small(url, "--out", tc.out)...)
			c.WantCode(2)
			if got := c.Complaints("loadgen"); len(got) != 2 || !strings.Contains(got[0], tc.want) {
				t.Errorf("%q, want %q and the hint at --help", got, tc.want)
			}
		})
	}
	if p, err := os.ReadFile(old); err != nil || string(p) != "precious\n" {
		t.Errorf("the old file is now %q (%v)", p, err)
	}
}

// TestDryRunSendsNothing: the plan comes from the probe alone.
func TestDryRunSendsNothing(t *testing.T) {
	f := frontOf(t)
	dir := t.TempDir()
	c := spawn(t, dir, small(f.URL, "--concurrency", "1..256", "--dry-run")...)
	c.WantCode(0)
	for _, r := range f.requests() {
		if !strings.HasPrefix(r, "GET ") && r != "POST /tokenize" { // which counts, and generates nothing
			t.Errorf("a dry run sent %s", r)
		}
	}
	out := c.Stdout.String()
	for _, want := range []string{
		"decode       256 × 1 ", "run, about 1m2s: 1·(256 + 4096) = 4352 tokens fits the KV capacity of 262144",
		"decode       256 × 64", "over capacity (kv_capacity): 64·(256 + 4096) = 278528 tokens is over the KV capacity of 262144",
		"prefill      256 × 1     run, up to 10s: ",
		"8 of 11 steps would run: about 6m13s for the cells, up to 20s for the prefill rows",
		"note: the prefill row at the model's limit of",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("a dry run left %v behind (%v)", entries, err)
	}
}

// TestResumeGoesOn interrupts a run, tears the last line of its file, and goes on
// with nothing but --resume.
func TestResumeGoesOn(t *testing.T) {
	t.Parallel()
	f := frontOf(t)
	dir := t.TempDir()
	c := spawn(t, dir, small(f.URL, "--seed", "7", "--max-failed", "5%", "--temperature", "0.5", "--note", "gpu=x")...)
	inWindow(t, c, f, 0)
	c.Signal(os.Interrupt)
	c.WantCode(130)

	path := filepath.Join(dir, "out", runFileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(whole, `{"type":"rec`...), 0o600); err != nil {
		t.Fatal(err)
	}
	resume := []string{"--resume", "out/run.ndjson"}
	c = spawn(t, dir, append(resume, "--duration", "5s", "--temperature", "0.7")...)
	c.WantCode(1)
	if got := c.Complaints("loadgen"); len(got) != 1 || !strings.Contains(got[0], "duration: the file has 60 s, this run 5 s; temperature: the file has 0.5, this run 0.7") {
		t.Errorf("%q, want one sentence that names both", got)
	}
	if p, err := os.ReadFile(path); err != nil || len(p) != len(whole)+len(`{"type":"rec`) {
		t.Errorf("the refused run changed the file (%v)", err)
	}

	c = spawn(t, dir, append(resume, "--dry-run")...)
	c.WantCode(0)
	if out := c.Stdout.String(); !strings.Contains(out, "in the file: valid") || !strings.Contains(out, "3 of 4 steps would run: about 2m4s for the cells, up to 10s for the prefill rows") {
		t.Errorf("the plan does not show what is there:\n%s", out)
	}

	c = spawn(t, dir, append(resume, "--max-time", "4s")...)
	c.Says("its last line was cut off")
	c.Says("going on in out/run.ndjson: it has 1 of 4 steps")
	c.WantCode(130)
	run := runIn(t, filepath.Join(dir, "out"))
	if run.Header.Config.Seed != 7 || run.Header.Notes["gpu"] != "x" || len(run.Cells) != 2 {
		t.Errorf("%d cells under %+v", len(run.Cells), run.Header.Config)
	}
	if run.End == nil || !strings.Contains(run.End.Message, "--max-time") || !slices.ContainsFunc(run.Notes, func(n matrix.Note) bool { return n.Code == "resumed" }) {
		t.Errorf("footer %+v, notes %+v", run.End, run.Notes)
	}
}
