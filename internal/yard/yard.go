// Package yard finds and runs the programs that measurements are laid beside, and
// ours beside them. The ground truth is not part of the project: who has it says
// where.
package yard

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find returns the folder yard/ of $STREAMGAUGE_SHARED, by default of the folder
// shared beside the module. An error says which of the files it must hold is
// missing.
func Find(files ...string) (string, error) {
	shared := os.Getenv("STREAMGAUGE_SHARED")
	if shared == "" {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
		if err != nil {
			return "", fmt.Errorf("go list -m: %w", err)
		}
		shared = filepath.Join(strings.TrimSpace(string(out)), "..", "shared")
	}
	dir := filepath.Join(shared, "yard")
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f))); err != nil {
			return "", err
		}
	}
	return dir, nil
}
