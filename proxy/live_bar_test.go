package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/passive"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// town is a simulated engine behind a proxy, in a bubble of virtual time.
type town struct {
	t      *testing.T
	srv    *sim.Server
	p      *Proxy
	engine *fasthttputil.InmemoryListener
	http   *http.Client // to the proxy's data port
}

func inTown(t *testing.T, profile sim.Profile, f func(w *town)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &town{t: t, srv: sim.New(profile, sim.Options{Seed: 1}), engine: fasthttputil.NewInmemoryListener()}
		data, admin := fasthttputil.NewInmemoryListener(), fasthttputil.NewInmemoryListener()
		var err error
		w.p, err = New(Config{
			Upstreams: []string{"http://engine:80"}, ModelsEvery: -1, Models: []string{profile.Model},
			Dial: func(context.Context, string, string) (net.Conn, error) { return w.engine.Dial() },
		}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		for _, serve := range []func() error{
			func() error { return w.srv.Serve(w.engine) },
			func() error { return w.p.Serve(data) },
			func() error { return w.p.ServeAdmin(admin) },
		} {
			wait.Go(func() {
				if err := serve(); err != nil {
					t.Error(err)
				}
			})
		}
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return data.Dial() }}
		w.http = &http.Client{Transport: transport}
		defer func() {
			transport.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := w.p.Shutdown(ctx); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if err := w.srv.Shutdown(ctx); err != nil {
				t.Errorf("Shutdown of the engine: %v", err)
			}
			wait.Wait()
			<-time.After(2 * time.Minute) // fasthttp's cleaners end
		}()
		f(w)
	})
}

// usage is what a client asks for.
type usage int

const (
	silent usage = iota // nothing
	total               // the total at the end
	each                // the total with every chunk
)

// ask sends one request, reads its stream, and returns its id.
func (w *town) ask(model, prompt string, maxTokens int, u usage, id string) {
	body := map[string]any{
		"model": model, "stream": true, "max_tokens": maxTokens, "ignore_eos": true,
		"messages": []map[string]string{{"role": "user", "content": prompt}},
	}
	switch u {
	case total:
		body["stream_options"] = map[string]any{"include_usage": true}
	case each:
		body["stream_options"] = map[string]any{"include_usage": true, "continuous_usage_stats": true}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		w.t.Error(err)
		return
	}
	req, err := http.NewRequest(http.MethodPost, "http://proxy/v1/chat/completions", bytes.NewReader(raw))
	if err != nil {
		w.t.Error(err)
		return
	}
	req.Header.Set("X-Request-Id", id)
	res, err := w.http.Do(req)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
		w.t.Errorf("%s: status %d, %d bytes, %v", id, res.StatusCode, n, err)
	}
}

// truth finds what the engine knows of a request.
func (w *town) truth(id string) sim.Request {
	w.t.Helper()
	for _, r := range w.srv.Truth().Requests() {
		if r.ID == id {
			return r
		}
	}
	w.t.Fatalf("the engine saw no request %s", id)
	return sim.Request{}
}

// prose is some text that a tokenizer makes so many tokens of, within a few
// percent: words of uneven length, marks, numbers, lines.
func prose(rng *rand.Rand, tokens int) string {
	var b strings.Builder
	for n := 0; n < tokens; n++ {
		switch k := rng.IntN(24); {
		case k == 0:
			b.WriteString(",")
		case k == 1:
			b.WriteString(".\n")
		case k == 2:
			fmt.Fprintf(&b, " %d", rng.IntN(1000))
		case k == 3:
			b.WriteString("\"")
		default:
			b.WriteByte(' ')
			for range 1 + rng.IntN(8) {
				b.WriteByte(byte('a' + rng.IntN(26)))
			}
		}
	}
	return b.String()
}

var (
	barContexts    = []int{1024, 4096, 16384}
	barConcurrency = []int{1, 2, 4, 8, 16}
)

