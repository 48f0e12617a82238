package report

import "github.com/streamgauge/streamgauge/stream"

// redact removes what looks like a secret from text that a user wrote. A run
// file has none in its notes since it was written; one of an older version, or a
// published matrix, may.
func redact(s string) string { return stream.RedactNote(s) }
