package stream

import (
	"encoding/json"
	"math"
)

// Null is a value that may be undefined; undefined is null in JSON, never 0.
type Null[T any] struct {
	V  T
	OK bool
}

// Some returns a defined value.
func Some[T any](v T) Null[T] { return Null[T]{V: v, OK: true} }

// MarshalJSON writes the value, or null; a float that is not finite is undefined
// too, as it is to Record.Append.
func (n Null[T]) MarshalJSON() ([]byte, error) {
	f, isFloat := any(n.V).(float64)
	if !n.OK || isFloat && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return []byte("null"), nil
	}
	return json.Marshal(n.V)
}

// UnmarshalJSON reads the value, or null.
func (n *Null[T]) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Null[T]{}
		return nil
	}
	n.OK = true
	return json.Unmarshal(b, &n.V)
}

// Word is a text that a stream may lack; the empty one is null in JSON.
type Word string

// MarshalJSON writes the text, or null.
func (w Word) MarshalJSON() ([]byte, error) {
	if w == "" {
		return []byte("null"), nil
	}
	return appendString(nil, string(w)), nil
}

// Code is the HTTP status of a response; 0, no response, is null in JSON.
type Code int

// MarshalJSON writes the status, or null.
func (s Code) MarshalJSON() ([]byte, error) {
	if s == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(int(s))
}

// Phase is what a stream was run for; of a stream that lives through several
// it is the one at its start.
type Phase string

const (
	Prime  Phase = "prime"
	Warmup Phase = "warmup"
	InWin  Phase = "window"
	Drain  Phase = "drain"
	Once   Phase = "once"
	Live   Phase = "live"
)

// End is how a stream ended.
type End string

const (
	Completed  End = "completed"
	Truncated  End = "truncated"
	Failed     End = "failed"
	Cancelled  End = "cancelled"
	ClientGone End = "client_gone"
	Looped     End = "loop"
)

// TokensFrom is where a token count came from, best first.
type TokensFrom string

const (
	FromTokenIDs        TokensFrom = "token_ids"
	FromUsageContinuous TokensFrom = "usage_continuous"
	FromLogprobs        TokensFrom = "logprobs"
	FromNative          TokensFrom = "native"
	FromUsageFinal      TokensFrom = "usage_final"
	FromEstimate        TokensFrom = "estimated"
)

