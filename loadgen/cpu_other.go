//go:build !unix

package loadgen

import "time"

// processCPU is unknown here; the cell's cpu_share is null.
func processCPU() (time.Duration, bool) { return 0, false }
