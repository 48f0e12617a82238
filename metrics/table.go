package metrics

import "slices"

// Family is a row of the table of metrics, for those who check queries.
type Family struct {
	Name   string
	Type   string // counter, gauge or histogram
	Labels []string
}

// Families returns the table, in the order in which it is written.
func Families() []Family {
	out := make([]Family, 0, len(families))
	for i := range families {
		f := &families[i]
		out = append(out, Family{f.name, string(f.kind), slices.Clone(f.labels)})
	}
	return out
}
