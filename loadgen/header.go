package loadgen

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/streamgauge/streamgauge/detect"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// header is the first line of the run file.
func (r *runner) header(now time.Time, bodySum string) matrix.Header {
	h := matrix.Header{
		Type: "header", V: matrix.Version, Tool: r.cfg.Tool, Start: now.UTC(), StartMonoNS: int64(stamp.FromTime(now)),
		Host:   matrix.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), Kernel: kernelRelease()},
		Engine: r.engineHeader(), Notes: r.notes(), Warnings: []matrix.Warning{}, Definitions: r.definitions(),
		Config: matrix.Config{
			URL: r.deps.Target.URL, Endpoint: r.cfg.Endpoint, Contexts: r.plan.Contexts, Concurrency: r.plan.Concurrency,
			DurationS: r.cfg.Duration.Seconds(), SettleS: r.cfg.Settle.Seconds(), MaxTokens: r.cfg.MaxTokens,
			ForceLength: r.cfg.ForceLength, OnLoop: string(r.cfg.OnLoop), Prefix: string(r.cfg.Prefix),
			KVRule: string(r.cfg.KVRule), MaxFailed: r.cfg.MaxFailed, Repeat: r.cfg.Repeat, Seed: r.cfg.Seed, NoPrefill: r.cfg.NoPrefill,
			Ask: r.cfg.Ask, BodySHA256: bodySum, Extra: r.extra(),
			Salt: r.cfg.Salt, Temperature: r.cfg.Temperature, TopP: r.cfg.TopP, Thinking: r.cfg.Thinking, ReasoningEffort: r.cfg.Effort,
			RequestSHA256: r.requestSum(), Detect: detectHeader(r.cfg.Limits),
			Paced: r.cfg.pacedHeader(), SLO: r.cfg.SLO.header(),
		},
	}
	if r.proxy != nil {
		h.Proxy = r.proxy.name
	}
	return h
}

// notes are the user's, without this run's credentials and without what looks
// like somebody's: a run file is made to be sent to others.
func (r *runner) notes() map[string]string {
	notes := stream.RedactNotes(r.cfg.Notes)
	for name, text := range notes {
		notes[name] = r.redact.String(text)
	}
	return notes
}

func (r *runner) engineHeader() matrix.Engine {
	e := matrix.Engine{
		Kind: string(r.info.Kind), Version: r.info.Version, Model: r.info.Model,
		MaxModelLen: r.info.MaxModelLen, KVTokens: r.plan.KVTokens, MaxRunning: r.info.MaxRunning,
		Sources: map[string]string{}, Sent: r.sent(), Dropped: slices.Clone(r.switches.Dropped),
	}
	for _, f := range r.info.Facts {
		e.Sources[f.Name] = f.Source
	}
	if r.cfg.KVTokens > 0 {
		e.Sources["kv_tokens"] = kvByHand
	}
	if e.Dropped == nil {
		e.Dropped = []string{}
	}
	return e
}

// sent lists the keys of a request beside prompt and model, as they go out.
func (r *runner) sent() []string {
	body, err := r.switches.Body(r.bodyInput("", r.cfg.MaxTokens, "id", false))
	if err != nil {
		return []string{}
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(body, &keys) != nil {
		return []string{}
	}
	for _, k := range []string{"model", "messages", "prompt"} {
		delete(keys, k)
	}
	return slices.Sorted(maps.Keys(keys))
}

// requestSum is the hash of what each request of a cell asks for beside its
// prompt: the values of --extra-body are in it, and not in the header.
func (r *runner) requestSum() string {
	body, err := r.switches.Body(r.bodyInput("", r.cfg.MaxTokens, "id", false))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func detectHeader(l detect.Limits) map[string]int {
	return map[string]int{
		"cycles":       cmp.Or(l.Cycles, detect.DefaultCycles),
		"chars":        cmp.Or(l.Chars, detect.DefaultChars),
		"whitespace":   cmp.Or(l.WhiteSpace, detect.DefaultWhiteSpace),
		"period_bytes": cmp.Or(l.PeriodBytes, detect.DefaultPeriodBytes),
		"period_chars": cmp.Or(l.PeriodChars, detect.DefaultPeriodChars),
	}
}

func (r *runner) extra() []string { return slices.Sorted(maps.Keys(r.cfg.Extra)) }

// definitions names the rules by which the numbers were made, for comparing runs.
func (r *runner) definitions() map[string]string {
	return map[string]string{
		"window":  "a token counts if the instant of its event lies in [open, open + duration)",
		"ready":   "the window opens settle after every slot has produced a token since the start, with nothing waiting where the server tells",
		"ttft":    "first generated event − sent, median over the start burst, prompt cache warm",
		"tbt":     "(last − first) / (tokens − first tokens) of a stream inside the window, median",
		"total":   "tokens in the window / window; where streams looped: C · clean tokens / clean stream-seconds",
		"prefill": "usage.prompt_tokens / ttft of a cold request, one at a time, median",
	}
}

// defaultTLS is for https without settings of its own.
func defaultTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
