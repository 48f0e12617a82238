package matrix

import (
	"time"

	"github.com/streamgauge/streamgauge/stream"
)

// Status is the verdict on a cell. A cell that has no number prints its status.
type Status string

const (
	Valid        Status = "valid"
	Looped       Status = "looped"
	OverCapacity Status = "over_capacity"
	Short        Status = "short"
	Limited      Status = "limited"
	Failed       Status = "failed"
	Interrupted  Status = "interrupted"
	Skipped      Status = "skipped"
)

// CellPhase is the kind of a cell.
type CellPhase string

const (
	Prefill CellPhase = "prefill"
	Decode  CellPhase = "decode"
	Offered CellPhase = "offered" // paced load; see OfferedLoad
)

// Cell is one line of the matrix: a prefill row or a (context, concurrency)
// cell. The first keys and their units are those of the published tables.
type Cell struct {
	Type string `json:"type"` // "cell"
	V    int    `json:"v"`    // 1

	Phase       CellPhase `json:"phase"`
	Context     int       `json:"context"` // label, tokens
	Concurrency int       `json:"concurrency"`
	Repeat      int       `json:"repeat"` // 0 first
	Status      Status    `json:"status"`
	Reason      string    `json:"reason"`  // machine-readable, "" when valid without remark
	Message     string    `json:"message"` // one sentence with its arithmetic

	TotalTokS    stream.Null[float64] `json:"total_tok_s"`
	RequestTokS  stream.Null[float64] `json:"request_tok_s"`
	TTFTMS       stream.Null[float64] `json:"ttft_ms"`
	TBTMS        stream.Null[float64] `json:"tbt_ms"`
	AvgActive    stream.Null[float64] `json:"avg_active"`
	Completed    stream.Null[int]     `json:"completed"`
	OutputTokens stream.Null[float64] `json:"output_tokens"`
	MeasuredS    stream.Null[float64] `json:"measured_s"`

	AvgDecoding  stream.Null[float64] `json:"avg_decoding"`
	ActiveServer stream.Null[float64] `json:"active_server"`
	TTFT         Quantiles            `json:"ttft"`
	TTFTSteady   Quantiles            `json:"ttft_steady"`
	TBT          Quantiles            `json:"tbt"`
	Gaps         Quantiles            `json:"gaps"`
	Hist         Hists                `json:"hist"`

	CleanShare     stream.Null[float64] `json:"clean_share"`
	Loops          int                  `json:"loops"` // streams retired by an acting verdict
	CoalescedShare stream.Null[float64] `json:"coalesced_share"`
	TokensPerEvent stream.Null[float64] `json:"tokens_per_event"`
	TokensFrom     stream.TokensFrom    `json:"tokens_from"`
	Lag            Quantiles            `json:"lag"` // stamp to parsed
	StartSkewMS    stream.Null[float64] `json:"start_skew_ms"`
	CPUShare       stream.Null[float64] `json:"cpu_share"` // of the process, of its cores
	GCPauseMS      stream.Null[float64] `json:"gc_pause_ms"`
	Stamps         string               `json:"stamps"` // kernel, user, or proxy:kernel …
	ProxyDiff      *ProxyDiff           `json:"proxy_diff,omitempty"`
	SpecAcceptance stream.Null[float64] `json:"spec_acceptance"`
	Preemptions    stream.Null[float64] `json:"preemptions"`
	PerSecond      []float64            `json:"per_second"`
	CI95           stream.Null[float64] `json:"ci95"` // half width, tok/s, batch means
	PromptTokens   stream.Null[int]     `json:"prompt_tokens"`
	CachedTokens   stream.Null[int]     `json:"cached_tokens"`
	OpenNS         stream.Null[int64]   `json:"open_ns"` // window opening since the header line
	Streams        int                  `json:"streams"` // records of this cell
	FailedStreams  int                  `json:"failed_streams"`
	Offered        *OfferedLoad         `json:"offered,omitempty"`
	Warnings       []Warning            `json:"warnings"`
}

// Warning is doubt that travels with the number: a code for programs and a
// sentence for people, printed as a footnote.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Quantiles summarises a distribution in milliseconds; all null when N is 0.
type Quantiles struct {
	N   int64                `json:"n"`
	P50 stream.Null[float64] `json:"p50_ms"`
	P90 stream.Null[float64] `json:"p90_ms"`
	P99 stream.Null[float64] `json:"p99_ms"`
	Max stream.Null[float64] `json:"max_ms"`
}

