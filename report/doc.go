// Package report turns run files into what people read and send to each other.
// It reads only matrix.Run, so any report can be remade later, by anyone, from
// the file alone.
//
// The steps, in order: published.go and source.go read a file, taking of its
// records only what a page shows; layout.go arranges a run as facts, tables and
// footnotes without a thought for looks; text.go and markdown.go draw that
// arrangement; data.go writes the cells as CSV and JSON; html.go makes the page,
// its numbers for charts in chartdata.go, gapbins.go and timeline.go, its reasons
// to believe them in trust.go. compared.go and comparedhtml.go draw what package
// compare found. An absent cell prints its status, never 0, and doubt travels
// with the number as a footnote.
package report
