package report

import (
	"strconv"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// contextLabel names a context as users do: 8K for 8192, the bare count where
// it is no multiple of 1024.
func contextLabel(tokens int) string {
	if tokens > 0 && tokens%1024 == 0 {
		return strconv.Itoa(tokens/1024) + "K"
	}
	return strconv.Itoa(tokens)
}

// significant prints v with about five significant digits and no exponent: more
// is not there to be had from a stopwatch on a socket.
func significant(v float64) string {
	switch { // by what is printed: 99.997 is 100.0
	case v >= 9999.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 99.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// number prints v, or a dash where it is undefined.
func number(v stream.Null[float64]) string {
	if !v.OK {
		return "-"
	}
	return significant(v.V)
}

func count(v stream.Null[int]) string {
	if !v.OK {
		return "-"
	}
	return strconv.Itoa(v.V)
}

// whole prints a token count, which salvage and final-usage spreading can make
// fractional.
func whole(v stream.Null[float64]) string {
	if !v.OK {
		return "-"
	}
	return strconv.FormatFloat(v.V, 'f', 0, 64)
}

// statusWord is the short form that stands in a matrix where a number would.
func statusWord(s matrix.Status) string {
	switch s {
	case matrix.OverCapacity:
		return "over cap"
	case matrix.Interrupted:
		return "interr."
	}
	return string(s)
}

// statusTitle is the long form for the list of all measurements.
func statusTitle(s matrix.Status) string {
	switch s {
	case matrix.Valid:
		return "Valid"
	case matrix.Looped:
		return "Looped"
	case matrix.OverCapacity:
		return "Over capacity"
	case matrix.Short:
		return "Short"
	case matrix.Limited:
		return "Limited"
	case matrix.Failed:
		return "Failed"
	case matrix.Interrupted:
		return "Interrupted"
	case matrix.Skipped:
		return "Skipped"
	}
	return string(s)
}
