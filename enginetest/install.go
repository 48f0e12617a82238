package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrDiskSpace is wrapped by the error of an Install that was not tried because
// the disk is too full.
var ErrDiskSpace = errors.New("not enough free disk space")

// ErrNotInstalled is wrapped by Installed's error when a stamp of the present
// recipe is missing.
var ErrNotInstalled = errors.New("not installed")

const stampName = "STAMP"

// Installed finds an engine in the cache without changing anything. An engine
// that was interrupted, or made by another recipe, is not installed.
func Installed(kind Kind) (Engine, error) {
	cache, err := CacheDir()
	if err != nil {
		return Engine{}, err
	}
	return kind.recipe().installed(cache, kind)
}

// Install returns the engine from the cache, putting it there first when it is
// missing, unfinished or of another recipe. One line per step goes to logw, the
// output of the commands to <kind>.log in the cache folder. Two processes that
// install the same engine wait for each other.
func Install(ctx context.Context, kind Kind, logw io.Writer) (Engine, error) {
	cache, err := CacheDir()
	if err != nil {
		return Engine{}, err
	}
	e, err := kind.recipe().ensure(ctx, cache, kind, logw)
	if err != nil {
		return Engine{}, fmt.Errorf("install %s: %w", kind, err)
	}
	return e, nil
}

