package program

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// Log makes the log of --log-level and --log-format. Colour only if w leads to a
// terminal, and without NO_COLOR. Several goroutines write to w.
func Log(w io.Writer, terminal bool, level, format string) (zerolog.Logger, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), fmt.Errorf("--log-level: %w", err)
	}
	out := w
	if format != "json" {
		out = zerolog.ConsoleWriter{Out: w, TimeFormat: time.RFC3339, NoColor: !terminal || os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(out).Level(l).With().Timestamp().Logger(), nil
}

// Terminal reports whether w is one.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}