// barProfile is an engine whose step time tells context and concurrency apart.
func barProfile() sim.Profile {
	var tbt, ttft []sim.Sample
	for _, context := range barContexts {
		for _, n := range barConcurrency {
			tbt = append(tbt, sim.Sample{Context: context, Concurrency: n,
				Time: time.Duration(4000+context/4+600*(n-1)) * time.Microsecond})
			ttft = append(ttft, sim.Sample{Context: context, Concurrency: n, Time: 40 * time.Millisecond})
		}
	}
	return sim.Profile{
		Name: "bar", Version: "0.32.0", Model: "bar", MaxModelLen: 32768, KVTokens: 1 << 20, MaxRunning: 64,
		Speed: sim.Speed{
			Prefill: sim.Curve{{Tokens: 32768, Time: 100 * time.Millisecond}},
			TTFT:    sim.NewSurface(ttft), TBT: sim.NewSurface(tbt),
		},
	}
}

// cellKey is the borders of a cell as the test draws them: by hand.
type cellKey struct{ context, decoding int }

func keyOf(prompt, decoding int) cellKey {
	k := cellKey{context: 1024, decoding: 1}
	for float64(prompt) > float64(k.context)*(1+1./64) {
		k.context *= 2
	}
	for decoding > k.decoding {
		k.decoding *= 2
	}
	return k
}

// simRates are the simulator's own rates, from its log alone: each hand-over's
// tokens and the time since the one before, by the number of requests between
// their first and last hand-over at that instant. What a request hands over in
// its loop does not count.
func simRates(log *sim.Log, counts func(id string) bool) map[cellKey]float64 {
	type span struct{ from, to time.Duration }
	requests := log.Requests()
	var spans []span
	for _, r := range requests {
		if n := len(r.Emits); n > 0 {
			spans = append(spans, span{r.Emits[0].At, r.Emits[n-1].At})
		}
	}
	tokens, took := map[cellKey]float64{}, map[cellKey]float64{}
	for _, r := range requests {
		if !counts(r.ID) {
			continue
		}
		for i := 1; i < len(r.Emits); i++ {
			at := r.Emits[i].At
			if r.LoopToken >= 0 && int(r.Emits[i].Total) > r.LoopToken {
				break
			}
			decoding := 0
			for _, s := range spans {
				if s.from <= at && at <= s.to {
					decoding++
				}
			}
			k := keyOf(r.Prompt, decoding)
			tokens[k] += float64(r.Emits[i].Tokens)
			took[k] += (at - r.Emits[i-1].At).Seconds()
		}
	}
	rates := map[cellKey]float64{}
	for k := range tokens {
		rates[k] = tokens[k] / took[k]
	}
	return rates
}

