package configs

import (
	"net/http"
	"strconv"
	"time"

	"github.com/streamgauge/streamgauge/detect"
)

// Loadgen is the settings of a run. The key of each field names its flag; the
// table below says what it means.
type Loadgen struct {
	URL            string      `key:"url"` // may carry credentials: engine.ParseURL takes them out
	Model          string      `key:"model"`
	Endpoint       string      `key:"endpoint"`
	Header         http.Header `key:"header"`
	APIKeyFile     string      `key:"api-key-file"` // see APIKey
	CA             string      `key:"ca"`
	Cert           string      `key:"cert"`
	TLSKey         string      `key:"key"`
	Insecure       bool        `key:"insecure"`
	EngineMetrics  string      `key:"engine-metrics"`
	ProxyAdmin     string      `key:"proxy-admin"`
	AdminTokenFile string      `key:"proxy-admin-token-file"`

	Contexts    []int         `key:"contexts"` // Max for the largest; not Loaded.Given: as far as they fit
	Concurrency []int         `key:"concurrency"`
	Duration    time.Duration `key:"duration"`
	Settle      time.Duration `key:"settle"` // 0: none
	MaxTokens   int           `key:"max-tokens"`
	RespectEOS  bool          `key:"respect-eos"`
	ForceLength bool          `key:"force-length"` // the opposite of RespectEOS, once loaded
	OnLoop      string        `key:"on-loop"`
	Prefix      string        `key:"prefix"`
	KVRule      string        `key:"kv-rule"`
	KVTokens    int           `key:"kv-tokens"` // 0: from the server
	NoPrefill   bool          `key:"no-prefill"`
	Rate        []float64     `key:"rate"` // requests a second; none: concurrency is held
	Stages      []Stage       `key:"stages"`
	Arrival     string        `key:"arrival"`
	MaxOpen     int           `key:"max-open"`
	SLO         SLO           `key:"slo"`
	Repeat      int           `key:"repeat"`
	Seed        uint64        `key:"seed"`

	Temperature     *float64       `key:"temperature"`
	TopP            *float64       `key:"top-p"`
	Thinking        *bool          `key:"thinking"`
	ReasoningEffort string         `key:"reasoning-effort"`
	ExtraBody       map[string]any `key:"extra-body"`
	Ask             string         `key:"ask"` // "": the generator's own

	TTFTTimeout    time.Duration `key:"ttft-timeout"` // 0: grows with the context
	StallTimeout   time.Duration `key:"stall-timeout"`
	ConnectTimeout time.Duration `key:"connect-timeout"`
	MaxTime        time.Duration `key:"max-time"`   // 0: none
	MaxFailed      float64       `key:"max-failed"` // share, 0..1

	Stamps            string `key:"stamps"`
	DetectCycles      int    `key:"detect-cycles"`
	DetectChars       int    `key:"detect-chars"`
	DetectWhitespace  int    `key:"detect-whitespace"`
	DetectPeriodBytes int64  `key:"detect-period-bytes"`
	DetectPeriodChars int    `key:"detect-period-chars"`

	Out    string `key:"out"` // "": streamgauge-<UTC time>/
	Resume string `key:"resume"`
	Events bool   `key:"events"`
	Notes  []Pair `key:"note"`
	Quiet  bool   `key:"quiet"`
	NoTUI  bool   `key:"no-tui"`
	DryRun bool   `key:"dry-run"`
}

// Limits are the repetition detector's.
func (c *Loadgen) Limits() detect.Limits {
	return detect.Limits{Cycles: c.DetectCycles, Chars: c.DetectChars, WhiteSpace: c.DetectWhitespace,
		PeriodBytes: int(c.DetectPeriodBytes), PeriodChars: c.DetectPeriodChars}
}

