package enginetest

import (
	"os"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/enginetest/tinymodel"
)

// The page is what people read before they run any of this: it must know every
// engine's version, every variable and every word of the model.
func TestDocsAreComplete(t *testing.T) {
	b, err := os.ReadFile("../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"STREAMGAUGE_E2E", "STREAMGAUGE_ENGINES", "STREAMGAUGE_ENGINES_SKIP", vllmTorch[len("torch=="):]}
	for _, k := range Kinds {
		want = append(want, k.recipe().version, k.URLVar(), "testdata/"+string(k))
	}
	for _, m := range tinymodel.Modes {
		want = append(want, "| `"+m+"` |")
	}
	for _, w := range want {
		if !strings.Contains(string(b), w) {
			t.Errorf("docs/engines.md lacks %q", w)
		}
	}
}
