package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streamgauge/streamgauge/cmd/internal/child"
	"github.com/streamgauge/streamgauge/cmd/internal/readme"
)

// TestMain also plays the program.
func TestMain(m *testing.M) {
	if os.Getenv(child.Role) == "proxy" {
		main()
	}
	// fasthttp's cleaner of idle workers sleeps its ten seconds out.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// invoke runs the program, to its end by itself, as main does.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

// TestMistakesAreOneClearSentence: each is told at once, by the program and by
// check-config alike where it can be seen in the settings.
func TestMistakesAreOneClearSentence(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("two words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	with := func(more ...string) []string { return append(good[:len(good):len(good)], more...) }
	for _, tc := range []struct {
		name  string
		args  []string
		code  int
		want  []string
		check bool // check-config says it too
	}{
		{"no upstream", nil, 2, []string{"--upstream"}, true},
		{"no scheme", []string{"--upstream", "localhost:8000"}, 2, []string{"http://"}, true},
		{"a key in the address", []string{"--upstream", "http://user:sk-secretsecret@h:1"}, 2, []string{"--upstream"}, true},
		{"mistyped flag", with("--upstrem", "x"), 2, []string{"--upstrem", `did you mean "--upstream"?`}, true},
		{"mistyped command", []string{"check"}, 2, []string{`"check"`, `did you mean "check-config"?`}, false},
		{"an argument", with("http://x"), 2, []string{`"http://x"`}, true},
		{"two mistakes, both told", with("--drain", "soon", "--ring", "0"), 2, []string{"--drain", `"soon"`, "--ring"}, true},
		{"one port twice", []string{"--upstream", "http://h:1", "--listen", "127.0.0.1:7", "--admin", "127.0.0.1:7"}, 2, []string{"--listen", "--admin", "127.0.0.1:7"}, true},
		{"admin for everybody", with("--admin", ":9464"), 2, []string{"--admin: :9464 can be reached from other hosts", "--admin-token-file"}, true},
		{"admin on another interface", with("--admin", "192.0.2.1:9464"), 2, []string{"192.0.2.1:9464 can be reached"}, true},
		{"a token of two words", with("--admin-token-file", token), 2, []string{"token"}, true},
		{"no such token file", with("--admin-token-file", "/no/such"), 2, []string{"/no/such"}, true},
		{"data port in use", with("--listen", taken.Addr().String()), 1, []string{"--listen", taken.Addr().String(), "in use"}, false},
		{"admin port in use", with("--admin", taken.Addr().String()), 1, []string{"--admin", taken.Addr().String(), "in use"}, false},
		{"unwritable records", with("--record", "/no/such/records.ndjson"), 2, []string{"--record: /no/such/records.ndjson cannot be written"}, true},
		{"records into a folder", with("--record", t.TempDir()), 2, []string{"--record: ", "is a folder"}, true},
		{"a policy that is none", with("--policy", "kill"), 2, []string{"--policy: ", `"kill"`}, true},
		{"a policy without its detector", with("--detect", "off", "--policy", "cut"), 2, []string{"--policy: ", "detector"}, true},
		{"usage on an unknown route", with("--inject-usage", "nope"), 2, []string{"--inject-usage: ", `"nope"`}, true},
		{"a health path that is none", with("--health-path", "health"), 2, []string{"--health-path: ", `"health"`}, true},
		{"itself", []string{"--upstream", "http://127.0.0.1:9000", "--listen", ":9000"}, 2, []string{"--upstream: http://127.0.0.1:9000 is the proxy itself", "--listen :9000"}, true},
		{"everything at once", []string{"--admin", "0.0.0.0:9466", "--record", "/no/such/x", "--policy", "kill", "--policy", "cut", "--detect", "off",
			"--inject-usage", "nope", "--drain", "soon", "--admin-token-file", ""}, 2,
			[]string{"missing: --upstream", "--admin: 0.0.0.0:9466", "--record: ", `--policy: policy "kill"`, `--policy: policy "cut"`, "--inject-usage: ", "--drain: "}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, stderr := invoke(t, tc.args...)
			told(t, code, stderr, tc.code, tc.want)
			if tc.check {
				code, _, stderr := invoke(t, append([]string{"check-config"}, tc.args...)...)
				told(t, code, stderr, 2, tc.want)
			}
		})
	}
}

// TestAdminByNameOfAnotherInterface: what only the open port tells is refused too.
func TestAdminByNameOfAnotherInterface(t *testing.T) {
	ln, err := openAdmin("0.0.0.0:0", false)
	if err == nil || !strings.Contains(err.Error(), "--admin: ") || ln != nil {
		t.Errorf("got %v, %v, want a refusal that names --admin", ln, err)
	}
	if ln, err = openAdmin("0.0.0.0:0", true); err != nil {
		t.Fatalf("with a token: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
}

func told(t *testing.T, code int, stderr string, want int, words []string) {
	t.Helper()
	if code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	for _, w := range words {
		if !strings.Contains(stderr, w) {
			t.Errorf("stderr lacks %q:\n%s", w, stderr)
		}
	}
	if strings.Contains(stderr, "sk-secretsecret") {
		t.Errorf("a key was printed:\n%s", stderr)
	}
}

func TestCheckConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "proxy.yaml")
	if err := os.WriteFile(file, []byte("drain: 7s\nring: 100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STREAMGAUGE_RING", "200")
	t.Setenv("STREAMGAUGE_RNIG", "300")
	code, out, stderr := invoke(t, "check-config", "--config", file, "--upstream", "http://127.0.0.1:8000/v1", "--admin", ":9464", "--admin", "off")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		`upstream +http://127.0.0.1:8000/v1 +flag`, `drain +7s +file`, `ring +200 +environment`, `listen +:9000 +default`, `admin +off +flag`,
		`warning +the variable STREAMGAUGE_RNIG is no setting`,
	} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(out) {
			t.Errorf("the settings lack %q:\n%s", want, out)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	code, out, _ := invoke(t, "--help")
	if code != 0 || !strings.Contains(out, "check-config") || !strings.Contains(out, "--keepalive-idle") {
		t.Errorf("exit code %d, help:\n%s", code, out)
	}
	if code, out, _ := invoke(t, "version"); code != 0 || !strings.HasPrefix(out, "proxy ") {
		t.Errorf("version: exit code %d, %q", code, out)
	}
}

// TestReadme holds the commands that the documents show to the program.
func TestReadme(t *testing.T) {
	shown, err := readme.Commands("../..", "proxy")
	if err != nil {
		t.Fatal(err)
	}
	if len(shown) == 0 {
		t.Error("no command found in the documents, the README alone shows one")
	}
	for _, c := range shown {
		cmd, rest, err := newRoot(io.Discard, io.Discard).Find(c.Args[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: %q: %v", c.Place, c.Args, err)
		}
	}
}

// slow is an upstream whose answer has a first event and waits for more.
func slow(t *testing.T) (url string, finish chan struct{}) {
	t.Helper()
	finish = make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-finish:
			fmt.Fprint(w, "data: last\n\n")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, finish
}

// stuckLog is a log whose reader stops at the first line about an upstream.
type stuckLog struct {
	said        chan string
	stuck, free chan struct{}
}

func (s *stuckLog) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("no response from the upstream")) {
		select {
		case s.stuck <- struct{}{}:
		case <-s.free:
		}
		<-s.free
	}
	s.said <- string(p)
	return len(p), nil
}

// TestStuckLog: a log that nobody reads any more stops neither a request nor the end.
func TestStuckLog(t *testing.T) {
	log := &stuckLog{said: make(chan string, 100), stuck: make(chan struct{}), free: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "off", "--models-every", "off", "--log-format", "json"}, io.Discard, log)
	}()
	var at string
	for at == "" {
		if m := regexp.MustCompile(`"listen":"([^"]+)"`).FindStringSubmatch(<-log.said); m != nil {
			at = m[1]
		}
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(what string) {
		resp, err := client.Get("http://" + at + "/v1/models")
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: status %d, want 502", what, resp.StatusCode)
		}
	}
	ask("the request whose fault is logged")
	<-log.stuck
	for range 3 {
		ask("a request while the log is stuck")
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	close(log.free)
}

