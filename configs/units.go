package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are the endings of a size, longest first.
var sizeUnits = []struct {
	unit  string
	bytes int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9},
	{"b", 1},
}

// ParseSize reads a number of bytes: 4096, 64KiB, 64MiB, 1.5GiB, 10MB.
func ParseSize(s string) (int64, error) {
	digits, scale := strings.ToLower(strings.TrimSpace(s)), int64(1)
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(digits, u.unit); ok {
			digits, scale = strings.TrimSpace(d), u.bytes
			break
		}
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n >= 0 && n <= math.MaxInt64/scale {
		return n * scale, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(f >= 0) || f*float64(scale) >= 1<<62 || strings.ContainsAny(digits, "eExXpPnN_") {
		return 0, fmt.Errorf("%q is not a size such as 4096, 64KiB or 64MiB", s)
	}
	return int64(f * float64(scale)), nil
}

// ParseShare reads a percentage as a share: 1% is 0.01. The sign is required,
// since 1 might be meant either way.
func ParseShare(s string) (float64, error) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	p, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if !ok || err != nil || !(p >= 0 && p <= 100) {
		return 0, fmt.Errorf("%q is not a percentage between 0%% and 100%%", s)
	}
	return p / 100, nil
}

// parseDuration reads a duration; a bare number has no unit, and guessing one
// would turn a minute into a nanosecond.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(s))
	switch {
	case err != nil && isNumber(s):
		return 0, fmt.Errorf("%s has no unit: write %ss for seconds", s, s)
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 30s or 1h30m", s)
	case d < 0:
		return 0, fmt.Errorf("%s is negative", s)
	}
	return d, nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
