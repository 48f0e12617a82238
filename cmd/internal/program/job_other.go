//go:build !unix

package program

import "io"

// Foreground is true where there are no jobs.
func Foreground(io.Writer) bool { return true }
