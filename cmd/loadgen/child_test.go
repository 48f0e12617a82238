//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
)

// patience bounds each wait for a child, far above what any takes.
const patience = time.Minute

// child is this program as a process of its own.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string // of stderr
	stdout bytes.Buffer
	stderr bytes.Buffer // whole, once ended
	ended  chan error
}

// spawn starts the program; its environment has none of the settings of ours.
func spawn(t *testing.T, dir string, args ...string) *child {
	t.Helper()
	return start(t, exec.CommandContext(t.Context(), os.Args[0], args...), dir, "loadgen")
}

func start(t *testing.T, cmd *exec.Cmd, dir, role string) *child {
	t.Helper()
	c := &child{t: t, cmd: cmd, lines: make(chan string, 1024), ended: make(chan error, 1)}
	cmd.Dir, cmd.Env = dir, childEnv(role)
	if cmd.Stdout == nil {
		cmd.Stdout = &c.stdout
	}
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		in := bufio.NewScanner(pipe)
		for in.Scan() {
			c.stderr.WriteString(in.Text() + "\n")
			select {
			case c.lines <- in.Text():
			default: // nobody waits for the thousandth line
			}
		}
		close(c.lines)
		c.ended <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // most have ended
	return c
}

func childEnv(role string) []string {
	env := []string{playAs + "=" + role, "NO_PROXY=*"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "STREAMGAUGE_") && !strings.HasPrefix(v, "NO_COLOR=") && !strings.HasPrefix(v, playAs) {
			env = append(env, v)
		}
	}
	return env
}

// says waits for a line of stderr that contains text.
func (c *child) says(text string) string {
	c.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("the program ended without saying %q:\n%s", text, c.stderr.String())
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-limit:
			c.t.Fatalf("the program does not say %q", text)
		}
	}
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// code waits for the end and returns the exit code.
func (c *child) code() int {
	c.t.Helper()
	select {
	case err := <-c.ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}
	case <-time.After(patience):
		c.t.Fatal("the program does not end")
	}
	if p := c.stderr.String(); strings.Contains(p, "goroutine ") || strings.Contains(p, "panic:") {
		c.t.Errorf("the program panicked:\n%s", p)
	}
	return c.cmd.ProcessState.ExitCode()
}

// wantCode waits for the end and checks how it was.
func (c *child) wantCode(want int) {
	c.t.Helper()
	if got := c.code(); got != want {
		c.t.Errorf("exit code %d, want %d; stderr:\n%s", got, want, c.stderr.String())
	}
}

// complaints are the lines of stderr that begin with the program's name.
func (c *child) complaints() []string {
	var out []string
	for line := range strings.Lines(c.stderr.String()) {
		if strings.HasPrefix(line, "loadgen: ") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
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
func engineOf(t *testing.T) (*child, string) {
	t.Helper()
	c := spawn(t, t.TempDir(), "sim", "--profile", "plain", "--listen", "127.0.0.1:0")
	_, address, _ := strings.Cut(c.says("simulating"), "http://")
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

// streamed waits until n pieces of answers have passed.
func (f *front) streamed(t *testing.T, n int) {
	t.Helper()
	limit := time.After(patience)
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
