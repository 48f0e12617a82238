// Package deploy_test checks what is shipped for running the proxy.
package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/metrics"
)

// query is an expression and where it stands.
type query struct{ place, expr string }

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// dashboard returns the queries of the dashboard's panels.
func dashboard(t *testing.T) (out []query) {
	t.Helper()
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/streamgauge.json")), &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	places := map[[2]int]string{}
	for _, p := range d.Panels {
		at := [2]int{p.GridPos.X, p.GridPos.Y}
		if ids[p.ID] || places[at] != "" {
			t.Errorf("panel %q shares its number or its place with %q", p.Title, places[at])
		}
		ids[p.ID], places[at] = true, p.Title
		for _, target := range p.Targets {
			out = append(out, query{p.Title, target.Expr})
		}
	}
	if len(out) < 20 {
		t.Fatalf("found %d queries in the dashboard", len(out))
	}
	return out
}

var (
	alert = regexp.MustCompile(`- alert: (\w+)\n\s+expr: (?:\|\n((?:\s{10,}.*\n)+)|(.*)\n)`)
	name  = regexp.MustCompile(`streamgauge_\w+`)
	// selector is a metric with its matchers; labels are those of by, on and without.
	selector = regexp.MustCompile(`(streamgauge_\w+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`(?:by|on|without) \(([^)]*)\)`)
)

// rules returns the queries of the alerts.
func rules(t *testing.T) (out []query) {
	t.Helper()
	text := read(t, "prometheus/rules.yml")
	for _, m := range alert.FindAllStringSubmatch(text, -1) {
		out = append(out, query{m[1], strings.Join(strings.Fields(m[2]+m[3]), " ")})
	}
	if want := strings.Count(text, "- alert:"); len(out) != want || want < 10 {
		t.Fatalf("found %d queries of %d alerts", len(out), want)
	}
	return out
}

// TestQueriesNameWhatThereIs: metrics and labels of every query are in the table.
func TestQueriesNameWhatThereIs(t *testing.T) {
	table := map[string]metrics.Family{}
	for _, f := range metrics.Families() {
		if f.Type != "histogram" {
			table[f.Name] = f
			continue
		}
		for _, suffix := range []string{"_sum", "_count", "_bucket"} {
			labels := f.Labels
			if suffix == "_bucket" {
				labels = append(slices.Clone(labels), "le")
			}
			table[f.Name+suffix] = metrics.Family{Name: f.Name, Type: suffix, Labels: labels}
		}
	}
	asked := map[string]bool{}
	for _, q := range append(dashboard(t), rules(t)...) {
		var here []string // labels of the metrics in this query
		for _, m := range name.FindAllString(q.expr, -1) {
			f, ok := table[m]
			if !ok {
				t.Errorf("%s: there is no %s: %s", q.place, m, q.expr)
			}
			asked[f.Name] = true
			here = append(here, f.Labels...)
			rate := strings.Contains(q.expr, "rate("+m) || strings.Contains(q.expr, "increase("+m)
			if counts := f.Type != "gauge"; counts != rate {
				t.Errorf("%s: %s is a %s: %s", q.place, m, f.Type, q.expr)
			}
		}
		for _, s := range selector.FindAllStringSubmatch(q.expr, -1) {
			for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
				if !slices.Contains(table[s[1]].Labels, l[1]) {
					t.Errorf("%s: %s has no label %s", q.place, s[1], l[1])
				}
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(q.expr, -1) {
			for l := range strings.SplitSeq(g[1], ",") {
				if l = strings.TrimSpace(l); l != "instance" && !slices.Contains(here, l) {
					t.Errorf("%s: no metric of it has the label %s: %s", q.place, l, q.expr)
				}
			}
		}
	}
	for _, f := range metrics.Families() {
		if !asked[f.Name] && f.Name != "streamgauge_build_info" && f.Name != "streamgauge_ttfe_seconds" {
			t.Errorf("nothing shows %s", f.Name)
		}
	}
}

// tool finds a program of Debian's package prometheus, or skips.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED, NOT CHECKED: %s is not installed (apt-get install prometheus)", name)
	}
	return path
}

// TestRules has promtool check the alerts and run their tests.
func TestRules(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
