package stamp

import "golang.org/x/sys/unix"

// monotonic reads CLOCK_MONOTONIC, the clock behind Go's monotonic readings.
func monotonic() (ns int64, ok bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, false
	}
	return ts.Nano(), true
}
