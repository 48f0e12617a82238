package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/compare"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

func TestUPlotIsPinned(t *testing.T) {
	for name, want := range map[string]string{ // of uplot 1.6.32's files
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"uPlot.LICENSE":     "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		p, err := os.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(p); hex.EncodeToString(got[:]) != want {
			t.Errorf("%s has the hash %x, want %s", name, got, want)
		}
	}
	if p := string(render(t, "html", warned())); !strings.Contains(p, uplotLicense) {
		t.Error("the page holds uPlot without its licence")
	}
}

// outward finds what makes a browser ask for something.
var outward = regexp.MustCompile(`(?i)(?:\b(?:src|srcset|poster)\s*=\s*["']?[^"'\s>]*[:/]|href\s*=\s*["']?(?:https?:|//)|url\(|@import|fetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)`)

func TestPagesAskNobody(t *testing.T) {
	c, err := compare.Compare([]*matrix.Run{warned()}, []*matrix.Run{warned()})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteComparison(&b, "html", &c); err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string]string{"run": string(render(t, "html", warned())), "comparison": b.String()} {
		if found := outward.FindString(page); found != "" {
			t.Errorf("the %s page holds %q", name, found)
		}
		if !strings.Contains(page, `content="default-src &#39;none&#39;;`) && !strings.Contains(page, `content="default-src 'none';`) {
			t.Errorf("the %s page has no policy that forbids requests", name)
		}
	}
}

// TestHostileTextStaysText puts markup where servers and users write: it must
// come out as text, in the page and inside its data.
func TestHostileTextStaysText(t *testing.T) {
	const evil = `</script><script>alert(1)</script><img src=x onerror=alert(2)>"'` + "\u2028"
	run := warned()
	run.Header.Engine.Model, run.Header.Engine.Version, run.Header.Config.URL = evil, evil, "http://"+evil
	run.Header.Notes = map[string]string{"launch": evil, evil: evil}
	run.Header.Definitions = map[string]string{evil: evil}
	run.Header.Engine.Sources = map[string]string{evil: evil}
	run.Header.Warnings = []matrix.Warning{{Code: evil, Message: evil}}
	for i := range run.Cells {
		run.Cells[i].Message, run.Cells[i].Stamps, run.Cells[i].TokensFrom = evil, evil, evil
	}
	run.End = &matrix.Footer{Outcome: evil, Message: evil}
	c, err := compare.Compare([]*matrix.Run{run}, []*matrix.Run{warned()})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteComparison(&b, "html", &c); err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string]string{"run": string(withoutAssets(render(t, "html", run))), "several": string(withoutAssets(render(t, "html", run, run))), "comparison": b.String()} {
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") {
			i := max(strings.Index(page, "<script>alert"), strings.Index(page, "<img"))
			t.Errorf("%s: markup came through: %s", name, page[max(0, i-80):i+40])
		}
	}
	var d chartData
	if err := json.Unmarshal([]byte(pageData(t, string(render(t, "html", run)))), &d); err != nil || len(d.Cells) != 4 {
		t.Errorf("the page's data does not read: %v, %d cells", err, len(d.Cells))
	}
}

// UnmarshalJSON lets tests read what the page's script does.
func (s *short) UnmarshalJSON(p []byte) error { return (*stream.Null[float64])(s).UnmarshalJSON(p) }

func pageData(t *testing.T, page string) string {
	t.Helper()
	const open, end = `<script type="application/json" class="data">`, `</script>`
	_, rest, ok := strings.Cut(page, open)
	data, _, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the page has no data")
	}
	return data
}

// numerals are the numbers that stand in a page's text, as values.
func numerals(page string) map[string]bool {
	text := regexp.MustCompile(`(?s)<script.*?</script>|<style>.*?</style>|<[^>]*>`).ReplaceAllString(page, " ")
	out := map[string]bool{}
	for _, n := range regexp.MustCompile(`\d+(?:\.\d+)?`).FindAllString(text, -1) {
		if strings.Contains(n, ".") {
			n = strings.TrimRight(strings.TrimRight(n, "0"), ".")
		}
		out[n] = true
	}
	return out
}

