package stream

// CauseKind is why the reading of a stream stopped, as its reader saw it.
type CauseKind uint8

const (
	EOF         CauseKind = iota // the body ended as its framing says
	Cut                          // the body ended before its framing said so
	Reset                        // the connection was reset (RST)
	Connect                      // no connection came up
	TTFTTimeout                  // no first token in time
	Stall                        // silence after the first token, too long
	HTTPStatus                   // the status says failure
	Cancel                       // we ended it: window over, Ctrl-C
	Gone                         // proxy: the client went away
	Retired                      // we ended it because of an acting verdict
	Drained                      // the drain deadline passed
)

// Cause is handed to Meter.Finish.
type Cause struct {
	Kind CauseKind
	Err  error // enters Record.Error; may be nil
	// Reason says why a stream was cancelled ("window", "interrupt", …).
	Reason string
}

// Reasons of failed streams.
const (
	reasonConnect     = "connect"
	reasonTTFTTimeout = "ttft_timeout"
	reasonStall       = "stall"
	reasonReset       = "reset"
	reasonInBand      = "in_band"
	reasonHTTPStatus  = "http_status"
	reasonEmpty       = "empty"
	reasonDrain       = "drain"
)

// judge says how the stream ended and why. What the server said comes before
// what our side did: a stream whose end marker was seen is over, whether the
// reader then met EOF, a reset or an impatient client.
func (m *Meter) judge(c Cause) (End, Word) {
	switch {
	case m.status != 0 && (m.status < 200 || m.status > 299):
		return Failed, reasonHTTPStatus
	case m.failed || m.aborted && c.Kind != Cancel && c.Kind != Gone && c.Kind != Retired:
		return Failed, reasonInBand
	case c.Kind == Retired:
		return Looped, Word(m.actingVerdict())
	case m.engineLoop:
		return Looped, "engine"
	}
	if (m.done || m.allFinished()) && !m.aborted {
		if m.events == 0 {
			return Failed, reasonEmpty
		}
		return Completed, ""
	}
	switch c.Kind {
	case Reset:
		return Failed, reasonReset
	case Connect:
		return Failed, reasonConnect
	case TTFTTimeout:
		return Failed, reasonTTFTTimeout
	case Stall:
		return Failed, reasonStall
	case HTTPStatus:
		return Failed, reasonHTTPStatus
	case Drained:
		return Failed, reasonDrain
	case Cancel:
		return Cancelled, Word(c.Reason)
	case Gone:
		return ClientGone, ""
	}
	if m.events == 0 {
		return Failed, reasonEmpty
	}
	return Truncated, ""
}

// allFinished reports whether a finish_reason came for every choice seen.
func (m *Meter) allFinished() bool {
	for i := range m.choices {
		if !m.choices[i].finished {
			return false
		}
	}
	return len(m.choices) > 0
}
