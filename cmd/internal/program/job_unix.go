//go:build unix

package program

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Foreground reports whether this process is in the job that its terminal
// listens to. The system stops a background job that changes the terminal's mode
// (SIGTTOU).
func Foreground(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