// ProxyDiff is loadgen's own reading less the proxy's, of the same streams.
type ProxyDiff struct {
	Joined   int                  `json:"joined"`
	Missing  int                  `json:"missing"`
	TTFTMS   stream.Null[float64] `json:"ttft_ms"`     // median of differences
	TBTMS    stream.Null[float64] `json:"tbt_ms"`      // likewise
	OwnTTFT  stream.Null[float64] `json:"own_ttft_ms"` // loadgen's own medians
	OwnTBT   stream.Null[float64] `json:"own_tbt_ms"`
	OwnTotal stream.Null[float64] `json:"own_total_tok_s"`
}

// Header is the first line of a run file.
type Header struct {
	Type string `json:"type"` // "header"
	V    int    `json:"v"`

	Tool        string            `json:"tool"` // streamgauge <version>
	Start       time.Time         `json:"start"`
	StartMonoNS int64             `json:"start_mono_ns"`
	Host        Host              `json:"host"`
	Engine      Engine            `json:"engine"`
	Config      Config            `json:"config"`
	Definitions map[string]string `json:"definitions"` // name -> the sentence of docs/measuring.md
	Notes       map[string]string `json:"notes"`       // --note k=v
	Proxy       string            `json:"proxy,omitempty"`
	Warnings    []Warning         `json:"warnings"`
}

// Host is the machine that ran the load generator.
type Host struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	Kernel string `json:"kernel,omitempty"`
}

// Engine is what the server said of itself, each fact with its source.
type Engine struct {
	Kind        string            `json:"kind"`
	Version     string            `json:"version"`
	Model       string            `json:"model"`
	MaxModelLen int               `json:"max_model_len"` // 0 unknown
	KVTokens    int               `json:"kv_tokens"`     // 0 unknown
	MaxRunning  int               `json:"max_running"`   // 0 unknown
	Sources     map[string]string `json:"sources"`       // fact -> where it came from
	Sent        []string          `json:"sent"`          // request switches in use
	Dropped     []string          `json:"dropped"`       // switches the server refused
}

// Config is the run's settings, as used.
type Config struct {
	URL         string   `json:"url"` // without userinfo and query
	Endpoint    string   `json:"endpoint"`
	Contexts    []int    `json:"contexts"`
	Concurrency []int    `json:"concurrency"`
	DurationS   float64  `json:"duration_s"`
	SettleS     float64  `json:"settle_s"`
	MaxTokens   int      `json:"max_tokens"`
	ForceLength bool     `json:"force_length"`
	OnLoop      string   `json:"on_loop"` // salvage, discard
	Prefix      string   `json:"prefix"`  // shared, distinct
	KVRule      string   `json:"kv_rule"` // distinct, shared, off
	MaxFailed   float64  `json:"max_failed"`
	Repeat      int      `json:"repeat"`
	Seed        uint64   `json:"seed"`
	Ask         string   `json:"ask"`
	BodySHA256  string   `json:"body_sha256"` // of the first request body of the plan
	Extra       []string `json:"extra,omitempty"`

	NoPrefill       bool           `json:"no_prefill,omitempty"`       // no prefill rows were asked for
	Salt            string         `json:"salt,omitempty"`             // of the prompts, beside the seed
	Temperature     *float64       `json:"temperature,omitempty"`      // nil: not sent, as those below
	TopP            *float64       `json:"top_p,omitempty"`            //
	Thinking        *bool          `json:"thinking,omitempty"`         //
	ReasoningEffort string         `json:"reasoning_effort,omitempty"` //
	RequestSHA256   string         `json:"request_sha256,omitempty"`   // of a request body with an empty prompt: two runs with the same one asked for the same
	Detect          map[string]int `json:"detect,omitempty"`           // limits of the repetition detector

	Paced *PacedConfig `json:"paced,omitempty"` // load at rates in place of concurrency
	SLO   *SLOConfig   `json:"slo,omitempty"`   // what was searched for
}

// Note is a remark in a run file, in the order of events.
type Note struct {
	Type    string `json:"type"` // "note"
	V       int    `json:"v"`
	AtNS    int64  `json:"at_ns"` // since the header line
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Footer is the last line of a complete run file.
type Footer struct {
	Type    string    `json:"type"` // "end"
	V       int       `json:"v"`
	End     time.Time `json:"end"`
	Cells   int       `json:"cells"`
	Records int       `json:"records"`
	Outcome string    `json:"outcome"` // done, interrupted, failed
	Message string    `json:"message"`
}