// Record is what is kept of one stream: one line of run.ndjson. Keys and
// meanings are those of docs/measuring.md; every *_ns is an integer number of
// nanoseconds, relative to sent unless its comment says otherwise.
type Record struct {
	Type string `json:"type"` // "record"
	V    int    `json:"v"`    // 1

	ID          string `json:"id"` // X-Request-Id
	Context     int    `json:"context"`
	Concurrency int    `json:"concurrency"`
	Slot        int    `json:"slot"`
	Seq         int    `json:"seq"` // of the slot, 0 first
	Phase       Phase  `json:"phase"`
	Model       string `json:"model"`
	Dialect     string `json:"dialect"`
	Status      Code   `json:"status"` // HTTP, null: no response

	SentNS            Null[int64] `json:"sent_ns"`      // since the header line
	SentMonoNS        Null[int64] `json:"sent_mono_ns"` // CLOCK_MONOTONIC
	SentRealNS        Null[int64] `json:"sent_real_ns"` // CLOCK_REALTIME
	RequestReceivedNS Null[int64] `json:"request_received_ns"`
	HeadersNS         Null[int64] `json:"headers_ns"`
	TTFENS            Null[int64] `json:"ttfe_ns"`
	TTFTNS            Null[int64] `json:"ttft_ns"`
	TTFVNS            Null[int64] `json:"ttfv_ns"`
	LastTokenNS       Null[int64] `json:"last_token_ns"`
	EndNS             Null[int64] `json:"end_ns"`

	TBTNS       Null[float64] `json:"tbt_ns"`
	Tokens      int           `json:"tokens"`
	FirstTokens Null[int]     `json:"first_tokens"` // of the first generated event; null where only the total is known
	TokensFrom  TokensFrom    `json:"tokens_from"`

	PromptTokens    Null[int] `json:"prompt_tokens"`
	CachedTokens    Null[int] `json:"cached_tokens"`
	ReasoningTokens Null[int] `json:"reasoning_tokens"`

	Events          int     `json:"events"`
	GeneratedEvents int     `json:"generated_events"`
	CoalescedEvents int     `json:"coalesced_events"`
	Gaps            Gaps    `json:"gaps"`
	Window          *Window `json:"window"` // null outside a cell

	Finish Word `json:"finish"` // finish_reason of choice 0, "" when none came
	End    End  `json:"end"`
	Reason Word `json:"reason"` // machine-readable cause of failed, cancelled, loop
	Error  Word `json:"error"`  // a sentence; secrets removed

	Stamps    string   `json:"stamps"` // kernel or user
	Retries   int      `json:"retries"`
	Malformed int      `json:"malformed"`
	Flags     []string `json:"flags"`
	Loops     []Loop   `json:"loops"`

	// Upstream and Route are set by the proxy.
	Upstream string `json:"upstream,omitempty"`
	Route    string `json:"route,omitempty"`
	// IntendedNS is present in paced load: the instant chosen for the request,
	// since the header line, as SentNS.
	IntendedNS Null[int64] `json:"intended_ns,omitzero"`
	// EventLog is present when its writer puts it in: [offset_ns since sent, tokens, coalesced 0|1].
	EventLog [][3]int64 `json:"event_log,omitempty"`
}

// Gaps summarises the times between generated events of one choice that do not
// share an instant.
type Gaps struct {
	N     int64       `json:"n"`
	MinNS Null[int64] `json:"min_ns"`
	P50NS Null[int64] `json:"p50_ns"`
	P90NS Null[int64] `json:"p90_ns"`
	P99NS Null[int64] `json:"p99_ns"`
	MaxNS Null[int64] `json:"max_ns"`
}

// Window is the part of a stream inside its cell's window [open, open+duration).
// FirstNS and LastNS are the instants of its first and last event in it,
// relative to the opening. CleanTokens and CleanNS are what the cell may count
// when loops are salvaged (docs/measuring.md, "Loops"); the load generator fills
// them in. Trimmed says that the stream was cut at a loop's onset: then CleanNS
// runs from its first event in the window, whose tokens are not in CleanTokens,
// to its last before the onset.
type Window struct {
	Tokens      float64     `json:"tokens"`
	FirstTokens float64     `json:"first_tokens"`
	FirstNS     Null[int64] `json:"first_ns"`
	LastNS      Null[int64] `json:"last_ns"`
	Events      int         `json:"events"`
	CleanTokens float64     `json:"clean_tokens"`
	CleanNS     int64       `json:"clean_ns"`
	Trimmed     bool        `json:"trimmed"`
}

// Loop is one verdict about one channel. Onset, Period and ConfirmedAt are
// code points of that channel.
type Loop struct {
	Verdict     string      `json:"verdict"`
	Channel     string      `json:"channel"`
	Choice      int         `json:"choice"`
	Onset       Null[int64] `json:"onset"`
	Period      Null[int64] `json:"period"`
	Cycles      Null[int64] `json:"cycles"`
	ConfirmedAt Null[int64] `json:"confirmed_at"`
	OnsetToken  Null[int64] `json:"onset_token"`
	OnsetNS     Null[int64] `json:"onset_ns"` // since sent: last event before the onset
	SHA256      string      `json:"sha256"`
	Excerpt     string      `json:"excerpt,omitempty"`
}

// Acts reports whether a verdict retires a stream.
func (l Loop) Acts() bool {
	switch l.Verdict {
	case "confirmed", "whitespace", "engine":
		return true
	}
	return false
}
