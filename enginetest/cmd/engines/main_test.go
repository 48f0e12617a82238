package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamgauge/streamgauge/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunRefuses(t *testing.T) {
	t.Setenv("STREAMGAUGE_ENGINES", t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"", "usage:"},
		{"run", `unknown command "run"`},
		{"install", "usage:"},
		{"install tgi", `unknown engine "tgi"`},
		{"start", "usage:"},
		{"start llamacpp -speed 3", "-speed"},
		{"with vllm", "usage:"},
		{"with vllm --", "usage:"},
		{"with -- true", "usage:"},
		{"models a b", "usage:"},
		{"capture vllm", "usage:"},
	} {
		err := run(t.Context(), strings.Fields(c.args), &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("engines %s: error %v, want %q", c.args, err, c.want)
		}
	}
}

func TestModelsAndList(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("STREAMGAUGE_ENGINES", dir)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"models"}, &out, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "models", "tiny-loop.gguf") + "\n" + filepath.Join(dir, "models", "tiny-loop") + "\n"
	if out.String() != want {
		t.Errorf("models printed %q, want %q", out.String(), want)
	}
	out.Reset()
	if err := run(t.Context(), []string{"list"}, &out, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	for _, k := range enginetest.Kinds {
		if !strings.Contains(out.String(), string(k)+": not installed") {
			t.Errorf("list lacks %s: %q", k, out.String())
		}
	}
}

// A server that already runs is handed through, its command's output too, and
// its failure is the program's.
func TestWithAServerThatRuns(t *testing.T) {
	t.Setenv("STREAMGAUGE_VLLM_URL", "http://127.0.0.1:1")
	var out bytes.Buffer
	args := []string{"with", "vllm", "--", "sh", "-c", "echo $STREAMGAUGE_VLLM_URL; exit 3"}
	err := run(t.Context(), args, &out, &bytes.Buffer{})
	if c := (commandError{}); !errors.As(err, &c) || c.err.ExitCode() != 3 {
		t.Errorf("error %v, want the command's, with exit code 3", err)
	}
	if out.String() != "http://127.0.0.1:1\n" {
		t.Errorf("the command saw %q", out.String())
	}
}

// The README of each capture folder must tell about every file, and only files
// that are there.
func TestCapturesAreDescribed(t *testing.T) {
	for kind, as := range albums {
		dir := filepath.Join("..", "..", "..", "testdata", string(kind))
		readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "[0-9]*"))
		if err != nil {
			t.Fatal(err)
		}
		shots := 0
		for _, a := range as {
			shots += len(a.shots)
		}
		if len(files) != 2*shots {
			t.Errorf("%s: %d files, want two for each of %d requests", dir, len(files), shots)
		}
		for _, f := range files {
			name := filepath.Base(f)
			if filepath.Ext(name) != ".http" && !bytes.Contains(readme, []byte("\n## "+name+"\n")) {
				t.Errorf("%s/README.md says nothing of %s", dir, name)
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte("/.cache/")) {
				t.Errorf("%s names a folder of the machine it was captured on", f)
			}
		}
	}
}
