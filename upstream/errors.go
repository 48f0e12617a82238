package upstream

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/streamgauge/streamgauge/stamp"
)

// Op is what was being done when a request failed.
type Op string

const (
	OpConnect     Op = "connect"      // dialing and the TLS handshake
	OpRequestBody Op = "request_body" // reading Request.BodyStream
	OpWrite       Op = "write"        // writing the request
	OpHeaderWait  Op = "header_wait"  // before the first byte of the response
	OpHeader      Op = "header"       // in the response head
	OpBody        Op = "body"         // in the response body
)

// Error is the error of a request that was begun.
type Error struct {
	Op      Op
	Addr    string
	Retries int           // as of Response
	Sent    stamp.Instant // as of Response; 0: nothing was sent
	Err     error
}

// Error names the step, the address and the cause.
func (e *Error) Error() string { return string(e.Op) + " " + e.Addr + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a time limit was reached.
func (e *Error) Timeout() bool { return IsTimeout(e.Err) }

// IsTimeout reports whether err says that a time limit was reached: one of the
// Client's or the context's deadline.
func IsTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// ErrNoFreeConns says that MaxConns connections are in use.
var ErrNoFreeConns = errors.New("no free connection")

// ErrClosed is the error of using a Response or Ready after its Close.
var ErrClosed = errors.New("already closed")

// IsGone reports whether err is how a connection shows that its peer had
// closed it before.
func IsGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
