package enginetest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/streamgauge/streamgauge/enginetest/tinymodel"
)

// Models writes the tiny models into dir, each as a GGUF file and as a Hugging
// Face folder, and returns the paths. What is there and right is left alone.
func Models(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	m := tinymodel.Loop()
	gguf, hf := filepath.Join(dir, m.Name+".gguf"), filepath.Join(dir, m.Name)
	if err := m.WriteGGUF(gguf); err != nil {
		return nil, err
	}
	if err := m.WriteHF(hf); err != nil {
		return nil, err
	}
	return []string{gguf, hf}, nil
}

// modelPath finds what Options.Model names in the form that the engine loads,
// writing the tiny models on the way.
func modelPath(kind Kind, name string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "models")
	if _, err := Models(dir); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if kind == LlamaCPP {
		path += ".gguf"
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no tiny model %q (known: tiny-loop): %w", name, err)
	}
	return path, nil
}
