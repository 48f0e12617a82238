package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/streamgauge/streamgauge/matrix"
)

// Formats lists the formats of Write.
func Formats() []string { return []string{"text", "markdown", "csv", "json", "html"} }

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
	sources := make([]*Source, len(runs))
	for i, run := range runs {
		sources[i] = FromRun(run)
	}
	return WriteSources(w, format, sources...)
}

// WriteSources is Write for what ReadFile returns.
func WriteSources(w io.Writer, format string, runs ...*Source) error {
	switch format {
	case "text", "markdown":
		draw := map[string]func(io.Writer, page) error{"text": writeText, "markdown": writeMarkdown}[format]
		for _, run := range runs {
			if err := draw(w, arrange(&run.Run)); err != nil {
				return err
			}
		}
		return nil
	case "csv":
		return writeCSV(w, runs)
	case "json":
		return writeJSON(w, runs)
	case "html":
		return writeHTML(w, runs)
	}
	return fmt.Errorf("no report format %q: there are %s", format, strings.Join(Formats(), ", "))
}
