//go:build unix

package matrix

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock makes f this writer's own until it is closed. Where the file system has no
// locks there is none.
func lock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return errWritten
	}
	return nil
}
