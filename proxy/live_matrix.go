package proxy

import (
	"bytes"
	"fmt"
	"html/template"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/passive"
	"github.com/streamgauge/streamgauge/stream"
)

// serveMatrix answers with the passive matrix: JSON, or a page for whoever
// prefers one. ?format=json or html decides whatever the Accept header says.
func (p *Proxy) serveMatrix(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("Vary", "Accept")
	format := string(ctx.QueryArgs().Peek("format"))
	if format == "" && bytes.Contains(ctx.Request.Header.Peek("Accept"), []byte("text/html")) {
		format = "html"
	}
	switch format {
	case "", "json":
		writeJSON(ctx, p.live.book.Matrix())
	case "html":
		g, err := makeMatrixPage(p.live.book.Matrix())
		if err != nil {
			p.log.Error().Err(err).Msg("the matrix page")
			say(ctx, fasthttp.StatusInternalServerError, "cannot draw the matrix\n")
			return
		}
		g.serve(ctx, fasthttp.StatusOK)
	default:
		say(ctx, fasthttp.StatusBadRequest, "format is json or html\n")
	}
}

var matrixTemplate = template.Must(template.New("matrix").Parse(matrixHTML))

// matrixView is what the page of the matrix shows.
type matrixView struct {
	CSS    template.CSS
	Since  string
	Groups []matrixGroup
	Left   []string
}

// matrixGroup is the cells of one model at one upstream.
type matrixGroup struct {
	Model, Upstream string
	Heads           []string // the numbers decoding
	Rows            []matrixRow
	List            []matrixLine
}

// matrixLine is a cell in the list of a group.
type matrixLine struct {
	Numbers []string // as listHeads names them
	Remark  string
}

type matrixRow struct {
	Context string
	Cells   []matrixCell
}

type matrixCell struct {
	Text  string // "" where no stream was
	Note  string // read out and shown on hover
	Heat  int    // 1 to 9, 0 without a number
	Doubt bool
}

// listHeads are the columns of a group's list.
var listHeads = []string{"context", "decoding", "total tok/s", "per request tok/s", "TTFT p50 ms", "p90 ms", "between tokens ms", "gap p99 ms", "tokens", "streams"}

// ListHeads names the numbers of a line.
func (matrixGroup) ListHeads() []string { return listHeads }

func makeMatrixPage(m passive.Matrix) (*page, error) {
	v := matrixView{CSS: template.CSS(liveCSS), Since: m.Since.UTC().Format(time.RFC3339), Left: leftOut(m.LeftOut)} // #nosec G203 -- ours, embedded
	for begin := 0; begin < len(m.Cells); {
		end := begin + 1
		for end < len(m.Cells) && m.Cells[end].Model == m.Cells[begin].Model && m.Cells[end].Upstream == m.Cells[begin].Upstream {
			end++
		}
		v.Groups = append(v.Groups, viewGroup(m.Cells[begin:end]))
		begin = end
	}
	var b bytes.Buffer
	if err := matrixTemplate.Execute(&b, v); err != nil {
		return nil, err
	}
	return &page{policy: policyOf(liveCSS, ""), body: b.Bytes()}, nil
}

// viewGroup lays out the cells of one group, which come by context, then by
// the number decoding.
func viewGroup(cells []passive.Cell) matrixGroup {
	g := matrixGroup{Model: cells[0].Model, Upstream: cells[0].Upstream}
	most, best := 1, 0.0
	labels := map[int]string{}
	for i := range cells {
		most = max(most, cells[i].Concurrency)
		best = max(best, cells[i].TotalTokS.V)
		labels[cells[i].Concurrency] = cells[i].ConcurrencyLabel
	}
	column := map[int]int{}
	for n := 1; n <= most; n *= 2 {
		if labels[n] != "" {
			column[n] = len(g.Heads)
			g.Heads = append(g.Heads, labels[n])
		}
	}
	for i := range cells {
		c := &cells[i]
		if i == 0 || cells[i-1].ContextAbove != c.ContextAbove {
			g.Rows = append(g.Rows, matrixRow{Context: c.ContextLabel, Cells: make([]matrixCell, len(g.Heads))})
		}
		g.Rows[len(g.Rows)-1].Cells[column[c.Concurrency]] = viewCell(c, best)
		g.List = append(g.List, matrixLine{Remark: remark(c), Numbers: []string{
			c.ContextLabel, c.ConcurrencyLabel, tokS(c.TotalTokS), tokS(c.RequestTokS),
			millis(c.TTFTMS), millis(of(c.TTFT.P90, c.TTFT.N, 10)), millis(c.TBTMS), millis(of(c.Gaps.P99, c.Gaps.N, 100)),
			strconv.FormatInt(c.OutputTokens, 10), strconv.FormatInt(c.Streams, 10)}})
	}
	return g
}

// of is a quantile of n samples, undefined where they are too few to have one.
func of(q stream.Null[float64], n, least int64) stream.Null[float64] {
	q.OK = q.OK && n >= least
	return q
}

// fewTokens is the number of tokens below which a cell says little.
const fewTokens = 1000

func viewCell(c *passive.Cell, best float64) matrixCell {
	if !c.TotalTokS.OK {
		return matrixCell{} // streams began here, and none went on
	}
	return matrixCell{Text: tokS(c.TotalTokS), Note: remark(c), Doubt: c.Estimated || c.OutputTokens < fewTokens,
		Heat: 1 + int(8*c.TotalTokS.V/best)}
}

// remark says in words what a reader must know of a cell; "" when nothing.
func remark(c *passive.Cell) string {
	text := ""
	add := func(s string) {
		if text != "" {
			text += "; "
		}
		text += s
	}
	if c.OutputTokens == 0 {
		return "no pace yet"
	}
	if c.Estimated {
		add("estimated")
	}
	if c.OutputTokens < fewTokens {
		add("few tokens")
	}
	if c.ContextEstimatedTokens > 0 {
		add(fmt.Sprintf("%d tokens placed by size", c.ContextEstimatedTokens))
	}
	return text
}

func leftOut(l passive.LeftOut) (lines []string) {
	for _, e := range []struct {
		n    int64
		what string
	}{
		{l.LoopTokens, "tokens from the onset of a loop on"},
		{l.NoContext, "streams of unknown context: no usage, and the model's tokens per byte not learned yet"},
		{l.Failed, "streams that failed or were cut"},
		{l.Hidden, "streams with reasoning out of sight"},
		{l.NotStreamed, "replies that were not streamed"},
	} {
		if e.n > 0 {
			lines = append(lines, fmt.Sprintf("%d %s", e.n, e.what))
		}
	}
	return lines
}

// tokS prints a rate, a dash where there is none.
func tokS(v stream.Null[float64]) string { return decimal(v, 1000, 0, 1) }

// millis prints milliseconds.
func millis(v stream.Null[float64]) string { return decimal(v, 100, 1, 2) }

// decimal prints v with so many digits behind the point from a bound on, and
// below it.
func decimal(v stream.Null[float64], bound float64, from, below int) string {
	if !v.OK {
		return "–"
	}
	if v.V >= bound {
		below = from
	}
	return strconv.FormatFloat(v.V, 'f', below, 64)
}
