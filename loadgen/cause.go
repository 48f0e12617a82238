package loadgen

import (
	"context"
	"errors"
	"io"
	"syscall"

	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
)

// Why we end a stream ourselves; the cause of its context.
var (
	errClosed  = errors.New("the window is over")
	errTTFT    = errors.New("no first token in time")
	errStalled = errors.New("no further token in time")
)

// Reasons of cancelled streams in records.
const (
	reasonWindow    = "window"
	reasonInterrupt = "interrupt"
)

// causeOf says what ended a stream whose reading stopped with err. What we did
// ourselves, the context's cause, comes before the error that it led to.
func causeOf(ctx context.Context, err error) stream.Cause {
	switch why := context.Cause(ctx); {
	case why == nil:
	case errors.Is(why, errTTFT):
		return stream.Cause{Kind: stream.TTFTTimeout, Err: why}
	case errors.Is(why, errStalled):
		return stream.Cause{Kind: stream.Stall, Err: why}
	case errors.Is(why, errClosed):
		return stream.Cause{Kind: stream.Cancel, Reason: reasonWindow}
	default:
		return stream.Cause{Kind: stream.Cancel, Reason: reasonInterrupt}
	}
	var up *upstream.Error
	switch {
	case errors.Is(err, io.EOF):
		return stream.Cause{Kind: stream.EOF}
	case errors.As(err, &up) && up.Op == "connect":
		return stream.Cause{Kind: stream.Connect, Err: err}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return stream.Cause{Kind: stream.Cut, Err: err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return stream.Cause{Kind: stream.Connect, Err: err}
	}
	return stream.Cause{Kind: stream.Reset, Err: err}
}
