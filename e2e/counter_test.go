package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/enginetest"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/stream"
)

// testCounter lets every stream end by itself, and holds the sum of our tokens
// against the engine's own counter, from idle to idle.
func testCounter(t *testing.T, s *enginetest.Server, f facts) {
	st := raise(t, s)
	info, err := engine.Probe(t.Context(), st.target(t), "")
	if err != nil {
		t.Fatal(err)
	}
	idle(t, s, f)
	before := metric(t, s, f.counter)

	own := st.once(t, info)
	st.ask(t)

	idle(t, s, f)
	made := metric(t, s, f.counter) - before
	st.relay.fold(t, st.told)
	maps.DeleteFunc(st.told, func(_ string, s *told) bool {
		return s.status == 0 // on a kept connection that the engine had closed: asked again
	})
	compareTokens(t, own, st.told, time.Now()).log(t)

	var theirs []stream.Record
	wait(t, 5*time.Second, fmt.Sprintf("records of %d streams", len(st.told)), func() bool {
		theirs = st.records(t)
		return len(theirs) >= len(st.told)
	})
	var sum, ownSum, probed, final int
	mine := map[string]bool{}
	for i := range own {
		mine[own[i].ID] = true
		ownSum += own[i].Tokens
	}
	for id, said := range st.told {
		if said.final == nil {
			t.Errorf("%s: the engine told no final usage", id)
			continue
		}
		if final += *said.final; !mine[id] {
			probed += *said.final
		}
	}
	for i := range theirs {
		r := &theirs[i]
		sum += r.Tokens
		if r.End != stream.Completed {
			t.Errorf("%s: the proxy has it as %s, reason %q, error %q", r.ID, r.End, r.Reason, r.Error)
		}
		if said := st.told[r.ID]; said != nil && said.final != nil && r.Tokens != *said.final {
			t.Errorf("%s on %s: the proxy counted %d tokens from %s, the engine's final usage is %d", r.ID, said.path, r.Tokens, r.TokensFrom, *said.final)
		}
	}
	if float64(sum) != made {
		t.Errorf("the proxy counted %d tokens in %d streams, the engine's counter rose by %.0f", sum, len(theirs), made)
	}
	if float64(ownSum+probed) != made {
		t.Errorf("loadgen counted %d tokens in %d streams, other requests made %d; the engine's counter rose by %.0f", ownSum, len(own), probed, made)
	}
	t.Logf("%s rose by %.0f; the proxy counted %d in %d streams, loadgen %d in %d and %d were made by other requests; final usages sum to %d",
		f.counter, made, sum, len(theirs), ownSum, len(own), probed, final)
}

// once runs streams of several kinds and lengths, eight at a time, by loadgen's
// own meter.
func (st *stage) once(t *testing.T, info engine.Info) []stream.Record {
	t.Helper()
	const lanes, rounds = 8, 5
	kinds := []struct {
		prompt string
		tokens int
		finish string
	}{
		{"tell a story", 500, "stop"},
		{"tell me more", 333, "length"},
		{"say it with emoji", 203, "length"},
		{"please loop", 97, "length"},
		{"one word of a story", 1, "length"},
	}
	var mu sync.Mutex
	var out []stream.Record
	var all sync.WaitGroup
	for lane := range lanes {
		all.Go(func() {
			for round := range rounds {
				k := kinds[(lane+round)%len(kinds)]
				rec, err := loadgen.Once(t.Context(), loadgen.Config{MaxTokens: k.tokens, Salt: fmt.Sprint(t.Name(), lane)},
					loadgen.Deps{Target: st.target(t), Info: &info}, k.prompt, nil)
				if err != nil {
					t.Errorf("%q: %v", k.prompt, err)
					return
				}
				if string(rec.Finish) != k.finish {
					t.Errorf("%q ended with %q, want %q", k.prompt, rec.Finish, k.finish)
				}
				mu.Lock()
				out = append(out, *rec)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return out
}

// ask sends requests as clients of a proxy do, which ask for other things than
// loadgen does.
func (st *stage) ask(t *testing.T) {
	t.Helper()
	for i, c := range []struct{ name, path, body string }{
		{"no stream", "/v1/chat/completions", `"messages":[{"role":"user","content":"tell a story"}],"max_tokens":50`},
		{"usage at the end", "/v1/chat/completions", `"messages":[{"role":"user","content":"tell a story"}],"max_tokens":60,"stream":true,"stream_options":{"include_usage":true}`},
		{"split characters", "/v1/chat/completions", `"messages":[{"role":"user","content":"emoji"}],"max_tokens":70,"stream":true,"stream_options":{"include_usage":true}`},
		{"log probabilities", "/v1/chat/completions", `"messages":[{"role":"user","content":"tell a story"}],"max_tokens":80,"stream":true,"logprobs":true,"top_logprobs":2,"stream_options":{"include_usage":true}`},
		{"two choices", "/v1/chat/completions", `"messages":[{"role":"user","content":"more and more"}],"max_tokens":90,"n":2,"stream":true,"stream_options":{"include_usage":true}`},
		{"text", "/v1/completions", `"prompt":"tell a story","max_tokens":100,"stream":true,"stream_options":{"include_usage":true}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+st.data+c.path, strings.NewReader(`{"model":"`+st.engine.Model+`",`+c.body+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Request-Id", fmt.Sprintf("ask-%d-%s", i, strings.ReplaceAll(c.name, " ", "-")))
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v: %.200s", c.name, resp.Status, err, b)
		}
	}
}

// records reads the proxy's ring.
func (st *stage) records(t *testing.T) []stream.Record {
	t.Helper()
	var out []stream.Record
	for line := range bytes.Lines([]byte(get(t, "http://"+st.admin+"/records"))) {
		var r stream.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("/records: %v in %.200s", err, line)
		}
		out = append(out, r)
	}
	return out
}
