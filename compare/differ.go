package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streamgauge/streamgauge/matrix"
)

// definitions are what must be equal for two numbers to mean the same thing.
var definitions = []struct {
	name string
	of   func(*matrix.Header) string
}{
	{"model", func(h *matrix.Header) string { return h.Engine.Model }},
	{"engine", func(h *matrix.Header) string { return h.Engine.Kind }},
	{"engine version", func(h *matrix.Header) string { return h.Engine.Version }},
	{"gpu", func(h *matrix.Header) string { return h.Notes["gpu"] }},
	{"quantization", func(h *matrix.Header) string { return h.Notes["quantization"] }},
	{"endpoint", func(h *matrix.Header) string { return h.Config.Endpoint }},
	{"on-loop", func(h *matrix.Header) string { return h.Config.OnLoop }},
	{"kv-rule", func(h *matrix.Header) string { return h.Config.KVRule }},
	{"prefix", func(h *matrix.Header) string { return h.Config.Prefix }},
	{"force-length", func(h *matrix.Header) string { return strconv.FormatBool(h.Config.ForceLength) }},
	{"window", func(h *matrix.Header) string { return fmt.Sprintf("%g s", h.Config.DurationS) }},
	{"settle", func(h *matrix.Header) string { return fmt.Sprintf("%g s", h.Config.SettleS) }},
	{"max-tokens", func(h *matrix.Header) string { return strconv.Itoa(h.Config.MaxTokens) }},
	{"ask", func(h *matrix.Header) string { return h.Config.Ask }},
	{"request switches", func(h *matrix.Header) string { return strings.Join(h.Engine.Sent, " ") }},
	{"tool", func(h *matrix.Header) string { return h.Tool }},
	{"measured through a proxy", func(h *matrix.Header) string { return strconv.FormatBool(h.Proxy != "") }},
}

// differences names each definition that is not the same in all runs of both
// sides, each rule whose wording changed, and each cell property that differs.
func differences(base, fresh []*matrix.Run, b, n gathered) []matrix.Warning {
	ws := []matrix.Warning{}
	warn := func(name string, a, z []string, where string) {
		if len(a) == 1 && len(z) == 1 && a[0] == z[0] {
			return
		}
		ws = append(ws, matrix.Warning{Code: "definition_differs", Message: fmt.Sprintf(
			"%s: base %s, new %s%s", name, strings.Join(a, " and "), strings.Join(z, " and "), where)})
	}
	for _, d := range definitions {
		warn(d.name, values(base, d.of), values(fresh, d.of), "")
	}
	for _, name := range ruleNames(base, fresh) {
		of := func(h *matrix.Header) string { return h.Definitions[name] }
		warn("definition of "+name, values(base, of), values(fresh, of), "")
	}
	for _, p := range []struct {
		name string
		of   func(*matrix.Cell) string
	}{
		{"tokens_from", func(c *matrix.Cell) string { return string(c.TokensFrom) }},
		{"stamps", func(c *matrix.Cell) string { return c.Stamps }},
	} {
		a, z, cells := cellDifference(b, n, p.of)
		if cells > 0 {
			warn(p.name, a, z, fmt.Sprintf(" (%d cells)", cells))
		}
	}
	return ws
}

// values collects the distinct values of a definition; an empty one is unknown.
func values(runs []*matrix.Run, of func(*matrix.Header) string) []string {
	var out []string
	for _, r := range runs {
		out = include(out, of(&r.Header))
	}
	return out
}

func include(to []string, v string) []string {
	if v == "" {
		v = "unknown"
	}
	if slices.Contains(to, v) {
		return to
	}
	return append(to, v)
}

// ruleNames lists the definitions that runs of both sides spell out.
func ruleNames(base, fresh []*matrix.Run) []string {
	spelled := func(runs []*matrix.Run, name string) bool {
		return slices.ContainsFunc(runs, func(r *matrix.Run) bool { return r.Header.Definitions[name] != "" })
	}
	var names []string
	for _, r := range base {
		for name := range r.Header.Definitions {
			if !slices.Contains(names, name) && spelled(fresh, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// cellDifference compares a property of the valid cells, place by place.
func cellDifference(b, n gathered, of func(*matrix.Cell) string) (base, fresh []string, cells int) {
	collect := func(cs []*matrix.Cell) []string {
		var out []string
		for _, c := range cs {
			if c.Status == matrix.Valid {
				out = include(out, of(c))
			}
		}
		slices.Sort(out)
		return out
	}
	for at := range b.cells {
		a, z := collect(b.cells[at]), collect(n.cells[at])
		if len(a) == 0 || len(z) == 0 || (len(a) == 1 && slices.Equal(a, z)) {
			continue
		}
		cells++
		for _, v := range a {
			base = include(base, v)
		}
		for _, v := range z {
			fresh = include(fresh, v)
		}
	}
	slices.Sort(base)
	slices.Sort(fresh)
	return base, fresh, cells
}