// TestPublishedMatricesKeepEveryNumber imports the three published matrices and
// looks for every number and fact of their files in every rendering: the rows in
// their table row by row for HTML and CSV, anywhere for text and Markdown.
func TestPublishedMatricesKeepEveryNumber(t *testing.T) {
	for _, name := range []string{"laguna-xs-vllm", "gemma-4-12b-vllm", "gemma-4-e2b-sglang"} {
		t.Run(name, func(t *testing.T) {
			p, err := os.ReadFile("testdata/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var file map[string]any
			if err := json.Unmarshal(p, &file); err != nil {
				t.Fatal(err)
			}
			run := published(t, name)
			page := string(render(t, "html", run))
			rows := htmlRows(page)
			seen := map[string]map[string]bool{}
			for _, format := range []string{"text", "markdown", "csv", "html"} {
				seen[format] = numerals(string(render(t, format, run)))
			}
			numbers := 0
			for i, r := range file["rows"].([]any) {
				for key, v := range r.(map[string]any) {
					f, is := v.(float64)
					if !is || key == "context" {
						continue
					}
					numbers++
					want := plainNumber(f)
					for format, has := range seen {
						if !has[want] {
							t.Errorf("row %d: %s %s is not in the %s form", i, key, want, format)
						}
					}
					if !slices.Contains(rows[i], want) {
						t.Errorf("row %d of the page lacks %s %s: %v", i, key, want, rows[i])
					}
				}
			}
			if numbers < 100 {
				t.Errorf("only %d numbers were looked for", numbers)
			}
			for key, v := range file {
				s, is := v.(string)
				if is && !strings.Contains(page, htmlEscaper.Replace(s)) {
					t.Errorf("the page lacks %s %q", key, s)
				}
			}
		})
	}
}

// htmlEscaper writes text as html/template does.
var htmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "+", "&#43;")

func plainNumber(f float64) string {
	return exact(stream.Some(f))
}

// htmlRows are the entries of the page's table of all measurements, as values.
func htmlRows(page string) [][]string {
	_, table, _ := strings.Cut(page, `<table class="list all">`)
	_, body, _ := strings.Cut(table, "<tbody>")
	body, _, _ = strings.Cut(body, "</tbody>")
	var rows [][]string
	for _, tr := range strings.Split(body, "</tr>") {
		var row []string
		for _, td := range regexp.MustCompile(`<td[^>]*>([^<]*)`).FindAllStringSubmatch(tr, -1) {
			v := td[1]
			if strings.Contains(v, ".") {
				v = strings.TrimRight(strings.TrimRight(v, "0"), ".")
			}
			row = append(row, v)
		}
		rows = append(rows, row)
	}
	return rows
}

func TestSeveralRunsStandSideBySide(t *testing.T) {
	page := string(render(t, "html", published(t, "laguna-xs-vllm"), published(t, "gemma-4-12b-vllm")))
	if !strings.Contains(page, "<td>220.6</td><td>looped</td>") {
		t.Error("8K × 1 does not show 220.6 beside looped")
	}
	if got := strings.Count(page, `<article class="run"`); got != 2 {
		t.Errorf("%d runs in full, want 2", got)
	}
	if ids := regexp.MustCompile(`\bid="([^"]*)"`).FindAllStringSubmatch(page, -1); len(ids) > 0 {
		seen := map[string]bool{}
		for _, id := range ids {
			if seen[id[1]] {
				t.Errorf("id %q stands twice", id[1])
			}
			seen[id[1]] = true
		}
	}
}

func TestPageOfNoCellSaysSo(t *testing.T) {
	page := string(render(t, "html", &matrix.Run{}))
	for _, want := range []string{"no decode cell was measured", "This run was cut off", "unknown model"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, `<table class="grid`) {
		t.Error("the page has a matrix without cells")
	}
}
