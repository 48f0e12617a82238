package loadgen

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
)

// scriptRig is a server that plays raw scripts: one for one-token requests (the
// negotiation and primes), one of the test's own for the others.
type scriptRig struct {
	*rig
	script *sim.ScriptServer
}

var oneToken = sim.Script{Writes: sim.MustWrites(`C("a")@50 | FIN("length") U(20,1) D @51`)}

// scripted runs f beside a server that answers the n-th measured request, from
// 0, with next. One-token requests are answered in 50 ms unless prime is given.
func scripted(t *testing.T, prime func() sim.Script, next func(n int, p *sim.Played) sim.Script, f func(r *scriptRig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ln := fasthttputil.NewInmemoryListener()
		if prime == nil {
			prime = func() sim.Script { return oneToken }
		}
		measured := make(chan int, 1)
		measured <- 0
		s := sim.ServeScript(ln, func(_ int, p *sim.Played) sim.Script {
			if bytes.Contains(p.Body, []byte(`"max_tokens":1,`)) || bytes.Contains(p.Body, []byte(`"max_tokens":1}`)) {
				return prime()
			}
			n := <-measured
			measured <- n + 1
			return next(n, p)
		})
		transport := memoryTransport(ln)
		r := &rig{t: t, ln: ln, path: filepath.Join(dir, "run.ndjson"), deps: depsOver(ln, transport)}
		r.deps.Info = &engine.Info{Kind: engine.Unknown, Model: "m", MaxModelLen: 8192}
		w, err := matrix.Create(r.path)
		if err != nil {
			t.Fatal(err)
		}
		r.deps.Writer = w

		f(&scriptRig{r, s})

		if err := w.Close(); err != nil {
			t.Errorf("closing the run file: %v", err)
		}
		transport.CloseIdleConnections()
		s.Close()
		<-time.After(time.Minute) // virtual: what was closed ends
	})
}

// measuredBy returns the requests that are no one-token requests.
func (r *scriptRig) measured() []sim.Played {
	var out []sim.Played
	for _, p := range r.script.Played() {
		if !bytes.Contains(p.Body, []byte(`"max_tokens":1,`)) && !bytes.Contains(p.Body, []byte(`"max_tokens":1}`)) {
			out = append(out, p)
		}
	}
	return out
}

// steady is a stream of a token every 10 ms, long enough for any window here.
func steady(first time.Duration) sim.Script {
	writes := []sim.Write{}
	for i := range 3000 {
		writes = append(writes, sim.Write{At: first + time.Duration(i)*10*time.Millisecond, Bytes: words[i%len(words)]})
	}
	return sim.Script{Writes: writes}
}

// words are events of text that does not repeat within a window.
var words = func() (out [][]byte) {
	for i := range 3000 {
		out = append(out, []byte(`data: {"id":"r1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" `+lexicon[i*37%len(lexicon)]+lexicon[(i*i)%len(lexicon)]+`"},"finish_reason":null}]}`+"\n\n"))
	}
	return out
}()

// oneCell is a run of one decode cell without prefill rows.
func oneCell(concurrency int) Config {
	return Config{Contexts: []int{0}, Concurrency: []int{concurrency}, NoPrefill: true, Duration: 10 * time.Second, Settle: time.Second, MaxTokens: 4000}
}

// start runs cfg and returns how it ended, whatever that was.
func (r *rig) start(ctx context.Context, cfg Config) (Outcome, error) { return Run(ctx, cfg, r.deps) }
