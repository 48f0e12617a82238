package report

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/streamgauge/streamgauge/compare"
	"github.com/streamgauge/streamgauge/matrix"
)

// TestBrowser opens pages in Chromium as a reader does (browser/check.mjs says
// what is checked). `make browser` runs it, with a run file of the demo in
// STREAMGAUGE_BROWSER.
func TestBrowser(t *testing.T) {
	path := os.Getenv("STREAMGAUGE_BROWSER")
	if path == "" {
		t.Skip("STREAMGAUGE_BROWSER names no run file: make browser runs this test")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("SKIPPED, THE PAGES ARE UNCHECKED: no node: %v", err)
	}
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		chromium = "/usr/bin/chromium"
	}
	if _, err := os.Stat(chromium); err != nil {
		t.Skipf("SKIPPED, THE PAGES ARE UNCHECKED: no Chromium: %v (apt-get install chromium, or set CHROMIUM)", err)
	}
	if _, err := os.Stat("browser/node_modules/playwright-core"); err != nil {
		t.Fatalf("%v: run npm ci in report/browser", err)
	}
	run, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	laguna, gemma := published(t, "laguna-xs-vllm"), published(t, "gemma-4-12b-vllm")
	c, err := compare.Compare([]*matrix.Run{gemma, &run.Run}, []*matrix.Run{laguna, &run.Run})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"browser/check.mjs"}
	for _, page := range []struct {
		kind  string
		write func(io.Writer) error
	}{
		{"run", func(w io.Writer) error { return WriteSources(w, "html", run) }},
		{"published", func(w io.Writer) error { return Write(w, "html", laguna) }},
		{"many", func(w io.Writer) error { return Write(w, "html", big(64, 100_000)) }},
		{"comparison", func(w io.Writer) error { return WriteComparison(w, "html", &c) }},
	} {
		var b bytes.Buffer
		if err := page.write(&b); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, page.kind+".html")
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, page.kind+"="+file)
	}
	out, err := exec.CommandContext(t.Context(), node, args...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
