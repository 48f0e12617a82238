package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// textWidth is the widest line of a text report, footnotes wrapped to it.
const textWidth = 100

func writeText(w io.Writer, p page) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s\n%s\n", p.title, strings.Repeat("=", utf8.RuneCountInString(p.title)))
	name := 0
	for _, f := range p.facts {
		name = min(max(name, utf8.RuneCountInString(f[0])), textWidth/4)
	}
	for _, f := range p.facts {
		hang(b, fmt.Sprintf("%-*s  ", name, f[0]), f[1])
	}
	for _, t := range p.tables {
		textTable(b, t)
	}
	if p.legend != "" {
		fmt.Fprintln(b)
		hang(b, "", p.legend)
	}
	if len(p.notes) > 0 {
		fmt.Fprint(b, "\nNotes\n")
	}
	for i, n := range p.notes {
		hang(b, fmt.Sprintf("[%d] ", i+1), n)
	}
	if p.remark != "" {
		fmt.Fprintln(b)
		hang(b, "", p.remark)
	}
	fmt.Fprintln(b)
	return b.Flush()
}

// textTable draws t; columns that do not fit textWidth go to a further block
// under the same labels.
func textTable(b *bufio.Writer, t table) {
	rows := append([][]string{t.head}, t.rows...)
	width := make([]int, len(t.head))
	for _, row := range rows {
		for i, s := range row {
			width[i] = max(width[i], utf8.RuneCountInString(s))
		}
	}
	fmt.Fprintf(b, "\n%s\n", t.title)
	for from := 1; from < len(width); {
		to, line := from, width[0]
		for to < len(width) && (to == from || line+2+width[to] <= textWidth) {
			line += 2 + width[to]
			to++
		}
		if from > 1 {
			b.WriteByte('\n')
		}
		for _, row := range rows {
			b.WriteString(row[0] + strings.Repeat(" ", width[0]-utf8.RuneCountInString(row[0])))
			for i := from; i < to; i++ {
				b.WriteString("  " + strings.Repeat(" ", width[i]-utf8.RuneCountInString(row[i])) + row[i])
			}
			b.WriteByte('\n')
		}
		from = to
	}
}

// hang writes text behind a label, wrapped to textWidth with the following
// lines indented below its start. A word longer than a line, as launch commands
// have, is broken where the line ends.
func hang(b *bufio.Writer, label, text string) {
	indent := utf8.RuneCountInString(label)
	if indent > textWidth/3 { // the name of a note can be any length
		hang(b, "", label)
		label, indent = "    ", 4
	}
	b.WriteString(label)
	col := indent
	next := func() {
		b.WriteString("\n" + strings.Repeat(" ", indent))
		col = indent
	}
	for i, field := range strings.Fields(text) {
		word := []rune(field)
		if i > 0 && col+1+len(word) > textWidth {
			next()
		} else if i > 0 {
			b.WriteByte(' ')
			col++
		}
		for col+len(word) > textWidth {
			room := textWidth - col
			b.WriteString(string(word[:room]))
			word = word[room:]
			next()
		}
		b.WriteString(string(word))
		col += len(word)
	}
	b.WriteByte('\n')
}
