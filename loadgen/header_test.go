package loadgen

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/sim"
)

// A launch command is pasted into --note with whatever stood on its line; the
// run file is what people send to each other.
func TestNotesHoldNoSecret(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		r.deps.Target.Key = "correct horse"
		out := r.run(Config{
			Contexts: []int{0}, Concurrency: []int{1}, Duration: time.Second, NoPrefill: true,
			Notes: map[string]string{
				"launch":  "HF_TOKEN=hunter1 vllm serve m --api-key hunter2 --port 8000",
				"api_key": "hunter3",
				"ours":    "started with correct horse",
				"from":    "https://me:hunter4@host/m",
				"kind":    "plain words, 512 tokens",
			},
		})
		p, err := os.ReadFile(r.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hunter1", "hunter2", "hunter3", "hunter4", "correct horse"} {
			if strings.Contains(string(p), secret) {
				t.Errorf("%s stands in the run file", secret)
			}
		}
		notes := out.Header.Notes
		if got, want := notes["launch"], "HF_TOKEN=<redacted> vllm serve m --api-key <redacted> --port 8000"; got != want {
			t.Errorf("launch %q, want %q", got, want)
		}
		if got, want := notes["kind"], "plain words, 512 tokens"; got != want {
			t.Errorf("kind %q, want %q", got, want)
		}
		if !out.Header.Config.NoPrefill {
			t.Error("the header does not say that no prefill rows were asked for")
		}
	})
}
