package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamgauge/streamgauge/cmd/internal/board"
	"github.com/streamgauge/streamgauge/cmd/internal/child"
	"github.com/streamgauge/streamgauge/loadgen"
)

// TestMain also plays "loadgen", and "stuck", a run that never ends.
func TestMain(m *testing.M) {
	switch os.Getenv(child.Role) {
	case "loadgen":
		main()
	case "stuck":
		s := streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}
		_ = s.heed(context.Background(), func(_ context.Context, s streams) error {
			s.watch(look{}, board.Subject{Title: "a run that never ends"}, &loadgen.Live{})
			fmt.Fprintln(os.Stderr, "begun")
			select {}
		})
	default:
		goleak.VerifyTestMain(m,
			// fasthttp's worker pool ends by itself up to 10 s after Shutdown.
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
	}
}

// invoke runs the program as main does and returns its exit code and outputs.
func invoke(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &err)
	return code, out.String(), err.String()
}

// deadAddress is a loopback address on which nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// answering is a server that gives the same answer to everything.
func answering(t *testing.T, status int, contentType, body string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestMistakesAreOneClearSentence: what a user does wrong gets the exit code of
// the contract and a sentence that names the thing.
func TestMistakesAreOneClearSentence(t *testing.T) {
	dead := deadAddress(t)
	models := answering(t, 200, "application/json", `{"object":"list","data":[{"id":"a","object":"model"},{"id":"b","object":"model"}]}`)
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"no address", nil, 2, []string{"--url"}},
		{"unknown flag", []string{"--concurency", "1"}, 2, []string{"--concurency", `did you mean "--concurrency"?`}},
		{"unknown command", []string{"prob"}, 2, []string{`"prob"`, `did you mean "probe"?`}},
		{"mistyped command", []string{"runn"}, 2, []string{`did you mean "run"?`}},
		{"bad list", []string{"--url", "http://x", "--concurrency", "1..x"}, 2, []string{"--concurrency", `"x"`}},
		{"two mistakes, both told", []string{"--url", "ftp://x", "--duration", "fast"}, 2, []string{"http://", "--duration"}},
		{"dead port", []string{"--url", "http://" + dead}, 1, []string{dead}},
		{"wants a key", []string{"--url", answering(t, 401, "application/json", `{"error":{"message":"no key sk-secretsecret"}}`)}, 1, []string{"401"}},
		{"several models", []string{"--url", models}, 1, []string{"a", "b"}},
		{"wrong model", []string{"--url", models, "--model", "c"}, 1, []string{`c`, "a", "b"}},
		{"a web page", []string{"--url", answering(t, 200, "text/html", "<html></html>")}, 1, []string{"OpenAI"}},
		{"report of nothing", []string{"report"}, 2, []string{"at least one file"}},
		{"report of no run file", []string{"report", "program_test.go"}, 1, []string{"program_test.go", "not a run file"}},
		{"report of other JSON", []string{"report", "body.json"}, 1, []string{"body.json: not a run file", "JSON of another kind"}},
		{"compare of other JSON", []string{"compare", "typed.json", "typed.json"}, 1, []string{"typed.json: not a run file", "JSON of another kind"}},
		{"demo into a folder with a run", []string{"demo", "--out", "old"}, 2, []string{"old holds a run already: give another folder\n"}},
		{"inspect of curl -i", []string{"inspect", "reply.http"}, 1, []string{"reply.http begins with an HTTP header, as curl -i writes it"}},
		{"unknown profile", []string{"sim", "--profile", "nope"}, 2, []string{"nope"}},
		{"missing file", []string{"loops", "no-such-file"}, 1, []string{"no-such-file"}},
		{"binary file", []string{"loops", "/bin/sh"}, 1, []string{"/bin/sh", "NUL"}},
		{"no stream", []string{"inspect", "doc.go"}, 1, []string{"doc.go"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(sandbox(t, "program_test.go", "doc.go"))
			for name, text := range map[string]string{
				"body.json":      `{"id":"x","object":"chat.completion","usage":{"prompt_tokens":1}}`,
				"typed.json":     "{\n \"type\": \"message\",\n \"content\": []\n}\n",
				"reply.http":     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"choices\":[{\"index\":0,\"message\":{\"content\":\"hi\"}}]}",
				"old/run.ndjson": "precious\n",
			} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			code, stdout, stderr := invoke(t, "", tc.args...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for _, w := range tc.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("stderr lacks %q:\n%s", w, stderr)
				}
			}
			if strings.Contains(stderr, "--resume") {
				t.Errorf("--resume is recommended: %s", stderr)
			}
			if strings.Contains(stderr+stdout, "sk-secretsecret") {
				t.Errorf("a key was printed: %s%s", stdout, stderr)
			}
			if entries, err := filepath.Glob("streamgauge-*"); err != nil || len(entries) > 0 {
				t.Errorf("a run that never began left %v behind", entries)
			}
		})
	}
}

