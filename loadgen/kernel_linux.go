package loadgen

import (
	"os"
	"strings"
)

// kernelRelease is the running kernel, for the header: its receive stamps are
// part of the measurement.
func kernelRelease() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