// LoadgenKeys is the table of loadgen's settings.
func LoadgenKeys() Keys {
	server := []Key{
		{Name: "url", Type: URL, Shown: "required", Help: "base URL of the server, or of the proxy in front of it; /v1 at its end is dropped"},
		{Name: "model", Type: Text, Shown: "the server's only model", Help: "model to measure; a server with several needs one named"},
		{Name: "endpoint", Type: Choice, Default: "chat", Choices: []string{"chat", "completions"}, Help: "/v1/chat/completions or /v1/completions"},
		{Name: "header", Type: Headers, Help: "header of each request; repeatable"},
		{Name: "api-key-file", Type: File, Shown: "STREAMGAUGE_API_KEY, else OPENAI_API_KEY", Help: "file that holds the server's key; there is no flag for the key itself, since ps would show it"},
		{Name: "ca", Type: File, Shown: "the system's", Help: "certificates of the authorities to trust, PEM"},
		{Name: "cert", Type: File, Help: "our own certificate, PEM; needs --key"},
		{Name: "key", Type: File, Help: "private key of --cert, PEM"},
		{Name: "insecure", Type: Bool, Default: "false", Help: "do not check the server's certificate"},
		{Name: "engine-metrics", Type: URL, Shown: "/metrics of the server", Help: "where the engine's own metrics are, when not on the server itself"},
		{Name: "proxy-admin", Type: URL, Shown: "loadgen measures alone", Help: "admin URL of our proxy in front of the server; its socket stamps are then used"},
		{Name: "proxy-admin-token-file", Type: File, Help: "file that holds the bearer token of the proxy's admin port"},
	}
	matrix := []Key{
		{Name: "contexts", Type: Contexts, Default: "8k,16k,32k,64k,128k,max", Shown: "8k,16k,32k,64k,128k,max as far as they fit", Help: "context lengths in tokens, in this order: k is 1024, 0 is the tail alone, max the largest that fits; the prefill row at the model's limit is run besides"},
		{Name: "concurrency", Type: Levels, Default: "1..128", Help: "streams at once, in this order: 1..128 doubles, 1..8+1 steps, 1,3,128 as it stands"},
		{Name: "duration", Type: Duration, Default: "30s", Help: "length of a cell's window"},
		{Name: "settle", Type: Duration, Default: "3s", Zero: "none", Help: "time between the last stream's first token and the window"},
		{Name: "max-tokens", Type: Count, Default: "4096", Min: 1, Help: "longest reply, in tokens"},
		{Name: "respect-eos", Type: Bool, Default: "true", Help: "let the model end its replies"},
		{Name: "force-length", Type: Bool, Default: "false", Help: "ask the server to ignore the end of text, so that each reply has max-tokens"},
		{Name: "on-loop", Type: Choice, Default: "salvage", Choices: []string{"salvage", "discard"}, Help: "of a cell with looping streams, count the clean spans or nothing"},
		{Name: "prefix", Type: Choice, Default: "shared", Choices: []string{"shared", "distinct"}, Help: "one context text for all streams, or one for each slot"},
		{Name: "kv-rule", Type: Choice, Default: "distinct", Choices: []string{"distinct", "shared", "off"}, Help: "what a cell must fit into: the KV cache of as many users, of one shared prefix, or anything"},
		{Name: "kv-tokens", Type: Count, Zero: "auto", Default: "auto", Shown: "from the server", Min: 1, Help: "KV capacity in tokens"},
		{Name: "no-prefill", Type: Bool, Default: "false", Help: "leave the prefill rows out, the one at the model's limit too, which may take minutes"},
		{Name: "rate", Type: Rates, Shown: "concurrency is held", Help: "send at these rates, whether or not replies have ended: 10/s, 30/m, 5/s,10/s; 1..64/s doubles. A cell for each, after settle"},
		{Name: "stages", Type: Stages, Help: "paced load that changes without a pause, a cell for each stage: 1m@10/s,2m@20/s"},
		{Name: "arrival", Type: Choice, Default: "poisson", Choices: []string{"poisson", "constant"}, Help: "how the sends of a rate follow one another"},
		{Name: "max-open", Type: Count, Default: "1024", Min: 1, Help: "most streams that paced load holds open; a send that finds none free is dropped and counted"},
		{Name: "slo", Type: Targets, Help: "search the highest concurrency (with a --rate range, the highest rate) at which these 95th percentiles hold: ttft=500ms,tbt=50ms"},
		{Name: "repeat", Type: Count, Default: "1", Min: 1, Help: "times the whole matrix is run into the same file"},
		{Name: "seed", Type: Seed, Default: "1", Help: "seed of the prompts' words"},
	}
	request := []Key{
		{Name: "temperature", Type: Real, Shown: "not sent", Help: "sampling temperature"},
		{Name: "top-p", Type: Real, Shown: "not sent", Help: "nucleus sampling, above 0 and up to 1"},
		{Name: "thinking", Type: Maybe, Shown: "not sent", Help: "switch a model's thinking on or off through its chat template"},
		{Name: "reasoning-effort", Type: Text, Shown: "not sent", Help: "reasoning_effort of each request, for example low or none"},
		{Name: "extra-body", Type: Object, Help: "JSON object merged into each request body"},
		{Name: "ask", Type: Text, Shown: "a request for long, varied text", Help: "literal end of each prompt; the varying tail stands before it"},
	}
	limits := []Key{
		{Name: "ttft-timeout", Type: Duration, Default: "auto", Zero: "auto", Shown: "grows with the context and the number of streams", Help: "longest wait for a stream's first token"},
		{Name: "stall-timeout", Type: Duration, Default: "60s", Help: "longest silence between two tokens of a stream"},
		{Name: "connect-timeout", Type: Duration, Default: "10s", Help: "longest time to connect, TLS included"},
		{Name: "max-time", Type: Duration, Default: "none", Zero: "none", Help: "end of the whole run; what was measured is reported"},
		{Name: "max-failed", Type: Share, Default: "1%", Help: "share of a cell's streams that may fail before the cell does"},
	}
	output := []Key{
		{Name: "out", Type: Path, Shown: "streamgauge-<UTC time>/", Help: "folder for the run file and the reports"},
		{Name: "resume", Type: File, Help: "run file to go on with: cells that it has are not run again"},
		{Name: "events", Type: Bool, Default: "false", Help: "write the instant of every token's event into the run file (event_log of its records)"},
		{Name: "note", Type: Pairs, Help: "fact for the header of the run, name=value (gpu, launch, quantization, …); repeatable"},
		{Name: "quiet", Type: Bool, Default: "false", Help: "no progress on stderr"},
		{Name: "no-tui", Type: Bool, Default: "false", Help: "plain lines instead of a live screen"},
		{Name: "dry-run", Type: Bool, Default: "false", Help: "print the plan, each cell's fit arithmetic and the estimated time; no stream is started"},
	}
	var ks Keys
	ks = ks.group("Server", server...)
	ks = ks.group("Matrix", matrix...)
	ks = ks.group("Requests", request...)
	ks = ks.group("Limits", limits...)
	ks = ks.group("Measuring", measuring()...)
	return ks.group("Output", output...)
}

func (ks Keys) group(name string, add ...Key) Keys {
	for _, k := range add {
		k.Group = name
		ks = append(ks, k)
	}
	return ks
}

// measuring are the keys that both programs have.
func measuring() []Key {
	return []Key{
		{Name: "stamps", Type: Choice, Default: "kernel", Choices: []string{"kernel", "user"}, Help: "receive time from the kernel where it gives one, or from the clock after each read"},
		{Name: "detect-cycles", Type: Count, Default: strconv.Itoa(detect.DefaultCycles), Min: 3, Help: "cycles that confirm a loop"},
		{Name: "detect-chars", Type: Count, Default: strconv.Itoa(detect.DefaultChars), Min: 512, Help: "characters that those cycles must span together"},
		{Name: "detect-whitespace", Type: Count, Default: strconv.Itoa(detect.DefaultWhiteSpace), Min: 128, Help: "white-space characters in a row that are a loop"},
		{Name: "detect-period-bytes", Type: Bytes, Default: "64KiB", Help: "longest period looked for, in bytes"},
		{Name: "detect-period-chars", Type: Count, Default: strconv.Itoa(detect.DefaultPeriodChars), Min: 1, Help: "longest period looked for, in characters"},
	}
}
