package report

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FuzzReadFile: whatever a file holds, reading it ends in an error or in a run
// that every format can draw.
func FuzzReadFile(f *testing.F) {
	for _, name := range []string{"laguna-xs-vllm.json", "warned.json"} {
		p, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	f.Add([]byte(`{"type":"header","v":1}` + "\n" + `{"type":"record","v":1,"context":-1,"sent_ns":-5,"loops":[{"onset_ns":9e18}]}` + "\n" + `{"type":"cell","v":1,"phase":"decode","status":"valid","total_tok_s":-1,"per_second":[0,1e308]}`))
	f.Add([]byte(`{"rows":[{"phase":"decode","context":-1,"total_tok_s":1e308,"repeat":-3}]}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, p []byte) {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, p, 0o600); err != nil {
			t.Fatal(err)
		}
		run, err := ReadFile(path)
		if err != nil {
			return
		}
		for _, format := range Formats() {
			if err := WriteSources(io.Discard, format, run); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
		var page bytes.Buffer
		if err := WriteSources(&page, "html", run); err == nil && !bytes.Contains(page.Bytes(), []byte("</html>")) {
			t.Error("the page has no end")
		}
	})
}
