package configs

import (
	"flag"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write docs/configuration.md and the shipped files")

func TestMain(m *testing.M) {
	// The caller's own settings must not leak into the tests.
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, envPrefix) || name == "OPENAI_API_KEY" {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}
