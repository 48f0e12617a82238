package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Kind names an engine as the rest of the project does: in folder names, in
// flags and in the environment.
type Kind string

const (
	LlamaCPP Kind = "llamacpp"
	VLLM     Kind = "vllm"
	SGLang   Kind = "sglang" // smoke tests only: its CPU kernels are a stub
)

// Kinds lists every engine there is a recipe for.
var Kinds = []Kind{LlamaCPP, VLLM, SGLang}

// ParseKind reads a kind as typed by a person.
func ParseKind(s string) (Kind, error) {
	for _, k := range Kinds {
		if string(k) == s {
			return k, nil
		}
	}
	return "", fmt.Errorf("unknown engine %q (known: llamacpp, vllm, sglang)", s)
}

// URLVar is the environment variable that names a running server of this kind.
func (k Kind) URLVar() string { return "STREAMGAUGE_" + strings.ToUpper(string(k)) + "_URL" }

// Engine is an installed engine, or one that already runs elsewhere.
type Engine struct {
	Kind    Kind
	Version string // as released: "b10434", "0.32.0"
	Dir     string // the install folder; empty when URL is set
	URL     string // from Kind.URLVar: Start hands out this server and Stop leaves it alone
}

// recipe is what differs between engines.
type recipe struct {
	version string
	// id changes whenever an install made by an older recipe must be redone.
	id string
	// needBytes is the free disk space below which install is not tried.
	needBytes uint64
	install   func(in *installer) error
	command   func(e Engine, o Options) (argv, env []string)
	defaults  Options
}

func (k Kind) recipe() recipe {
	switch k {
	case LlamaCPP:
		return llamacppRecipe
	case VLLM:
		return vllmRecipe
	case SGLang:
		return sglangRecipe
	}
	panic("enginetest: no recipe for " + string(k))
}

// CacheDir is the folder that holds installed engines and tiny models:
// $STREAMGAUGE_ENGINES, or streamgauge/engines in the user's cache folder.
func CacheDir() (string, error) {
	if d := os.Getenv("STREAMGAUGE_ENGINES"); d != "" {
		return filepath.Abs(d)
	}
	d, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder (set STREAMGAUGE_ENGINES): %w", err)
	}
	return filepath.Join(d, "streamgauge", "engines"), nil
}
