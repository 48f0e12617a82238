package enginetest

import (
	"errors"
	"path/filepath"
)

// Models writes the tiny models into dir and returns their names.
func Models(dir string) ([]string, error) { return nil, errors.New("not written yet") }

func modelPath(kind Kind, name string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "models")
	if kind == LlamaCPP {
		return filepath.Join(dir, name+".gguf"), nil
	}
	return filepath.Join(dir, name), nil
}
