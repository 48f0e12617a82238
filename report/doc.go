// Package report turns run files into what people read and send to each other.
// It reads only matrix.Run, so any report can be remade later, by anyone, from
// the file alone.
//
// The steps, in order: layout.go arranges a run as facts, tables and footnotes
// without a thought for looks; text.go and markdown.go draw that arrangement;
// csv.go and json.go write the cells as data. An absent cell prints its status,
// never 0, and doubt travels with the number as a footnote.
package report
