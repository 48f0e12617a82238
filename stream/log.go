package stream

import (
	"math"
	"slices"

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

// ledger is what the log's entries say that is not for its readers, one column
// a fact: most streams tell one or two of the five, and a stream of an hour
// should not keep the others.
type ledger struct {
	chars         counts // code points fed to the detector of the entry's channel
	ids, logprobs counts
	usage, native column
}

// counts holds a small number for some entries of a log in a byte, and the few
// that are none beside them.
type counts struct {
	small []uint8
	large []largeCount // of the entries that say so, ascending
}

type largeCount struct {
	entry int
	n     int32
}

// What a byte of counts says that is no number.
const (
	noCount    = 255
	countLarge = 254
)

// at returns the number of entry i, wire.None when it has none.
func (c *counts) at(i int) int32 {
	if i >= len(c.small) || c.small[i] == noCount {
		return wire.None
	}
	if n := c.small[i]; n != countLarge {
		return int32(n)
	}
	k, _ := slices.BinarySearchFunc(c.large, i, func(l largeCount, i int) int { return l.entry - i })
	return c.large[k].n
}

// put sets the number of entry i, which is the last one so far or behind it.
func (c *counts) put(i int, n int32) {
	if n == wire.None {
		return
	}
	for len(c.small) <= i {
		c.small = extend(c.small, noCount)
	}
	if n < countLarge {
		c.small[i] = uint8(n)
		return
	}
	if c.small[i] != countLarge {
		c.small[i] = countLarge
		c.large = append(c.large, largeCount{entry: i})
	}
	c.large[len(c.large)-1].n = n
}

func (c *counts) emptied() counts { return counts{emptied(c.small), emptied(c.large)} }

// column holds a number for some entries of a log.
type column []int32

// at returns the number of entry i, wire.None when it has none.
func (c column) at(i int) int32 {
	if i < len(c) {
		return c[i]
	}
	return wire.None
}

// put sets the number of entry i, which is the last one so far or behind it.
func (c *column) put(i int, n int32) {
	if n == wire.None {
		return
	}
	for len(*c) < i {
		*c = extend(*c, wire.None)
	}
	if i < len(*c) {
		(*c)[i] = n
		return
	}
	*c = extend(*c, n)
}

// note books what the event of entry i says.
func (l *ledger) note(i int, said evidence) {
	l.ids.put(i, said.ids)
	l.logprobs.put(i, said.logprobs)
	l.usage.put(i, said.usage)
	l.native.put(i, said.native)
}

// emptied returns the ledger for another stream; one that has grown beyond
// keepLog entries is let go.
func (l *ledger) emptied() ledger {
	return ledger{l.chars.emptied(), l.ids.emptied(), l.logprobs.emptied(), emptied(l.usage), emptied(l.native)}
}

func emptied[S ~[]T, T any](s S) S {
	if cap(s) > keepLog {
		return nil
	}
	return s[:0]
}

// firstLog is the number of entries that a log has room for at first.
const firstLog = 32

// extend is append that grows by a quarter: a thousand streams of one age grow
// at the same time, and what append adds to the middle-sized is twice that.
func extend[S ~[]T, T any](s S, v T) S {
	if len(s) == cap(s) {
		s = append(make(S, 0, len(s)+max(len(s)/4, firstLog)), s...)
	}
	return append(s, v)
}

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
