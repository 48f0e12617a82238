package metrics

// kind is the TYPE of a family in the text format.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// family is one row of the table: a metric name with all its label sets.
type family struct {
	name    string
	kind    kind
	labels  []string
	buckets []float64 // upper bounds in the unit of the name; histograms only
	help    string
}

// Bucket bounds, in seconds unless the name says otherwise.
var (
	// ttftBuckets are vLLM's own, with 15, 30 and 60 s added, so that our
	// histogram and the engine's can be laid over each other.
	ttftBuckets = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 15, 20, 30, 40, 60, 80, 160}
	// gapBuckets resolve decode steps of 1 to 10 ms, which the buckets of the
	// engines and of OpenTelemetry (first bound 10 ms) do not.
	gapBuckets = []float64{0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02,
		0.025, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5, 10, 30}
	// delayBuckets double from 5 µs: the proxy's own share of a token's way.
	delayBuckets = []float64{5e-06, 1e-05, 2e-05, 4e-05, 8e-05, 0.00016, 0.00032, 0.00064, 0.00128,
		0.00256, 0.00512, 0.01024, 0.02048, 0.04096, 0.08192, 0.16384, 0.32768}
	// durationBuckets are those of OpenTelemetry's gen_ai.server.request.duration,
	// with five minutes and more added for long streams.
	durationBuckets = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24,
		20.48, 40.96, 81.92, 163.84, 327.68, 655.36, 1310.72}
	// rateBuckets are tokens per second of one request.
	rateBuckets = []float64{1, 2, 5, 10, 15, 20, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300,
		400, 500, 750, 1000}
)

// The families, in the order in which they are written.
const (
	requests = iota
	requestDuration
	streamsActive
	tokens
	promptTokens
	cachedTokens
	ttft
	ttftClient
	ttfe
	interToken
	eventGap
	requestRate
	noFirstToken
	loops
	addedDelay
	coalesced
	estimated
	stampsRefused
	blind
	upstreamConns
	upstreamUp
	upstreamRetries
	clientGone
	recordsDropped
	panics
	buildInfo
	familyCount
)

var families = [familyCount]family{
	requests: {"streamgauge_requests_total", counter, []string{"route", "upstream", "code", "end"}, nil,
		"Requests answered, by HTTP status and by how they ended."},
	requestDuration: {"streamgauge_request_duration_seconds", histogram, []string{"route", "upstream"}, durationBuckets,
		"Time from the last byte of the client's request to the end of the response."},
	streamsActive: {"streamgauge_streams_active", gauge, []string{"model", "upstream"}, nil,
		"Observed requests that are open now."},
	tokens: {"streamgauge_tokens_total", counter, []string{"model", "channel"}, nil,
		"Generated tokens, by channel: content, reasoning, refusal, tool."},
	promptTokens: {"streamgauge_prompt_tokens_total", counter, []string{"model"}, nil,
		"Prompt tokens as the engine's usage reports them."},
	cachedTokens: {"streamgauge_cached_tokens_total", counter, []string{"model"}, nil,
		"Prompt tokens that the engine took from its prefix cache."},
	ttft: {"streamgauge_ttft_seconds", histogram, []string{"model"}, ttftBuckets,
		"Time to first token: first generated event minus the instant the request was sent upstream."},
	ttftClient: {"streamgauge_ttft_client_seconds", histogram, []string{"model"}, ttftBuckets,
		"Time to first token as the client's request sees it: first generated event minus the last byte of the client's request."},
	ttfe: {"streamgauge_ttfe_seconds", histogram, []string{"model"}, ttftBuckets,
		"Time to first event of the body (role chunks count, comments do not), from the instant the request was sent upstream."},
	interToken: {"streamgauge_inter_token_seconds", histogram, []string{"model"}, gapBuckets,
		"Gap between generated events divided by the tokens of the event, one sample a token."},
	eventGap: {"streamgauge_event_gap_seconds", histogram, []string{"model"}, gapBuckets,
		"Gap between consecutive generated events of one choice that do not share an instant."},
	requestRate: {"streamgauge_request_tokens_per_second", histogram, []string{"model"}, rateBuckets,
		"Decode speed of one completed request: 1 / time between tokens."},
	noFirstToken: {"streamgauge_no_first_token_total", counter, []string{"model", "reason"}, nil,
		"Observed requests that ended before their first token."},
	loops: {"streamgauge_loops_total", counter, []string{"model", "verdict", "channel", "action"}, nil,
		"Repetition verdicts, and what was done about them."},
	addedDelay: {"streamgauge_added_delay_seconds", histogram, nil, delayBuckets,
		"Time from the arrival of bytes at the upstream socket until their write to the client returned."},
	coalesced: {"streamgauge_coalesced_events_total", counter, nil, nil,
		"Generated events whose instant is only an upper bound, since the next event arrived with them."},
	estimated: {"streamgauge_estimated_streams_total", counter, nil, nil,
		"Streams that offered no token count: one token an event was assumed."},
	stampsRefused: {"streamgauge_stamps_refused_total", counter, []string{"reason"}, nil,
		"Reads whose kernel stamp was not used, but the instant after the read, by reason."},
	blind: {"streamgauge_blind_streams_total", counter, []string{"reason"}, nil,
		"Responses that were forwarded but could not be read."},
	upstreamConns: {"streamgauge_upstream_connections", gauge, []string{"upstream", "state"}, nil,
		"Connections to the upstream, by state: in_use, idle."},
	upstreamUp: {"streamgauge_upstream_up", gauge, []string{"upstream"}, nil,
		"1 while the upstream is asked, 0 while it is set aside since it did not answer."},
	upstreamRetries: {"streamgauge_upstream_retries_total", counter, []string{"reason"}, nil,
		"Requests sent a second time, on a fresh connection, since the pooled one was closed by the upstream."},
	clientGone: {"streamgauge_client_gone_total", counter, []string{"phase"}, nil,
		"Requests whose client left, by phase: request, prefill, decode, other."},
	recordsDropped: {"streamgauge_records_dropped_total", counter, nil, nil,
		"Records that were not kept because the recorder was behind."},
	panics: {"streamgauge_panics_total", counter, nil, nil,
		"Panics that were caught: in metering (the stream went on unobserved) or in a handler."},
	buildInfo: {"streamgauge_build_info", gauge, []string{"version", "go"}, nil,
		"Always 1; the labels say which build runs."},
}