func (r recipe) installed(cache string, kind Kind) (Engine, error) {
	dir := filepath.Join(cache, string(kind))
	b, err := os.ReadFile(filepath.Join(dir, stampName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Engine{}, fmt.Errorf("%s: %w: no stamp in %s", kind, ErrNotInstalled, dir)
	case err != nil:
		return Engine{}, err
	}
	if got, _, _ := strings.Cut(string(b), "\n"); got != r.id {
		return Engine{}, fmt.Errorf("%s: %w: %s holds recipe %q, want %q", kind, ErrNotInstalled, dir, got, r.id)
	}
	return Engine{Kind: kind, Version: r.version, Dir: dir}, nil
}

func (r recipe) ensure(ctx context.Context, cache string, kind Kind, logw io.Writer) (Engine, error) {
	if e, err := r.installed(cache, kind); err == nil || !errors.Is(err, ErrNotInstalled) {
		return e, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Engine{}, err
	}
	unlock, err := lock(ctx, filepath.Join(cache, string(kind)+".lock"), logw)
	if err != nil {
		return Engine{}, err
	}
	defer unlock()
	if e, err := r.installed(cache, kind); err == nil { // another process was faster
		return e, nil
	}

	// What an interrupted install left cannot be trusted, and may be what fills
	// the disk. Downloads are kept elsewhere.
	dir := filepath.Join(cache, string(kind))
	if err := os.RemoveAll(dir); err != nil {
		return Engine{}, err
	}
	free, err := freeBytes(cache)
	if err != nil {
		return Engine{}, err
	}
	if free < r.needBytes {
		return Engine{}, fmt.Errorf("%w: %s has %.1f GB free, the install wants %.1f GB",
			ErrDiskSpace, cache, float64(free)/1e9, float64(r.needBytes)/1e9)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Engine{}, err
	}
	out, err := os.Create(filepath.Join(cache, string(kind)+".log"))
	if err != nil {
		return Engine{}, err
	}
	defer out.Close()
	in := &installer{
		ctx: ctx, kind: kind, cache: cache, dir: dir, logw: logw, out: out,
		downloads: filepath.Join(cache, "downloads", string(kind)),
	}
	start := time.Now()
	if err := r.install(in); err != nil {
		return Engine{}, err
	}
	// Downloads only matter to an install that starts over.
	if err := os.RemoveAll(in.downloads); err != nil {
		return Engine{}, err
	}
	took := time.Since(start).Round(time.Second)
	if err := writeStamp(dir, fmt.Sprintf("%s\ninstalled %s in %s\n", r.id, start.UTC().Format(time.RFC3339), took)); err != nil {
		return Engine{}, err
	}
	in.say("installed %s in %s, %.1f GB", r.version, took, float64(treeBytes(dir))/1e9)
	return Engine{Kind: kind, Version: r.version, Dir: dir}, nil
}

// installer carries one install through its steps.
type installer struct {
	ctx       context.Context
	kind      Kind
	cache     string
	dir       string // wiped before the first step
	downloads string // survives an interrupted install, removed after a finished one
	logw      io.Writer
	out       *os.File
}

func (in *installer) say(format string, a ...any) {
	fmt.Fprintf(in.logw, "%s: %s\n", in.kind, fmt.Sprintf(format, a...))
}

// step says what it does and runs a command in the install folder, at low
// priority since other tests may be measuring. An error carries the end of the
// command's output.
func (in *installer) step(what string, argv ...string) error {
	in.say("%s", what)
	start := time.Now()
	if err := in.run(argv...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(in.out, "## %s took %s\n", what, time.Since(start).Round(time.Second))
	return nil
}

func (in *installer) run(argv ...string) error {
	fmt.Fprintf(in.out, "## %s\n", strings.Join(argv, " "))
	if nice, err := exec.LookPath("nice"); err == nil {
		argv = append([]string{nice, "-n", "10"}, argv...)
	}
	tail := &tailWriter{w: in.out, max: 4 << 10}
	cmd := exec.CommandContext(in.ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = in.dir, tail, tail
	cmd.Env = append(os.Environ(),
		"PIP_CACHE_DIR="+filepath.Join(in.downloads, "pip"),
		"PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "DEBIAN_FRONTEND=noninteractive")
	// A compiler or pip's build backend outlives a killed parent unless the
	// whole group goes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if in.ctx.Err() != nil {
			return in.ctx.Err()
		}
		return fmt.Errorf("%w; whole output in %s, its end:\n%s", err, in.out.Name(), bytes.TrimSpace(tail.buf))
	}
	return nil
}

// venv makes the Python environment that pip installs into.
func (in *installer) venv() error {
	if err := in.needPython(); err != nil {
		return err
	}
	return in.step("making a Python environment", "python3", "-m", "venv", filepath.Join(in.dir, "venv"))
}

func (in *installer) python() string { return filepath.Join(in.dir, "venv", "bin", "python") }

func (in *installer) pip(what string, args ...string) error {
	return in.step(what, append([]string{in.python(), "-m", "pip"}, args...)...)
}

func (in *installer) needPython() error {
	const ask = "import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 10))"
	if exec.CommandContext(in.ctx, "python3", "-c", ask).Run() == nil {
		return nil
	}
	if err := in.apt("python3", "python3-venv"); err != nil {
		return fmt.Errorf("python3 >= 3.10 with the venv module is needed: %w", err)
	}
	if err := exec.CommandContext(in.ctx, "python3", "-c", ask).Run(); err != nil {
		return errors.New("python3 >= 3.10 with the venv module is needed, the one in PATH is older or lacks it")
	}
	return nil
}

func (in *installer) needCompiler() error {
	if _, err := exec.LookPath("c++"); err == nil {
		return nil
	}
	if err := in.apt("g++"); err != nil {
		return fmt.Errorf("a C++ compiler (c++) is needed: %w", err)
	}
	return nil
}

// apt installs Debian packages where that needs no questions: as root.
func (in *installer) apt(pkgs ...string) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("install the packages %s (apt-get is only tried as root)", strings.Join(pkgs, ", "))
	}
	if err := in.step("apt-get update", "apt-get", "update", "-q"); err != nil {
		return err
	}
	return in.step("apt-get install "+strings.Join(pkgs, " "),
		append([]string{"apt-get", "install", "-q", "-y", "--no-install-recommends"}, pkgs...)...)
}

// sitePackages is the folder of the environment's installed packages, whose
// name holds the Python version.
func sitePackages(venv string) (string, error) {
	m, err := filepath.Glob(filepath.Join(venv, "lib", "python3.*", "site-packages"))
	if err != nil || len(m) != 1 {
		return "", fmt.Errorf("%s: want one lib/python3.*/site-packages, found %d", venv, len(m))
	}
	return m[0], nil
}

// lock takes an exclusive lock on path. flock goes away with its process, so a
// killed install leaves nothing behind that blocks the next.
func lock(ctx context.Context, path string, logw io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for said := false; ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		if !said {
			said = true
			fmt.Fprintf(logw, "waiting for another process to release %s\n", path)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// writeStamp makes the stamp appear whole or not at all.
func writeStamp(dir, text string) error {
	tmp := filepath.Join(dir, stampName+".tmp")
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, stampName))
}

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// treeBytes is for the log line only, so what cannot be read counts as nothing.
func treeBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if fi, err := d.Info(); err == nil {
				n += fi.Size()
			}
		}
		return nil
	})
	return n
}

// tailWriter passes bytes on and keeps the last max of them.
type tailWriter struct {
	w   io.Writer
	max int
	buf []byte
}

func (t *tailWriter) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return t.w.Write(p)
}
