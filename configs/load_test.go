package configs

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// write puts text into a file of the test's own folder.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// flags parses arguments as a command would.
func flags(t *testing.T, keys Keys, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Register(fs, keys)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestPrecedence(t *testing.T) {
	file := write(t, "c.yaml", "duration: 11s\nsettle: 12s\nrepeat: 13\nmax-tokens: 14\n")
	t.Setenv("STREAMGAUGE_SETTLE", "22s")
	t.Setenv("STREAMGAUGE_REPEAT", "23")
	t.Setenv("STREAMGAUGE_SEED", "") // an empty variable is not set
	c, l, err := LoadLoadgen(flags(t, LoadgenKeys(), "--config", file, "--repeat", "33"))
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.Repeat, c.Settle, c.Duration, c.MaxTokens, c.Seed}
	want := []any{33, 22 * time.Second, 11 * time.Second, 14, uint64(1)}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("flag, variable, file, file, default (-want +got):\n%s", d)
	}
	sources := []Source{l.Sources["repeat"], l.Sources["settle"], l.Sources["duration"], l.Sources["seed"]}
	if d := cmp.Diff([]Source{FromFlag, FromEnv, FromFile, FromDefault}, sources); d != "" {
		t.Errorf("sources (-want +got):\n%s", d)
	}
	if !l.Given("duration") || l.Given("seed") {
		t.Errorf("Given(duration) = %v, Given(seed) = %v, want true, false", l.Given("duration"), l.Given("seed"))
	}
}

func TestConfigFileByVariable(t *testing.T) {
	t.Setenv("STREAMGAUGE_CONFIG", write(t, "c.yaml", "listen: :9001\n"))
	c, l, err := LoadProxy(nil)
	if err != nil || c.Listen != ":9001" || l.File == "" {
		t.Errorf("listen = %q from %q, %v", c.Listen, l.File, err)
	}
}

