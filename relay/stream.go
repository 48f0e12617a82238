package relay

import (
	"errors"
	"net/netip"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// Front decides about requests. Its methods are called by the loop, or by Carry, and
// must not block.
type Front interface {
	// Request is given what a client has sent, which came at once and is valid
	// during the call. It returns the exchange that the loop is to carry out, or
	// nil for one that is not for the loop: Serve gets the client then. room is
	// empty; the exchange may have it for its Room, and nothing else may.
	Request(client *stamp.Raw, p, room []byte) *Exchange
	// Serve gets a client whose next request, or what is left of this one, the
	// loop is not made for, with what was read of it. x is nil if Request has not
	// taken it.
	Serve(client *stamp.Raw, early []byte, x *Exchange)
	// Linger closes a client that has sent what nobody will read.
	Linger(client *stamp.Raw)
	// Left tells how long bytes took through here, from their arrival until the
	// client's socket had taken all of them. It is the front's since a stream's
	// sink would have to be fetched from memory for it.
	Left(arrived, left stamp.Instant)
	// Refused tells that a connection could not be accepted; the loop tries
	// again a moment later.
	Refused(error)
}

// Sink is told what becomes of a stream, by the loop. Its methods must not block.
type Sink interface {
	// Observe gets the body's bytes without their framing, after they were sent,
	// or could not be. They are valid during the call. It says when it wants what
	// follows.
	Observe(p []byte, at stamp.Instant, src stamp.Source) When
	// Trailer returns what the client gets of the body's trailer fields, in
	// lines with their CRLF.
	Trailer(fields []upstream.Field) []byte
	// Ended is called once, when both sockets are out of the stream's hands, and
	// when nothing else is ready. It is not called of an exchange that went to
	// Serve. The stream may become another one in it, if nobody cancels it any
	// more.
	Ended(End)
}

// When is how soon a Sink wants what was forwarded.
type When uint8

const (
	Soon  When = iota // when no socket has more, or a few reads later
	Later             // up to half a second later than that
	Never             // it is not copied either
)

// Answer is the Sink of an exchange.
type Answer interface {
	Sink
	// Head returns the head that the client gets, and whether the client's
	// connection ends with the response; ok is false for a response that is not
	// for the loop.
	Head(h *upstream.Head, chunked bool) (head []byte, last, ok bool)
}

// Limits are a loop's time limits; 0 is none. They end a stream up to an eighth
// late.
type Limits struct {
	Connect time.Duration // to an engine
	Header  time.Duration // from a request to the end of its response's head
	Idle    time.Duration // silence of an engine within a body
	Write   time.Duration // one send to a client
	First   time.Duration // silence of a client that has connected
	Await   time.Duration // silence of a client between two requests
}

// End is how a stream ended: whole, or else why not.
type End struct {
	At stamp.Instant
	// Sent and Retries are Pending's, of an exchange that ended before its
	// response's head; else 0.
	Sent    stamp.Instant
	Retries int
	Whole   bool // to the body's last byte, and the client has it
	Gone    bool // the client left, or did not take its bytes
	// Err is what ended the engine's body: io.ErrUnexpectedEOF when it was
	// closed before its end, syscall.ECONNRESET, os.ErrDeadlineExceeded after
	// the idle limit, the framing's error, or Cancel's.
	Err error
}

// errSlow ends a client that does not take its bytes in time.
var errSlow = errors.New("the client does not read")

// Stream is one body on its way. Its exported fields are set before Carry; of an
// Exchange the loop sets them.
type Stream struct {
	Up   *upstream.Detached // the engine's side
	Down *stamp.Raw         // the client's
	Sink Sink
	// StayHalfClosed makes a client that closes only its sending side count as
	// present.
	StayHalfClosed bool
	// Last makes the client's connection end with the stream, and Pipelined is
	// what it has sent behind its request.
	Last      bool
	Pipelined []byte

	x        *Exchange // nil for a stream of Carry
	up, down *socket
	live     bool  // the loop has it; guarded by its mu
	ending   error // of a Cancel that came before; guarded by its mu

	over    bool     // it has ended, or was given to Serve
	when    When     // what comes is to be observed
	unseen  [2]queue // reads of it that are not yet observed, by the backlog's sheet
	stage   stage
	quiet   stamp.Instant // since when the engine is silent
	pending []byte        // not yet taken by the client; the engine is not read then
	since   stamp.Instant // when that began
	arrived stamp.Instant // of the newest byte in pending
	whole   bool          // pending ends the body
	cut     error         // or it is the last before this error
}

// queue is a stream's reads in a sheet of the backlog.
type queue struct{ n, first, last int }

// stage is how far an exchange has come.
type stage uint8

const (
	inBody stage = iota
	connecting
	waiting // for the head
)

// Exchange is a request that came whole, and then its response. The first fields are
// set by Front.Request.
type Exchange struct {
	Stream // StayHalfClosed only

	To      *upstream.Client
	Addr    netip.AddrPort // of To
	User    bool           // ask for user stamps
	Method  string
	Request []byte // as it is sent; empty: the loop is not for it after all
	Early   []byte // as it came, a copy for Serve
	Room    []byte // where Request lies, and may Early; the loop's from the response's head on
	Answer  Answer

	// Pending is set when Serve gets an exchange whose request has been sent,
	// and Err why there will be no response; neither, and it is still to be
	// sent.
	Pending *upstream.Pending
	Err     error

	pending upstream.Pending
	engine  upstream.Detached
	retries int
}