// sandbox is a folder with copies of these files.
func sandbox(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		p, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoops(t *testing.T) {
	loop := "Introduction.\n" + strings.Repeat("duct", 1200)
	code, out, stderr := invoke(t, loop, "loops", "--json", "-")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var got struct {
		File   string
		Stream bool
		Chars  int
		Loops  []struct {
			Verdict string
			Onset   int
			Period  int
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	last := got.Loops[len(got.Loops)-1]
	if got.Chars != len(loop) || got.Stream || last.Verdict != "confirmed" || last.Onset != 14 || last.Period != 4 {
		t.Errorf("got %+v, want confirmed, onset 14, period 4", got)
	}
}

// TestLoopsKeepsChannelsApart: 3,000 characters of a loop in reasoning and as
// many in content are not one loop of 6,000.
func TestLoopsKeepsChannelsApart(t *testing.T) {
	var b strings.Builder
	for _, field := range []string{"reasoning_content", "content"} {
		for range 100 {
			b.WriteString(`data: {"choices":[{"index":0,"delta":{"` + field + `":"` + strings.Repeat("ab c", 6) + strings.Repeat("d", 6) + `"}}]}` + "\n\n")
		}
	}
	code, out, stderr := invoke(t, b.String(), "loops", "--json")
	if code != 0 || !strings.Contains(out, `"stream":true`) || !strings.Contains(out, `"chars":6000`) {
		t.Fatalf("exit %d, out %s, err %s", code, out, stderr)
	}
	if strings.Contains(out, `"confirmed"`) || !strings.Contains(out, `"suspected"`) {
		t.Errorf("want a suspicion in each channel and no confirmed loop: %s", out)
	}
}

func TestInspect(t *testing.T) {
	body := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}}\n\ndata: [DONE]\n\n"
	code, out, stderr := invoke(t, body, "inspect", "-")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{`content "hi"`, "finish stop", "usage prompt 3 completion 1", "terminal marker", `"end":"completed"`} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
}

func TestHelpNamesEveryCommandAndFlag(t *testing.T) {
	code, out, _ := invoke(t, "", "--help")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"demo", "once", "probe", "report", "sim", "loops", "inspect", "--contexts", "--on-loop", "--dry-run"} {
		if !strings.Contains(out, want) {
			t.Errorf("help lacks %q", want)
		}
	}
	if code, out, _ := invoke(t, "", "version"); code != 0 || !strings.HasPrefix(out, "loadgen ") {
		t.Errorf("version: exit %d, %q", code, out)
	}
}

func TestSimListsProfilesAndStopsWhenTold(t *testing.T) {
	code, out, _ := invoke(t, "", "sim", "--profile", "list")
	if code != 0 || !strings.Contains(out, "laguna-xs-vllm") {
		t.Fatalf("exit %d: %s", code, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	truth := filepath.Join(t.TempDir(), "truth.json")
	var stdout, stderr bytes.Buffer
	if code := run(ctx, []string{"sim", "--profile", "plain", "--listen", "127.0.0.1:0", "--truth", truth}, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
	if _, err := os.Stat(truth); err != nil {
		t.Errorf("no truth log: %v", err)
	}
}