// TestPassiveMatrixAgainstTruth is bar 3 of the live page: traffic of clients
// that ask for usage and of clients that don't fills cells within 2 % of the
// simulator's own rates, and of what the load generator measures.
func TestPassiveMatrixAgainstTruth(t *testing.T) {
	const tokens, rounds = 260, 4
	var m passive.Matrix
	var truth map[cellKey]float64
	inTown(t, barProfile(), func(w *town) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, context := range barContexts {
			prompt := prose(rng, context*92/100)
			w.ask("bar", prompt, 1, total, "probe")
			// Fitted to the context by the engine's own count.
			have := w.truthOf("probe")
			prompt += strings.Repeat(" a", context-have)
			for _, n := range barConcurrency {
				for round := range rounds {
					var wait sync.WaitGroup
					for i := range n {
						id := fmt.Sprintf("c%d-%d-%d-%d", context, n, round, i)
						wait.Go(func() { w.ask("bar", prompt, tokens*max(1, 4/n), usage((round+i)%3), id) })
					}
					wait.Wait()
				}
			}
		}
		m = w.p.live.book.Matrix()
		truth = simRates(w.srv.Truth(), func(id string) bool { return id != "probe" })
	})
	measured := loadgenCells(t)

	compared := 0
	t.Logf("%-9s %3s %8s %10s %10s %10s %10s %7s %7s", "context", "C", "tokens", "simulator", "passive", "loadgen", "estimated", "to sim", "to lg")
	for _, c := range m.Cells {
		k := cellKey{c.Context, c.Concurrency}
		lg, has := measured[k]
		off := func(want float64) float64 { return 100 * (c.RequestTokS.V/want - 1) }
		t.Logf("%-9s %3d %8d %10.2f %10.2f %10.2f %10v %+6.2f%% %+6.2f%%",
			c.ContextLabel, c.Concurrency, c.OutputTokens, truth[k], c.RequestTokS.V, lg.RequestTokS.V, c.Estimated, off(truth[k]), off(lg.RequestTokS.V))
		if c.OutputTokens < 1000 || c.Estimated {
			continue
		}
		if d := off(truth[k]); math.Abs(d) > 2 || math.IsNaN(d) {
			t.Errorf("%s, %d decoding: %.2f tok/s a request, the simulator's rate is %.2f", c.ContextLabel, c.Concurrency, c.RequestTokS.V, truth[k])
		}
		if !has {
			continue
		}
		compared++
		if d := off(lg.RequestTokS.V); math.Abs(d) > 2 {
			t.Errorf("%s, %d decoding: %.2f tok/s a request, loadgen measures %.2f", c.ContextLabel, c.Concurrency, c.RequestTokS.V, lg.RequestTokS.V)
		}
		if d := 100 * (c.TotalTokS.V/lg.TotalTokS.V - 1); math.Abs(d) > 2 {
			t.Errorf("%s, %d decoding: %.2f tok/s in total, loadgen measures %.2f", c.ContextLabel, c.Concurrency, c.TotalTokS.V, lg.TotalTokS.V)
		}
	}
	if want := len(barContexts) * len(barConcurrency); compared != want {
		t.Errorf("%d cells have enough tokens to compare with loadgen's, want %d", compared, want)
	}
}

// TestPassiveMatrixOfMixedTraffic: requests of all lengths come and go at random,
// several tokens come in an event, a third of the streams loops, and a client of
// three learns event by event what its tokens are. Cells made of these alone are
// within 2 % of the simulator's rate. Replies are long enough for every loop to be
// confirmed: of one that ends before, nobody can know.
func TestPassiveMatrixOfMixedTraffic(t *testing.T) {
	profile := barProfile()
	profile.Chunks = []int{3, 1, 5, 2, 4}
	profile.Loops = []sim.LoopRule{{Share: 0.33, OnsetMin: 200 * time.Millisecond, OnsetMax: 2 * time.Second, PeriodMin: 12, PeriodMax: 40, Faster: 2}}
	inTown(t, profile, func(w *town) {
		const requests = 120
		rng := rand.New(rand.NewPCG(5, 6))
		kinds := map[string]usage{}
		var wait sync.WaitGroup
		for i := range requests {
			id, u := fmt.Sprint("r", i), usage(rng.IntN(3))
			kinds[id] = u
			prompt := prose(rng, int(math.Exp(math.Log(300)+rng.Float64()*math.Log(20000./300))))
			length := 1500 + rng.IntN(1500)
			wait.Go(func() { w.ask("bar", prompt, length, u, id) })
			<-time.After(time.Duration(rng.ExpFloat64() * float64(1200*time.Millisecond)))
		}
		wait.Wait()
		m := w.p.live.book.Matrix()
		truth := simRates(w.srv.Truth(), func(id string) bool { return kinds[id] == each })
		compared, looped, retired := 0, 0, 0
		for _, r := range w.srv.Truth().Requests() {
			if r.LoopChars >= 0 {
				looped++
			}
		}
		records, _, _ := w.p.ring.since("")
		for _, k := range records {
			if slices.ContainsFunc(k.record().Loops, stream.Loop.Acts) {
				retired++
			}
		}
		t.Logf("%-9s %3s %8s %10s %10s %9s", "context", "C", "tokens", "simulator", "passive", "estimated")
		for _, c := range m.Cells {
			want := truth[cellKey{c.Context, c.Concurrency}]
			off := 100 * (c.RequestTokS.V/want - 1)
			t.Logf("%-9s %3d %8d %10.2f %10.2f %9v %+6.2f%%", c.ContextLabel, c.Concurrency, c.OutputTokens, want, c.RequestTokS.V, c.Estimated, off)
			if c.Estimated || c.OutputTokens < 1000 {
				continue
			}
			compared++
			if math.IsNaN(off) || math.Abs(off) > 2 {
				t.Errorf("%s, %d decoding: %.2f tok/s a request, the simulator's rate is %.2f", c.ContextLabel, c.Concurrency, c.RequestTokS.V, want)
			}
		}
		t.Logf("%d streams looped, %d tokens of them left out", looped, m.LeftOut.LoopTokens)
		if compared < 8 || looped < requests/5 || retired != looped {
			t.Errorf("%d cells compared, %d streams looped, %d of them seen to: the traffic was too tame to tell", compared, looped, retired)
		}
	})
}

