package stream

import (
	"math"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// Flags of an Event.
const (
	// Coalesced: the next generated event was completed by the same read or
	// carries the same stamp, so this one's instant is an upper bound.
	Coalesced uint8 = 1 << iota
	// SameEvent: not an event of its own but another channel of the one
	// before; its Tokens are 0.
	SameEvent
)

// Event is one entry of a stream's log: a generated event, or a further
// channel of it.
type Event struct {
	At      stamp.Instant
	Tokens  int32  // by the stream's token source; 0 until the source is known
	Chars   int32  // code points of text fed to the channel's detector
	Choice  uint16 // position in the order in which the choices first came
	Channel uint8  // wire.Channel
	Flags   uint8
}

// evidence is what an event says of token counts: of its own tokens, or of all
// tokens of its choice so far. wire.None where it says nothing.
type evidence struct {
	ids, logprobs int32
	usage, native int32 // cumulative
}

var noEvidence = evidence{wire.None, wire.None, wire.None, wire.None}

// Spread gives every generated event of log its part of total tokens, as even
// as whole numbers allow: the first k events hold ⌊total·k/n⌋ together.
func Spread(log []Event, total int) {
	n := 0
	for i := range log {
		if log[i].Flags&SameEvent == 0 {
			n++
		}
	}
	k := 0
	for i := range log {
		if log[i].Flags&SameEvent != 0 {
			log[i].Tokens = 0
			continue
		}
		log[i].Tokens = int32(min(total*(k+1)/n-total*k/n, math.MaxInt32))
		k++
	}
}