// streaming starts the program, opens a stream through it and reads its first
// event.
func streaming(t *testing.T, upstream string, more ...string) (*child.Child, *bufio.Reader) {
	t.Helper()
	args := append([]string{"--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "off", "--models-every", "off", "--log-format", "json"}, more...)
	c := child.Spawn(t, t.TempDir(), "proxy", args...)
	at := regexp.MustCompile(`"listen":"([^"]+)"`).FindStringSubmatch(c.Says("forwarding"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at[1]+"/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close(); transport.CloseIdleConnections() })
	body := bufio.NewReader(resp.Body)
	if line, err := body.ReadString('\n'); line != "data: first\n" {
		t.Fatalf("the stream began with %q (%v)", line, err)
	}
	return c, body
}

// TestDrain: what a signal to stop does to an open stream, and to the exit code.
func TestDrain(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String()+", the stream ends in time", func(t *testing.T) {
			upstream, finish := slow(t)
			c, body := streaming(t, upstream, "--drain", "60s")
			c.Signal(s)
			c.Says("draining")
			close(finish)
			if rest, err := io.ReadAll(body); err != nil || !strings.HasSuffix(string(rest), "data: last\n\n") {
				t.Errorf("the stream ended with %q (%v), want its last event", rest, err)
			}
			c.WantCode(0)
		})
	}
	t.Run("the stream is cut", func(t *testing.T) {
		upstream, _ := slow(t)
		c, body := streaming(t, upstream, "--drain", "100ms")
		c.Signal(syscall.SIGTERM)
		if rest, err := io.ReadAll(body); err == nil {
			t.Errorf("the client saw a clean end behind %q, want a broken body", rest)
		}
		c.WantCode(1)
		if got := c.Complaints("proxy"); len(got) != 1 || got[0] != "proxy: requests that were open after --drain 100ms, and cut: 1" {
			t.Errorf("%q, want one sentence about one cut stream", got)
		}
	})
	t.Run("a second signal waits for nothing", func(t *testing.T) {
		upstream, _ := slow(t)
		c, body := streaming(t, upstream, "--drain", "60s")
		c.Signal(syscall.SIGTERM)
		c.Says("draining")
		c.Signal(syscall.SIGTERM)
		if _, err := io.ReadAll(body); err == nil {
			t.Error("the client saw a clean end, want a broken body")
		}
		c.WantCode(130)
	})
	t.Run("nothing is open", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, stderr bytes.Buffer
		if code := run(ctx, []string{"--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--models-every", "off"}, &out, &stderr); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr.String())
		}
	})
}

// TestNoMistakeFollowsFromAnother: a setting that could not be read is not judged
// as if it had been given empty.
func TestNoMistakeFollowsFromAnother(t *testing.T) {
	code, _, stderr := invoke(t, "check-config", "--upstream", "h:1", "--detect", "maybe", "--policy", "cut",
		"--admin", ":9464", "--admin-token-file", "/no/such")
	told(t, code, stderr, 2, []string{"--upstream: ", "--detect: ", "--admin-token-file: "})
	if n := strings.Count(stderr, "\n"); n != 4 { // and where help is
		t.Errorf("%d lines, want 4:\n%s", n, stderr)
	}
}