func TestFormsOfAFile(t *testing.T) {
	file := write(t, "c.yaml", `
url: http://h:1/v1
contexts: [8k, 16k, max]
concurrency: 1..4
header:
  - "X-A: 1, 2"
  - X-B:3
note: gpu=RTX 5090
temperature: 0.7
thinking: on
extra-body: '{"top_k": 20, "Mixed": {"Case": 9007199254740993}}'
max-failed: 2.5%
ask: " loop"
`)
	c, _, err := LoadLoadgen(flags(t, LoadgenKeys(), "--config", file))
	if err != nil {
		t.Fatal(err)
	}
	on := true
	temperature := 0.7
	want := map[string]any{
		"contexts": []int{8192, 16384, Max}, "concurrency": []int{1, 2, 4},
		"header": http.Header{"X-A": {"1, 2"}, "X-B": {"3"}}, "note": []Pair{{"gpu", "RTX 5090"}},
		"temperature": &temperature, "thinking": &on, "max-failed": 0.025, "ask": " loop",
	}
	fields := fieldsOf(&c)
	for name, w := range want {
		if d := cmp.Diff(w, fields[name].Interface()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	inner, _ := c.ExtraBody["Mixed"].(map[string]any)
	if got := inner["Case"]; got == nil || got.(interface{ String() string }).String() != "9007199254740993" {
		t.Errorf("extra-body = %v: names or numbers changed on the way", c.ExtraBody)
	}
}

func TestVariableOfARepeatable(t *testing.T) {
	t.Setenv("STREAMGAUGE_UPSTREAM", "http://a:1/v1,http://b:2\nhttp://a:1")
	t.Setenv("STREAMGAUGE_NOTE", "gpu=A, B\nlaunch=vllm serve")
	p, _, err := LoadProxy(nil)
	if d := cmp.Diff([]string{"http://a:1", "http://b:2"}, p.Upstreams); err != nil || d != "" {
		t.Errorf("upstreams, %v (-want +got):\n%s", err, d)
	}
	c, _, err := LoadLoadgen(nil)
	if d := cmp.Diff([]Pair{{"gpu", "A, B"}, {"launch", "vllm serve"}}, c.Notes); err != nil || d != "" {
		t.Errorf("notes, %v (-want +got):\n%s", err, d)
	}
}

// Each mistake is one sentence that names the setting where it was given, and
// all come together.
func TestEveryMistakeAtOnce(t *testing.T) {
	file := write(t, "c.yaml", "durration: 30s\nmax_tokens: 5\nsettle: 3\nstall-timeout: 0s\nzebra: 1\nextra-body: {top_k: 1}\n")
	t.Setenv("STREAMGAUGE_KV_RULE", "both")
	t.Setenv("STREAMGAUGE_CONCURENCY", "4")
	_, l, err := LoadLoadgen(flags(t, LoadgenKeys(), "--config", file,
		"--contexts", "8k,lots", "--max-failed", "1", "--url", "localhost:8000", "--cert", "load_test.go",
		"--header", "no colon", "--ca", "/nowhere/ca.pem", "--detect-chars", "10", "--top-p", "1.5", "--insecure=perhaps"))
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		file + `: unknown key "durration", did you mean "duration"?`,
		file + `: unknown key "max_tokens", did you mean "max-tokens"?`,
		file + `: unknown key "zebra"`,
		"--url: the address of a server starts with http:// or https://, for example http://127.0.0.1:8000",
		"--header: a header is written name:value",
		"--ca: the file /nowhere/ca.pem cannot be read: no such file or directory",
		`--insecure: "perhaps" is neither on nor off`,
		`--contexts: "lots" is not a whole number such as 512, 8k or max`,
		file + ": settle: 3 has no unit: write 3s for seconds",
		`STREAMGAUGE_KV_RULE: "both" is none of distinct, shared, off`,
		file + ": extra-body: a mapping is not read here: write the value as text in quotes",
		file + ": stall-timeout: it must be more than 0",
		`--max-failed: "1" is not a percentage between 0% and 100%`,
		"--detect-chars: 10 is below 512",
		"--cert and --key belong together",
		"--top-p: 1.5 is not above 0 and up to 1",
	}
	if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
		t.Errorf("mistakes (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{`the variable STREAMGAUGE_CONCURENCY is no setting, did you mean "concurrency"?`}, l.Warnings); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
}

func TestProxyMistakes(t *testing.T) {
	_, _, err := LoadProxy(flags(t, ProxyKeys(), "--upstream", "http://user:hunter2@h:1", "--listen", "9000",
		"--admin", ":99999", "--max-body", "1KiB", "--drain", "-1s", "--log-format", "xml", "--detect", "maybe"))
	want := []string{
		"--upstream: the address of http://h:1 carries credentials or a query: clients send their own",
		`--listen: "9000" is not an address such as :9000 or 127.0.0.1:9464`,
		`--admin: ":99999" has no port between 0 and 65535`,
		"--drain: -1s is negative",
		`--detect: "maybe" is neither on nor off`,
		`--log-format: "xml" is none of console, json`,
		"--buffer-body of 4194304 bytes is above --max-body of 1024",
	}
	if err == nil {
		t.Fatal("no error")
	}
	if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
		t.Errorf("mistakes (-want +got):\n%s", d)
	}
}

func TestBrokenFiles(t *testing.T) {
	for _, tc := range []struct{ name, path, want string }{
		{"missing", "/nowhere/c.yaml", "--config: the file /nowhere/c.yaml cannot be read: no such file or directory"},
		{"folder", t.TempDir(), "is a folder, not a file"},
		{"not YAML", write(t, "a.yaml", "a: [1\n"), "is not YAML"},
		{"a key twice", write(t, "b.yaml", "seed: 1\nseed: 2\n"), "already defined"},
		{"nested", write(t, "c.yaml", "detect:\n  cycles: 4\n"), `unknown key "detect"`},
		{"no value counts as not set, a wrong key as wrong", write(t, "d.yaml", "seed:\nsead:\n"), `unknown key "sead", did you mean "seed"?`},
	} {
		_, _, err := LoadLoadgen(flags(t, LoadgenKeys(), "--config", tc.path))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", tc.name, err, tc.want)
		}
	}
}

// --respect-eos and --force-length are one setting with two names.
func TestForceLength(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		args       []string
		force, bad bool
	}{
		{"default", "", nil, false, false},
		{"asked for", "", []string{"--force-length"}, true, false},
		{"asked for the other way round", "", []string{"--respect-eos=false"}, true, false},
		{"a flag beats a file that spells the default out", "respect-eos: true\nforce-length: false\n", []string{"--force-length"}, true, false},
		{"a flag beats the file", "force-length: true\n", []string{"--respect-eos"}, false, false},
		{"both in one place", "", []string{"--force-length", "--respect-eos"}, false, true},
	} {
		args := tc.args
		if tc.file != "" {
			args = append(args, "--config", write(t, "c.yaml", tc.file))
		}
		c, _, err := LoadLoadgen(flags(t, LoadgenKeys(), args...))
		if (err != nil) != tc.bad || err == nil && (c.ForceLength != tc.force || c.RespectEOS == tc.force) {
			t.Errorf("%s: force %v, respect %v, %v; want force %v, mistake %v", tc.name, c.ForceLength, c.RespectEOS, err, tc.force, tc.bad)
		}
	}
}

func TestRequire(t *testing.T) {
	_, l, err := LoadLoadgen(flags(t, LoadgenKeys(), "--config", write(t, "c.yaml", "url: ''\n")))
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Require("url", "seed"); got == nil || !strings.HasPrefix(got.Error(), "missing: --url (") {
		t.Errorf("Require = %v, want --url missing, and only that", got)
	}
}
