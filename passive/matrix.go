package passive

import (
	"cmp"
	"slices"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// Version is the format's version of a Matrix in JSON.
const Version = 1

// minTokens is the number of tokens from which a cell is made of those streams
// alone whose tokens are known event by event.
const minTokens = 1000

// Matrix is what a Book holds at a moment: one object of /matrix.
type Matrix struct {
	Type    string    `json:"type"` // "passive_matrix"
	V       int       `json:"v"`
	Since   time.Time `json:"since"` // when the booking began
	Cells   []Cell    `json:"cells"` // by model, upstream, context, concurrency
	LeftOut LeftOut   `json:"left_out"`
	Ratios  []Ratio   `json:"ratios"` // by model
}

// Cell is one cell. Keys that matrix.Cell has mean what they mean there, but
// that they are of tokens booked one by one and not of a window: a rate is
// Σ tokens / Σ time over all streams, not a median of theirs.
type Cell struct {
	Model    string `json:"model"`
	Upstream string `json:"upstream"`

	Context          int    `json:"context"`       // greatest prompt of the bucket, tokens; 0: no end
	ContextAbove     int    `json:"context_above"` // the prompts are longer than this
	ContextLabel     string `json:"context_label"` // "4-8K"
	Concurrency      int    `json:"concurrency"`   // greatest number decoding of the bucket
	ConcurrencyLabel string `json:"concurrency_label"`

	TotalTokS   stream.Null[float64] `json:"total_tok_s"`   // request_tok_s · avg_decoding
	RequestTokS stream.Null[float64] `json:"request_tok_s"` // Σ tokens / Σ time
	TTFTMS      stream.Null[float64] `json:"ttft_ms"`       // median
	TBTMS       stream.Null[float64] `json:"tbt_ms"`        // Σ time / Σ tokens
	AvgDecoding stream.Null[float64] `json:"avg_decoding"`  // mean over the time of its streams

	OutputTokens int64   `json:"output_tokens"` // Σ tokens of the rate
	StreamS      float64 `json:"stream_s"`      // Σ time of the rate, stream-seconds
	Streams      int64   `json:"streams"`       // that passed through the cell, those of the rate

	TTFT matrix.Quantiles `json:"ttft"`
	Gaps matrix.Quantiles `json:"gaps"`

	// Estimated says that the rate holds tokens that are not known event by
	// event. Where it is false, EstimatedTokens were left out of the rate.
	Estimated       bool  `json:"estimated"`
	EstimatedTokens int64 `json:"estimated_tokens"`
	// ContextEstimatedTokens are those, of all, whose bucket comes from the
	// size of the request.
	ContextEstimatedTokens int64 `json:"context_estimated_tokens"`
}

// Ratio is what was learned of one model.
type Ratio struct {
	Model         string               `json:"model"`
	TokensPerByte stream.Null[float64] `json:"tokens_per_byte"` // null before it is learned
	Streams       int                  `json:"streams"`         // that told
}

// Matrix returns the numbers as they stand.
func (b *Book) Matrix() Matrix {
	m := Matrix{Type: "passive_matrix", V: Version, Since: b.since, Cells: []Cell{}, Ratios: []Ratio{}}
	b.mu.Lock()
	m.LeftOut = b.out
	groups := make(map[groupKey]*group, len(b.groups))
	for k, g := range b.groups {
		groups[k] = g
	}
	for model, r := range b.ratios {
		told := Ratio{Model: model, Streams: r.n}
		told.TokensPerByte.V, told.TokensPerByte.OK = r.median()
		m.Ratios = append(m.Ratios, told)
	}
	b.mu.Unlock()
	for k, g := range groups {
		m.Cells = append(m.Cells, g.numbers(k)...)
	}
	slices.SortFunc(m.Ratios, func(a, b Ratio) int { return cmp.Compare(a.Model, b.Model) })
	slices.SortFunc(m.Cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Upstream, b.Upstream),
			cmp.Compare(a.ContextAbove, b.ContextAbove), cmp.Compare(a.Concurrency, b.Concurrency))
	})
	return m
}

func (g *group) numbers(k groupKey) (cells []Cell) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for context := range g.cells {
		for decoding, c := range g.cells[context] {
			if c == nil {
				continue
			}
			n := c.numbers()
			n.Model, n.Upstream = k.model, k.upstream
			n.ContextAbove, n.Context = contextEdges(context)
			n.ContextLabel = contextLabel(context)
			n.Concurrency, n.ConcurrencyLabel = 1<<decoding, decodeLabel(decoding)
			cells = append(cells, n)
		}
	}
	return cells
}

func (c *cell) numbers() Cell {
	s := c.known
	estimated := s.tokens < minTokens && c.guessed.ns > 0
	if estimated {
		s.add(c.guessed)
	}
	n := Cell{
		OutputTokens: int64(s.tokens), StreamS: s.ns / 1e9, Streams: s.streams,
		TTFT: matrix.QuantilesOf(&c.ttft), Gaps: matrix.QuantilesOf(&c.gaps),
		Estimated: estimated, EstimatedTokens: int64(c.guessed.tokens), ContextEstimatedTokens: int64(c.byRatio),
	}
	n.TTFTMS = n.TTFT.P50
	if s.ns > 0 && s.tokens > 0 {
		rate, decoding := s.tokens/(s.ns/1e9), s.weighted/s.ns
		n.RequestTokS, n.AvgDecoding = stream.Some(rate), stream.Some(decoding)
		n.TotalTokS = stream.Some(rate * decoding)
		n.TBTMS = stream.Some(s.ns / s.tokens / 1e6)
	}
	return n
}