// truthOf is the prompt's length of the last request with an id.
func (w *town) truthOf(id string) (prompt int) {
	for _, r := range w.srv.Truth().Requests() {
		if r.ID == id {
			prompt = r.Prompt
		}
	}
	return prompt
}

// loadgenCells measures the same cells of the same engine with the load
// generator.
func loadgenCells(t *testing.T) map[cellKey]matrix.Cell {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.ndjson")
	cells := map[cellKey]matrix.Cell{}
	inTown(t, barProfile(), func(w *town) {
		file, err := matrix.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return w.engine.Dial() }}
		defer transport.CloseIdleConnections()
		out, err := loadgen.Run(context.Background(), loadgen.Config{
			Model: "bar", Contexts: barContexts, Concurrency: barConcurrency, Duration: 5 * time.Second, Settle: time.Second,
			MaxTokens: 4096, ForceLength: true, NoPrefill: true,
		}, loadgen.Deps{
			Target: &engine.Target{URL: "http://engine:80", Transport: transport},
			Dialer: stamp.Dialer{Dial: func(context.Context, string, string) (net.Conn, error) { return w.engine.Dial() }},
			Writer: file,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
		for _, c := range out.Cells {
			if c.Phase == matrix.Decode {
				cells[cellKey{c.Context, c.Concurrency}] = c
			}
		}
	})
	return cells
}

// TestContextWithoutUsage: once the ratio is learned, streams whose clients do
// not ask for usage land in the right context bucket in at least 95 %.
func TestContextWithoutUsage(t *testing.T) {
	const learn, judged = 40, 300
	inTown(t, barProfile(), func(w *town) {
		rng := rand.New(rand.NewPCG(3, 4))
		size := func() int { return int(math.Exp(math.Log(300) + rng.Float64()*math.Log(28000./300))) }
		for i := range learn {
			w.ask("bar", prose(rng, size()), 2, total, fmt.Sprint("learn", i))
		}
		before := map[int]int64{}
		right := 0
		for i := range judged {
			id := fmt.Sprint("silent", i)
			w.ask("bar", prose(rng, size()), 3, silent, id)
			synctest.Wait()
			want := keyOf(w.truth(id).Prompt, 1).context
			for _, c := range w.p.live.book.Matrix().Cells {
				if c.ContextEstimatedTokens != before[c.Context] {
					before[c.Context] = c.ContextEstimatedTokens
					if c.Context == want {
						right++
					}
				}
			}
		}
		t.Logf("%d of %d silent streams are in the bucket of their prompt's true length", right, judged)
		if right < judged*95/100 {
			t.Errorf("%d of %d are in the right bucket, want at least 95 %%", right, judged)
		}
		if m := w.p.live.book.Matrix(); m.LeftOut.NoContext != 0 {
			t.Errorf("%d streams have no context after %d told theirs", m.LeftOut.NoContext, learn)
		}
	})
}
