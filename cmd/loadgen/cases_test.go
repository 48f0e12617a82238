package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
)

// simulated is the address of a simulated engine that lives as long as the test.
func simulated(t *testing.T, profile string) string {
	t.Helper()
	p, err := sim.Lookup(profile)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := sim.New(p, sim.Options{})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return "http://" + ln.Addr().String()
}

// TestR32 is the command line's part of R32.
func TestR32(t *testing.T) {
	at := simulated(t, "plain")

	t.Run("contexts and levels: duplicates drop, the order is the one given", func(t *testing.T) {
		code, out, stderr := invoke(t, "", "--url", at, "--contexts", "8k,256K,0,8192", "--concurrency", "1,128,2", "--no-prefill", "--kv-rule", "off", "--dry-run")
		if code != 0 {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		var got []string
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); f[0] == "decode" {
				got = append(got, f[1]+"x"+f[3])
			}
		}
		if want := "8192x1 8192x128 8192x2 262144x1 262144x128 262144x2 0x1 0x128 0x2"; strings.Join(got, " ") != want {
			t.Errorf("cells %v, want %s", got, want)
		}
	})

	t.Run("one cell only", func(t *testing.T) {
		cells := measured(t, at, "--contexts", "0", "--concurrency", "2", "--duration", "1s", "--settle", "100ms")
		if len(cells) != 1 || cells[0].Status != matrix.Valid || cells[0].Concurrency != 2 {
			t.Errorf("cells %+v, want the one asked for, valid", cells)
		}
	})

	t.Run("no cell that fits", func(t *testing.T) {
		cells := measured(t, at, "--contexts", "8k,16k", "--concurrency", "4", "--kv-tokens", "100")
		if len(cells) != 2 {
			t.Fatalf("%d cells, want both", len(cells))
		}
		for _, c := range cells {
			if c.Status != matrix.OverCapacity || c.Reason != "kv_capacity" || !strings.Contains(c.Message, "is over the KV capacity of 100") {
				t.Errorf("%s (%s) %q, want it over capacity with its arithmetic", c.Status, c.Reason, c.Message)
			}
		}
	})

	t.Run("unknown flag", func(t *testing.T) {
		code, out, stderr := invoke(t, "", "--url", at, "--burst", "9")
		if code != 2 || out != "" || !strings.Contains(stderr, "--burst") {
			t.Errorf("exit %d, stdout %q, stderr %q; want 2 and the flag named", code, out, stderr)
		}
	})
}

// measured runs the program and returns the cells of its run file, which the
// reports of every format must have too.
func measured(t *testing.T, at string, args ...string) []matrix.Cell {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	code, _, stderr := invoke(t, "", append(args, "--url", at, "--no-prefill", "--no-tui", "--quiet", "--out", dir)...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	path := filepath.Join(dir, runFileName)
	run, err := matrix.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if run.End == nil || len(run.Bad) > 0 {
		t.Errorf("the run file ends with %+v and has %d bad lines", run.End, len(run.Bad))
	}
	for _, format := range []string{"text", "markdown", "csv", "json", "html"} {
		code, out, stderr := invoke(t, "", "report", path, "--format", format)
		if code != 0 || out == "" {
			t.Errorf("report as %s: exit %d, %d bytes: %s", format, code, len(out), stderr)
		}
		if format == "json" {
			var r struct{ Cells []matrix.Cell }
			if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Cells) != len(run.Cells) {
				t.Errorf("report as json: %d cells (%v), want %d", len(r.Cells), err, len(run.Cells))
			}
		}
	}
	return run.Cells
}

