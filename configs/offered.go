package configs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stage is a stretch of paced load.
type Stage struct {
	For  time.Duration
	Rate float64 // requests a second
}

// SLO is what the 95th percentiles may be at most; 0: any.
type SLO struct{ TTFT, TBT time.Duration }

// ParseRates reads a list of rates: 10/s, 30/m, 5/s,10/s, and 1..64/s doubles.
func ParseRates(s string) ([]float64, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var out []float64
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		from, to, isRange := strings.Cut(item, "..")
		if !isRange {
			r, err := parseRate(item)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
			continue
		}
		last, err := parseRate(to)
		if err != nil {
			return nil, err
		}
		_, unit, _ := strings.Cut(to, "/")
		first, err := parseRate(strings.TrimSpace(from) + "/" + unit)
		if err != nil {
			return nil, err
		}
		if last < first {
			return nil, fmt.Errorf("the range %s runs backwards", item)
		}
		for r := first; r < last; r *= 2 {
			out = append(out, r)
			if len(out) > maxLevels {
				return nil, fmt.Errorf("the list has more than %d entries", maxLevels)
			}
		}
		out = append(out, last)
	}
	var seen []float64
	for _, r := range out {
		if !slices.Contains(seen, r) {
			seen = append(seen, r)
		}
	}
	return seen, nil
}

// parseRate reads requests per second (/s) or minute (/m).
func parseRate(s string) (float64, error) {
	n, unit, ok := strings.Cut(strings.TrimSpace(s), "/")
	per := map[string]float64{"s": 1, "m": 60}[strings.TrimSpace(unit)]
	f, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
	if !ok || per == 0 || err != nil {
		return 0, fmt.Errorf("%q is not a rate such as 10/s or 30/m", s)
	}
	if !(f > 0) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("the rate %s must be more than 0", s)
	}
	return f / per, nil
}

// ParseStages reads stretches of paced load: 1m@10/s,2m@20/s.
func ParseStages(s string) ([]Stage, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var out []Stage
	for item := range strings.SplitSeq(s, ",") {
		long, rate, ok := strings.Cut(strings.TrimSpace(item), "@")
		if !ok {
			return nil, fmt.Errorf("%q is not a stage such as 1m@10/s", item)
		}
		d, err := parseDuration(strings.TrimSpace(long))
		if err != nil {
			return nil, err
		}
		if d < time.Second {
			return nil, fmt.Errorf("stage %s: shorter than 1s", item)
		}
		r, err := parseRate(rate)
		if err != nil {
			return nil, err
		}
		out = append(out, Stage{d, r})
	}
	return out, nil
}

// ParseSLO reads targets: ttft=500ms,tbt=50ms, or one of them.
func ParseSLO(s string) (SLO, error) {
	var out SLO
	if strings.TrimSpace(s) == "" {
		return out, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		to, ok := map[string]*time.Duration{"ttft": &out.TTFT, "tbt": &out.TBT}[strings.TrimSpace(name)]
		if !ok {
			return SLO{}, fmt.Errorf("%q is neither ttft=… nor tbt=…", item)
		}
		if *to != 0 {
			return SLO{}, fmt.Errorf("%s is given twice", name)
		}
		d, err := parseDuration(strings.TrimSpace(value))
		if err != nil {
			return SLO{}, fmt.Errorf("%s: %w", name, err)
		}
		if d <= 0 {
			return SLO{}, errors.New(name + " must be more than 0")
		}
		*to = d
	}
	return out, nil
}
