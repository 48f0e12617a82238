package main

import (
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/matrix"
)

// TestReportReproducesWithFlagsThatExist parses the command that a page prints
// for running its plan again.
func TestReportReproducesWithFlagsThatExist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	w, err := matrix.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(matrix.Header{Type: "header", V: 1,
		Engine: matrix.Engine{Kind: "vllm", Model: "m x", KVTokens: 1000, Sources: map[string]string{"kv_tokens": "--kv-tokens"}},
		Config: matrix.Config{URL: "http://127.0.0.1:8000", Endpoint: "chat", Contexts: []int{8192, 0}, Concurrency: []int{1, 3}, DurationS: 2.5, SettleS: 0.25,
			MaxTokens: 512, ForceLength: true, OnLoop: "discard", Prefix: "distinct", KVRule: "off", Repeat: 3, Seed: 7, Ask: "Don't stop: write"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	code, page, stderr := invoke(t, "", "report", path, "--format", "html")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	found := regexp.MustCompile(`<pre[^>]*>loadgen (--url[^<]*)</pre>`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no command")
	}
	line := strings.ReplaceAll(html.UnescapeString(found[1]), "\\\n", " ")
	line = strings.ReplaceAll(line, `'\''`, "\x00")
	var args []string
	for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1) {
		args = append(args, strings.ReplaceAll(strings.Trim(word, "'"), "\x00", "'"))
	}
	cmd := newMeasure(streams{}, "run")
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatalf("%v in %q", err, args)
	}
	for flag, want := range map[string]string{"model": "m x", "ask": "Don't stop: write", "seed": "7", "kv-rule": "off", "repeat": "3"} {
		if got := cmd.Flag(flag).Value.String(); got != want {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
}
