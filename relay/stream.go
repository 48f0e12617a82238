package relay

import (
	"errors"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// Sink is told what becomes of a stream. Its methods must not block; but for Ended
// they are called by the loop.
type Sink interface {
	// Left tells how long bytes took through here, from their arrival until the
	// client's socket had taken all of them.
	Left(arrived, left stamp.Instant)
	// Observe gets the body's bytes without their framing, after they were sent,
	// or could not be. They are valid during the call.
	Observe(p []byte, at stamp.Instant, src stamp.Source)
	// Trailer returns what the client gets of the body's trailer fields, in
	// lines with their CRLF.
	Trailer(fields []upstream.Field) []byte
	// Ended is called once, beside the loop but one stream after the other, when
	// both sockets have left it. They are the sink's from then on.
	Ended(End)
}

// Limits are a loop's time limits; 0 is none. They end a stream up to an eighth
// late.
type Limits struct {
	Idle  time.Duration // silence of an engine within a body
	Write time.Duration // one send to a client
	Await time.Duration // silence of a client between two requests
}

// End is how a stream ended: whole, or else why not.
type End struct {
	At    stamp.Instant
	Whole bool // to the body's last byte, and the client has it
	Gone  bool // the client left, or did not take its bytes
	// Err is what ended the engine's body: io.ErrUnexpectedEOF when it was
	// closed before its end, syscall.ECONNRESET, os.ErrDeadlineExceeded after
	// the idle limit, the framing's error, or Cancel's.
	Err error
}

// errSlow ends a client that does not take its bytes in time.
var errSlow = errors.New("the client does not read")

// Stream is one body on its way. Its exported fields are set before Carry.
type Stream struct {
	Up   *upstream.Detached // the engine's side
	Down *stamp.Raw         // the client's
	Sink Sink
	// StayHalfClosed makes a client that closes only its sending side count as
	// present.
	StayHalfClosed bool

	slot uint32
	gen  uint32

	// next is set of a client that is waited for; there is no stream then.
	next func(*stamp.Raw)

	over    bool
	quiet   stamp.Instant // since when the engine is silent
	pending []byte        // not yet taken by the client; the engine is not read then
	since   stamp.Instant // when that began
	arrived stamp.Instant // of the newest byte in pending
	whole   bool          // pending ends the body
	cut     error         // or it is the last before this error
}
