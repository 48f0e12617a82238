package loadgen

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
)

// part runs cfg for a while into a new file (or goes on with it) and returns how
// that ended. Zero: to its end.
func (r *rig) part(path string, cfg Config, d time.Duration, resume bool) (Outcome, error) {
	r.t.Helper()
	var err error
	deps := r.deps
	if resume {
		deps.Writer, deps.Resume, _, err = matrix.Append(path)
	} else {
		deps.Writer, err = matrix.Create(path)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if d > 0 {
		time.AfterFunc(d, cancel)
	}
	out, err := Run(ctx, cfg, deps)
	if cerr := deps.Writer.Close(); cerr != nil {
		r.t.Errorf("closing the run file: %v", cerr)
	}
	return out, err
}

func readRun(t *testing.T, path string) *matrix.Run {
	t.Helper()
	run, err := matrix.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func twoContexts() Config {
	return Config{Contexts: []int{512, 1024}, Concurrency: []int{1, 2}, Duration: 10 * time.Second, Settle: time.Second, Tool: "streamgauge test"}
}

// TestResume interrupts a run inside its second decode cell, lets an hour pass
// and goes on with a larger matrix.
func TestResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		out, err := r.part(path, twoContexts(), 20*time.Second, false)
		if err != nil || out.Outcome != Stopped {
			t.Fatalf("first part: %s, %v", out.Outcome, err)
		}
		first := readRun(t, path)
		last := first.Cells[len(first.Cells)-1]
		if last.Status != matrix.Interrupted || len(first.Cells) != 3 {
			t.Fatalf("%d cells, the last %s: the interrupt was to hit the third", len(first.Cells), last.Status)
		}
		<-time.After(time.Hour)
		before := len(r.srv.Truth().Requests())

		cfg := twoContexts()
		cfg.Concurrency = []int{1, 2, 4}
		resumed := time.Now()
		out, err = r.part(path, cfg, 0, true)
		if err != nil || out.Outcome != Done {
			t.Fatalf("second part: %s, %v", out.Outcome, err)
		}
		run := readRun(t, path)
		if run.End == nil || run.End.Outcome != Done || len(run.Bad) != 0 {
			t.Errorf("end %+v, %d bad lines; want a whole run", run.End, len(run.Bad))
		}
		if len(run.Cells) != 9 || len(out.Cells) != 9 || run.End.Cells != 9 || run.End.Records < len(run.Records) {
			t.Errorf("%d cells in the file, %d in the outcome, footer %+v; want 3 prefill rows and 2 × 3 cells", len(run.Cells), len(out.Cells), run.End)
		}
		ids := map[string]bool{}
		for i := range run.Records {
			rec := &run.Records[i]
			if ids[rec.ID] {
				t.Errorf("record id %s stands twice", rec.ID)
			}
			ids[rec.ID] = true
		}
		for i := range run.Cells {
			c := &run.Cells[i]
			if c.Status != matrix.Valid {
				t.Errorf("%s %d × %d: %s (%s), want valid", c.Phase, c.Context, c.Concurrency, c.Status, c.Message)
			}
			at := run.Header.Start.Add(time.Duration(c.OpenNS.V))
			if again := c.Phase == matrix.Decode && (c.Context != 512 || c.Concurrency != 1); again != at.After(resumed) && c.OpenNS.OK {
				t.Errorf("%s %d × %d: its window opened at %v, and the run was resumed at %v", c.Phase, c.Context, c.Concurrency, at, resumed)
			}
		}
		for _, q := range r.srv.Truth().Requests()[before:] {
			if strings.Contains(q.ID, "-c1-") || strings.Contains(q.ID, "-c2-") {
				t.Errorf("request %s: the first two steps were measured and are not run again", q.ID)
			}
		}
		note := run.Notes[len(run.Notes)-1]
		if note.Code != "resumed" || !strings.Contains(note.Message, "with streamgauge test: it had ended as interrupted") || !strings.Contains(note.Message, "7 of 9 steps were left") || note.AtNS < int64(time.Hour) {
			t.Errorf("note %+v", note)
		}
	})
}