// TestR32CompareVersions: results of different versions are compared, in full,
// and the difference is named.
func TestR32CompareVersions(t *testing.T) {
	old, later := runFileOfVersion(t, "old", "0.31.0", 100), runFileOfVersion(t, "later", "0.32.0", 120)
	for _, tt := range []struct{ format, context, ends string }{{"json", `"context": 8192`, "}\n"}, {"html", "8K", "</html>\n"}} {
		format, ends := tt.format, tt.ends
		code, out, stderr := invoke(t, "", "compare", old, later, "--format", format)
		if code != 0 {
			t.Fatalf("%s: exit %d: %s", format, code, stderr)
		}
		for _, want := range []string{"0.31.0", "0.32.0", tt.context, "engine version"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q", format, want)
			}
		}
		if !strings.HasSuffix(out, ends) {
			t.Errorf("%s ends with %q, want %q: it is not complete", format, out[max(len(out)-20, 0):], ends)
		}
		if format == "json" && !json.Valid([]byte(out)) {
			t.Errorf("not one JSON value: %s", out)
		}
	}
}

// TestR25: whichever way a key is given, and whatever of it the server's refusal
// repeats, it stands in nothing that a run prints or writes.
func TestR25(t *testing.T) {
	const secret = "hunter2+Tr0ub4dor/3"
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		env      string // variable that holds the key
		userinfo string
		query    string
		args     []string
	}{
		{name: "--api-key-file", args: []string{"--api-key-file", keyFile}},
		{name: "STREAMGAUGE_API_KEY", env: "STREAMGAUGE_API_KEY"},
		{name: "OPENAI_API_KEY", env: "OPENAI_API_KEY"},
		{name: "userinfo of the URL", userinfo: "me:" + url.QueryEscape(secret) + "@"},
		{name: "query of the URL", query: "?key=" + url.QueryEscape(secret)},
		{name: "--header", args: []string{"--header", "X-Auth: " + secret}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.env != "" {
				t.Setenv(tt.env, secret)
			}
			var seen atomic.Bool // the server was given the key
			srv := httptest.NewServer(refusing(&seen, secret))
			defer srv.Close()
			dir := filepath.Join(t.TempDir(), "run")
			args := append([]string{"--url", "http://" + tt.userinfo + srv.Listener.Addr().String() + "/" + tt.query,
				"--contexts", "0", "--concurrency", "2", "--duration", "1s", "--no-prefill", "--no-tui", "--out", dir}, tt.args...)
			code, stdout, stderr := invoke(t, "", args...)
			if code != 1 || !strings.Contains(stderr, "refuses the key") {
				t.Fatalf("exit %d, want 1 for a key that is refused in the middle: %s", code, stderr)
			}
			if !seen.Load() {
				t.Fatal("the server was never given the key: nothing was tested")
			}
			said := map[string]string{"stdout": stdout, "stderr": stderr}
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(files) < 2 {
				t.Fatalf("the run left %v (%v), want its file and reports", files, err)
			}
			for _, file := range files {
				p, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				said[filepath.Base(file)] = string(p)
			}
			for _, format := range []string{"text", "markdown", "csv", "json", "html"} {
				_, said[format], _ = invoke(t, "", "report", filepath.Join(dir, runFileName), "--format", format)
			}
			for where, text := range said {
				for _, form := range []string{
					secret, url.QueryEscape(secret), url.PathEscape(secret), "sk-...abcd",
					base64.StdEncoding.EncodeToString([]byte("me:" + secret)), "hunter2", "Tr0ub4dor",
				} {
					if strings.Contains(text, form) {
						t.Errorf("%s holds %q:\n%.2000s", where, form, text)
					}
				}
			}
		})
	}
}

// refusing answers one-token requests, and refuses all others with all that it
// was sent. seen is set when that held the secret in some form.
func refusing(seen *atomic.Bool, secret string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, password, _ := r.BasicAuth()
		if err != nil {
			return // the client has left
		}
		if password == secret || r.URL.Query().Get("key") == secret || strings.Contains(fmt.Sprint(r.Header), secret) {
			seen.Store(true)
		}
		switch {
		case r.URL.Path == "/v1/models":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		case r.Method != http.MethodPost:
			http.NotFound(w, r)
		case strings.Contains(string(body), `"max_tokens":1,`) || strings.Contains(string(body), `"max_tokens":1}`):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": fmt.Sprintf(
				"Incorrect API key provided: sk-...abcd. You sent %s %v; user %q", r.URL, r.Header, password)}})
		}
	})
}
