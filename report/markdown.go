package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

func writeMarkdown(w io.Writer, p page) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s\n\n", escapeMarkdown(p.title))
	for _, f := range p.facts {
		fmt.Fprintf(b, "- **%s**: %s\n", escapeMarkdown(f[0]), escapeMarkdown(f[1]))
	}
	for _, t := range p.tables {
		fmt.Fprintf(b, "\n## %s\n\n", escapeMarkdown(t.title))
		markdownRow(b, t.head)
		rule := make([]string, len(t.head))
		for i := range rule {
			rule[i] = "---:"
		}
		rule[0] = ":---"
		fmt.Fprintf(b, "| %s |\n", strings.Join(rule, " | "))
		for _, row := range t.rows {
			markdownRow(b, row)
		}
	}
	if p.legend != "" {
		fmt.Fprintf(b, "\n%s\n", escapeMarkdown(p.legend))
	}
	if len(p.notes) > 0 {
		fmt.Fprint(b, "\n## Notes\n\n")
	}
	for i, n := range p.notes {
		fmt.Fprintf(b, "- \\[%d\\] %s\n", i+1, escapeMarkdown(n))
	}
	if p.remark != "" {
		fmt.Fprintf(b, "\n%s\n", escapeMarkdown(p.remark))
	}
	fmt.Fprintln(b)
	return b.Flush()
}

func markdownRow(b *bufio.Writer, row []string) {
	b.WriteByte('|')
	for _, s := range row {
		b.WriteString(" " + escapeMarkdown(s) + " |")
	}
	b.WriteByte('\n')
}

// escapeMarkdown keeps what a server or a user wrote from becoming markup.
var markdownEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`", "[", `\[`, "]", `\]`, "\n", " ")

func escapeMarkdown(s string) string { return markdownEscapes.Replace(s) }