// TestResumeKeepsWhatIsFull: what a smaller cell of the file says of the
// server's room holds for the larger ones that were not reached.
func TestResumeKeepsWhatIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		if _, err := r.part(path, oneCell(1), 0, false); err != nil {
			t.Fatal(err)
		}
		run := readRun(t, path)
		full := matrix.Cell{Type: "cell", V: matrix.Version, Phase: matrix.Decode, Context: run.Cells[0].Context, Concurrency: 2}
		full.Raise(matrix.OverCapacity, reasonAdmitted, "admitted 1 of 2")
		w, _, _, err := matrix.Append(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(full); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		cfg := oneCell(1)
		cfg.Concurrency = []int{1, 2, 4}
		out, err := r.part(path, cfg, 0, true)
		if err != nil {
			t.Fatal(err)
		}
		want(t, cellOf(t, out, matrix.Decode, full.Context, 4), matrix.Skipped, "larger", "admitted 1 of 2")
	})
}

// TestResumeRefusesOtherDefinitions: whatever gives the numbers another meaning
// is named, and the file stays as it was.
func TestResumeRefusesOtherDefinitions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		info, err := engine.Probe(context.Background(), r.deps.Target, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.part(path, oneCell(1), 0, false); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		half := 0.5
		for _, tc := range []struct {
			name, want string
			edit       func(*Config, *engine.Info)
		}{
			{"another window", "duration: the file has 10 s, this run 20 s", func(c *Config, _ *engine.Info) { c.Duration = 20 * time.Second }},
			{"another settle", "settle: ", func(c *Config, _ *engine.Info) { c.Settle = 9 * time.Second }},
			{"longer replies", "max-tokens: ", func(c *Config, _ *engine.Info) { c.MaxTokens = 77 }},
			{"loops discarded", `on-loop: the file has "salvage", this run "discard"`, func(c *Config, _ *engine.Info) { c.OnLoop = Discard }},
			{"own contexts", "prefix: ", func(c *Config, _ *engine.Info) { c.Prefix = Distinct }},
			{"another rule of room", "kv-rule: ", func(c *Config, _ *engine.Info) { c.KVRule = matrix.KVOff }},
			{"room by hand", "kv-tokens: ", func(c *Config, _ *engine.Info) { c.KVTokens = 123456 }},
			{"more may fail", "max-failed: ", func(c *Config, _ *engine.Info) { c.MaxFailed = 0.5 }},
			{"other prompts", "seed: the file has 1, this run 7", func(c *Config, _ *engine.Info) { c.Seed = 7 }},
			{"salted prompts", "salt: ", func(c *Config, _ *engine.Info) { c.Salt = "x" }},
			{"another ask", "ask: ", func(c *Config, _ *engine.Info) { c.Ask = "Count." }},
			{"forced length", "force-length: ", func(c *Config, _ *engine.Info) { c.ForceLength = true }},
			{"the other endpoint", "endpoint: ", func(c *Config, _ *engine.Info) { c.Endpoint = engine.Completions }},
			{"sampling", "temperature: the file has none, this run 0.5", func(c *Config, _ *engine.Info) { c.Temperature = &half }},
			{"more in each body", "extra-body: ", func(c *Config, _ *engine.Info) { c.Extra = map[string]any{"min_p": 0.1} }},
			{"a laxer detector", "detector's chars: ", func(c *Config, _ *engine.Info) { c.Limits.Chars = 9000 }},
			{"an upgraded engine", "engine: ", func(_ *Config, i *engine.Info) { i.Version = "99.0" }},
			{"a longer model", "model limit: ", func(_ *Config, i *engine.Info) { i.MaxModelLen++ }},
			{"another limit of sequences", "running sequences: ", func(_ *Config, i *engine.Info) { i.MaxRunning = 3 }},
		} {
			cfg, other := oneCell(1), info
			tc.edit(&cfg, &other)
			r.deps.Info = &other
			out, err := r.part(path, cfg, 0, true)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") || out.Header.Type != "" {
				t.Errorf("%s: error %v, want one sentence with %q", tc.name, err, tc.want)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("%s: the refused run changed the file", tc.name)
			}
		}
	})
}

// TestResumeSeesOtherExtraValues: the header names the keys of --extra-body, not
// their values, which may be nobody's business; a hash tells them apart.
func TestResumeSeesOtherExtraValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		cfg := oneCell(1)
		cfg.Extra = map[string]any{"min_p": 0.1}
		if _, err := r.part(path, cfg, 0, false); err != nil {
			t.Fatal(err)
		}
		cfg.Extra = map[string]any{"min_p": 0.2}
		if _, err := r.part(path, cfg, 0, true); err == nil || !strings.Contains(err.Error(), "extra-body: its values") {
			t.Errorf("error %v, want that the values of extra-body differ", err)
		}
	})
}
