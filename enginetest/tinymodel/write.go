package tinymodel

import (
	"bytes"
	"os"
	"path/filepath"
)

// WriteGGUF writes the file that llama.cpp loads.
func (m *Model) WriteGGUF(path string) error { return writeFile(path, m.GGUF()) }

// WriteHF writes the folder that vLLM and SGLang load.
func (m *Model) WriteHF(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, b := range m.hfFiles() {
		if err := writeFile(filepath.Join(dir, name), b); err != nil {
			return err
		}
	}
	return nil
}

// writeFile leaves a file with these bytes alone, and replaces another in one
// step: test binaries of several packages write the same models at once, while
// engines load them.
func writeFile(path string, b []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
