package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/streamgauge/streamgauge/matrix"
)

// Formats lists the formats of Write.
func Formats() []string { return []string{"text", "markdown", "csv", "json"} }

// Extension is the file name ending of a format, without the dot.
func Extension(format string) string {
	switch format {
	case "text":
		return "txt"
	case "markdown":
		return "md"
	}
	return format
}

// Write writes one report of the runs, in the order given. Format is one of
// Formats; any other is an error that lists them.
func Write(w io.Writer, format string, runs ...*matrix.Run) error {
	if !slices.Contains(Formats(), format) {
		return fmt.Errorf("no report format %q: there are %s", format, strings.Join(Formats(), ", "))
	}
	var err error
	switch format {
	case "csv":
		return writeCSV(w, runs)
	case "json":
		return writeJSON(w, runs)
	case "text":
		for _, run := range runs {
			if err = writeText(w, arrange(run)); err != nil {
				break
			}
		}
	case "markdown":
		for _, run := range runs {
			if err = writeMarkdown(w, arrange(run)); err != nil {
				break
			}
		}
	}
	return err
}
