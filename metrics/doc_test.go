package metrics

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/metrics.md")

const (
	docPath   = "../docs/metrics.md"
	tableHead = "<!-- table: written by `go test ./metrics -update` -->\n"
	tableEnd  = "<!-- end of table -->\n"
)

// TestDocs holds docs/metrics.md to the table.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableHead)
	got, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between its marks", docPath)
	}
	want := docTable()
	if *update {
		if err := os.WriteFile(docPath, []byte(before+tableHead+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("docs/metrics.md is not the table (-got +want):\n%s", diff)
	}
}

func docTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		labels := "–"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, labels, f.help)
	}
	b.WriteString("\nBuckets (upper bounds, seconds; of `streamgauge_request_tokens_per_second`, tokens per second):\n\n")
	for _, f := range families {
		if f.buckets != nil {
			fmt.Fprintf(&b, "- `%s`: %s\n", f.name, strings.Trim(fmt.Sprint(f.buckets), "[]"))
		}
	}
	b.WriteString("\n")
	return b.String()
}
