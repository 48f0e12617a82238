package enginetest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const sglangVersion = "0.5.23"

// sglangPackages is SGLang and what it imports beyond vLLM's packages. They are
// installed without their dependencies, which include CUDA kernels, hence pinned
// one by one.
var sglangPackages = []string{
	"sglang==" + sglangVersion,
	"orjson==3.13.0", "uvloop==0.23.0", "ipython==9.18.1", "interegular==0.3.3", "traitlets==5.16.1", "decorator==5.3.1",
	"matplotlib-inline==0.2.2", "prompt_toolkit==3.0.53", "wcwidth==0.9.4", "stack-data==0.6.3", "executing==2.3.0",
	"asttokens==3.0.2", "pure_eval==0.2.4", "jedi==0.20.1", "parso==0.8.7", "pexpect==4.9.0", "ptyprocess==0.7.0",
	"Pygments==2.21.0", "python-multipart==0.0.34", "nvidia-ml-py==13.615.71", "datasets==5.2.0", "modelscope==1.40.2",
	"dill==0.4.1", "multiprocess==0.70.19", "pyarrow==26.0.1", "pandas==3.1.1", "python-dateutil==4.0.0", "pytz==2026.6",
	"tzdata==2026.6", "six==1.17.0", "xxhash==4.1.0", "fsspec==2026.9.0", "torch_memory_saver==0.0.10",
	"zstandard==0.25.0", "gguf==0.19.0", "soundfile==0.14.0",
	"triton==3.7.1", // imported without need; removed from vLLM's packages
}

var sglangRecipe = recipe{
	version: sglangVersion,
	// It runs on vLLM's packages: another vLLM makes another SGLang.
	id: fmt.Sprintf("sglang recipe 1: sglang==%s, packages %.4x, on %s",
		sglangVersion, sha256.Sum256([]byte(strings.Join(sglangPackages, "\n"))), vllmRecipe.id),
	needBytes: 2_000_000_000,
	install:   installSGLang,
	command:   sglangCommand,
	defaults:  Options{Slots: 128, ContextTotal: 131072, ContextPerSeq: 8192},
}

// sglKernelStub stands in for SGLang's kernel package, whose CPU build is not on
// PyPI. The torch backends named in sglangCommand call none of it.
const sglKernelStub = `__version__ = "0.4.10"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f"{name}: this SGLang has no kernels")

    return missing
`

func installSGLang(in *installer) error {
	vllm, err := vllmRecipe.ensure(in.ctx, in.cache, VLLM, in.logw)
	if err != nil {
		return fmt.Errorf("vllm, which it runs on: %w", err)
	}
	if err := in.venv(); err != nil {
		return err
	}
	if err := in.pip("installing SGLang "+sglangVersion, append([]string{"install", "-q", "--no-deps"}, sglangPackages...)...); err != nil {
		return err
	}
	sp, err := sitePackages(filepath.Join(in.dir, "venv"))
	if err != nil {
		return err
	}
	theirs, err := sitePackages(filepath.Join(vllm.Dir, "venv"))
	if err != nil {
		return err
	}
	// Python adds the folders that a .pth file names, after its own.
	if err := os.WriteFile(filepath.Join(sp, "zz-vllm.pth"), []byte(theirs+"\n"), 0o644); err != nil {
		return err
	}
	stub := filepath.Join(sp, "sgl_kernel")
	if err := os.MkdirAll(stub, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(stub, "__init__.py"), []byte(sglKernelStub), 0o644); err != nil {
		return err
	}
	return in.step("checking that SGLang loads", "env", "SGLANG_USE_CPU_ENGINE=1", in.python(), "-c", "import sglang.srt.server_args")
}

func sglangCommand(e Engine, o Options) (argv, env []string) {
	argv = []string{filepath.Join(e.Dir, "venv", "bin", "python"), "-m", "sglang.launch_server",
		"--model-path", o.Model, "--host", "127.0.0.1", "--port", strconv.Itoa(o.Port), "--served-model-name", o.Name,
		"--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch",
		"--dtype", "float32", "--disable-cuda-graph", "--mem-fraction-static", "0.3", "--enable-metrics",
		"--max-running-requests", strconv.Itoa(o.Slots), "--max-total-tokens", strconv.Itoa(o.ContextTotal),
		"--context-length", strconv.Itoa(o.ContextPerSeq)}
	env = []string{"SGLANG_USE_CPU_ENGINE=1", "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "OMP_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES="}
	return append(argv, o.Args...), env
}
