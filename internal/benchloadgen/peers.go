package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
)

// peer is another tool that measures such streams.
type peer struct {
	name, version string // of the package in the Python registry
	// args run one wave: l.streams requests at once, of tokens each, against the
	// server at addr. The result goes to the folder out.
	args func(s *stand, l load, addr, out string, tokens int) []string
	// said reads what the tool reports of it.
	said func(out string) (said, error)
}

// said is what a tool reports: tokens a second, and medians in milliseconds.
type said struct{ total, ttft, tpot float64 }

var peers = []peer{
	{"llama-benchy", "0.4.0", benchyArgs, benchySaid},
	{"aiperf", "0.13.0", aiperfArgs, aiperfSaid},
}

func aiperfArgs(s *stand, l load, addr, out string, tokens int) []string {
	return []string{
		"profile", "--model", "steady", "--url", "http://" + addr, "--endpoint-type", "chat", "--streaming",
		"--tokenizer", s.tokenizer, "--concurrency", strconv.Itoa(l.streams), "--request-count", strconv.Itoa(l.streams),
		"--synthetic-input-tokens-mean", "20", "--synthetic-input-tokens-stddev", "0",
		"--output-tokens-mean", strconv.Itoa(tokens), "--extra-inputs", "ignore_eos:true",
		"--artifact-dir", out, "--ui", "none",
	}
}

func aiperfSaid(out string) (said, error) {
	type metric struct {
		Avg, P50 *float64
	}
	var r struct {
		TTFT  metric `json:"time_to_first_token"`
		ITL   metric `json:"inter_token_latency"`
		Total metric `json:"output_token_throughput"`
	}
	if err := readJSON(filepath.Join(out, "profile_export_aiperf.json"), &r); err != nil {
		return said{}, err
	}
	if r.TTFT.P50 == nil || r.ITL.P50 == nil || r.Total.Avg == nil {
		return said{}, errors.New("aiperf's export lacks a figure")
	}
	return said{*r.Total.Avg, *r.TTFT.P50, *r.ITL.P50}, nil
}

func benchyArgs(s *stand, l load, addr, out string, tokens int) []string {
	return []string{
		"--base-url", "http://" + addr + "/v1", "--model", "steady", "--tokenizer", s.tokenizer, "--book-url", s.book,
		"--pp", "20", "--tg", strconv.Itoa(tokens), "--runs", "1", "--concurrency", strconv.Itoa(l.streams),
		"--no-warmup", "--skip-coherence", "--latency-mode", "none", "--no-adapt-prompt",
		"--save-result", filepath.Join(out, "result.json"), "--format", "json", "--save-all-throughput-timeseries",
	}
}

func benchySaid(out string) (said, error) {
	var r struct {
		Benchmarks []struct {
			TTFT struct{ Values []float64 } `json:"e2e_ttft"`
			Rate struct{ Values []float64 } `json:"tg_req_throughput"` // tok/s, of each request
			Sum  struct{ Mean float64 }     `json:"tg_throughput"`
		} `json:"benchmarks"`
	}
	if err := readJSON(filepath.Join(out, "result.json"), &r); err != nil {
		return said{}, err
	}
	if len(r.Benchmarks) != 1 || len(r.Benchmarks[0].TTFT.Values) == 0 || len(r.Benchmarks[0].Rate.Values) == 0 {
		return said{}, errors.New("llama-benchy's result lacks a figure")
	}
	b := r.Benchmarks[0]
	slices.Sort(b.TTFT.Values)
	slices.Sort(b.Rate.Values)
	return said{b.Sum.Mean, quantile(b.TTFT.Values, .5), 1000 / quantile(b.Rate.Values, .5)}, nil
}

func readJSON(path string, to any) error {
	p, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(p, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// program is where the peer's own environment has it.
func (p peer) program(cache string) string {
	return filepath.Join(cache, p.name+"-"+p.version, "bin", p.name)
}

// installTime bounds the installation of one peer: gigabytes, with some.
const installTime = 10 * time.Minute

// install puts the peer into an environment of its own, once.
func (p peer) install(ctx context.Context, cache string, stderr io.Writer) error {
	if exec.CommandContext(ctx, p.program(cache), "--version").Run() == nil {
		return nil
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	dir := filepath.Join(cache, p.name+"-"+p.version)
	fmt.Fprintf(stderr, "benchloadgen: installing %s %s into %s\n", p.name, p.version, dir)
	for _, argv := range [][]string{
		{python, "-m", "venv", "--clear", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", p.name + "==" + p.version},
		{p.program(cache), "--version"},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", argv, err, out)
		}
	}
	return nil
}

// wave is one run of a peer beside the emitter's log.
type wave struct {
	total, ttft, tpot pair // tok/s, ms, ms
	perToken          time.Duration
	rss               int // bytes, peak of all its processes together
	processes         int
	first             time.Duration // from the start of the process to the first completion request
}

// waveTime bounds one run of a peer beyond the length of its streams.
const waveTime = 2 * time.Minute

// wave runs a peer once, with streams as long as a window of ours.
func (s *stand) wave(ctx context.Context, p peer, l load) (wave, error) {
	e, err := s.b.emitter(ctx, l.spec())
	if err != nil {
		return wave{}, err
	}
	defer e.Stop(syscall.SIGTERM)
	out, err := os.MkdirTemp(s.b.dir, p.name+"-")
	if err != nil {
		return wave{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.b.window+waveTime)
	defer cancel()
	tokens := int(s.b.window/l.itl) / l.perChunk * l.perChunk
	cmd := s.b.held(ctx, clientCore, p.program(s.cache), p.args(s, l, e.Addr, out, tokens)...)
	cmd.Env = append(os.Environ(), "HF_HOME="+filepath.Join(s.cache, "hf"))
	g, err := watchGroup(cmd)
	if err != nil {
		return wave{}, err
	}
	log, err := e.Log(ctx)
	if err != nil {
		return wave{}, err
	}
	reported, err := p.said(out)
	if err != nil {
		return wave{}, err
	}
	return waveOf(reported, log, tokens, g)
}

// waveOf lays what a peer said beside the emitter's log of the requests it
// measured: those of full length, which its probes are not.
func waveOf(r said, log map[string]yard.Emitted, tokens int, g group) (wave, error) {
	w := wave{rss: g.rss, processes: g.processes}
	first, from, to, n := int64(math.MaxInt64), int64(math.MaxInt64), int64(0), int64(0)
	var ttft, tpot []float64
	for _, s := range log {
		first = min(first, s.Read)
		k := len(s.Emits)
		if k < 2 || int64(k)*s.PerChunk < int64(tokens) {
			continue
		}
		from, to, n = min(from, s.Read), max(to, s.Emits[k-1]), n+int64(k)*s.PerChunk
		ttft = append(ttft, float64(s.Emits[0]-s.Read)/1e6)
		tpot = append(tpot, float64(s.Emits[k-1]-s.Emits[0])/1e6/float64(int64(k-1)*s.PerChunk))
	}
	if n == 0 {
		return w, errors.New("the emitter sent no stream of full length")
	}
	slices.Sort(ttft)
	slices.Sort(tpot)
	w.total = pair{r.total, float64(n) / (float64(to-from) / 1e9)}
	w.ttft = pair{r.ttft, quantile(ttft, .5)}
	w.tpot = pair{r.tpot, quantile(tpot, .5)}
	w.perToken = g.since(time.Unix(0, first)) / time.Duration(n)
	w.first = time.Unix(0, first).Sub(g.began)
	return w, nil
}
