package detect

import (
	"errors"
	"fmt"
)

// Defaults of [Limits], and the bounds that [Limits.Validate] holds them to.
const (
	DefaultCycles      = 4
	DefaultChars       = 4096
	DefaultWhiteSpace  = 1024
	DefaultPeriodBytes = 64 << 10
	DefaultPeriodChars = 32768

	// Below these a rule may hold before the anchors can know the period, and
	// the verdict would depend on alignment; see scales.
	minCycles = 3
	minChars  = 512
	// A run of white space must outlast one block.
	minWhiteSpace = 128

	minPeriodBytes = 1 << 10
	// MaxPeriodBytes caps Limits.PeriodBytes: the memory of a channel grows
	// with four times the period.
	MaxPeriodBytes = 1 << 20

	maxThreshold = 1 << 30
)

// What is suspected, and what a candidate is. Not configurable: neither acts.
const (
	suspectCycles   = 3
	suspectChars    = 1024
	candidateCycles = 2
	candidateChars  = 256
)

// Limits are the thresholds of the rule. The zero value stands for the
// defaults, field by field.
type Limits struct {
	// Cycles is how many cycles confirm. If zero, 4: two or three copies of a
	// long block are ordinary (quoting, before and after, choruses).
	Cycles int
	// Chars is how many characters the cycles must span together. If zero,
	// 4096: legitimate runs of a short period end near 1000, rarely at 3000.
	Chars int
	// WhiteSpace is how many white-space characters in a row are a loop. If
	// zero, 1024; the longest such run in 15,028 real files is below 256.
	WhiteSpace int
	// PeriodBytes is the longest period looked for, in bytes. If zero, 64 KiB.
	// A channel needs up to four times this, hence the cap of 1 MiB.
	PeriodBytes int
	// PeriodChars is the longest period in characters. If zero, 32768.
	PeriodChars int
}

// Validate names every field that is out of range.
func (l Limits) Validate() error {
	var errs []error
	check := func(name string, value, least, most int) {
		if value != 0 && (value < least || value > most) {
			errs = append(errs, fmt.Errorf("detect: %s is %d, must be 0 (default) or %d to %d", name, value, least, most))
		}
	}
	check("Cycles", l.Cycles, minCycles, maxThreshold)
	check("Chars", l.Chars, minChars, maxThreshold)
	check("WhiteSpace", l.WhiteSpace, minWhiteSpace, maxThreshold)
	check("PeriodBytes", l.PeriodBytes, minPeriodBytes, MaxPeriodBytes)
	check("PeriodChars", l.PeriodChars, 1, MaxPeriodBytes)
	return errors.Join(errs...)
}

func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&l.Cycles, DefaultCycles)
	set(&l.Chars, DefaultChars)
	set(&l.WhiteSpace, DefaultWhiteSpace)
	set(&l.PeriodBytes, DefaultPeriodBytes)
	set(&l.PeriodChars, DefaultPeriodChars)
	return l
}
