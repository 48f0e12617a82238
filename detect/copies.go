package detect

import (
	"encoding/binary"
	"math"
)

// copies tells which bytes stand in a copy, at least 24 bytes long, of
// something at most 1,024 bytes before.
type copies struct {
	ends   [1 << copyBits]uint16 // by hash of the 24 bytes before: the last offset, from origin on
	origin int                   // the offsets in ends are behind it, so that 0 is none
	lag    int                   // of the copy that is going on; 0: none
	seen   int                   // the text before it is known to be a copy, or not
}

const (
	copyBits  = 10
	copyBytes = 24
	copyReach = 1024
	// How far back a copy that shows at the end of a token may have begun.
	copyLinger = 2 * blockBytes
)

// endsCopies chooses the places where copies are looked for. A copy has the same
// ones as its original, and 24 bytes of it hold several. The sign behind a
// number is one, since a number that grows has nothing else in common.
func endsCopies(t token, before tokenKind) bool {
	switch t.kind {
	case wordToken, numberToken:
		return true
	case ideograph:
		return t.hash&1 == 0
	default:
		return before == numberToken
	}
}

// extend looks at the text up to end, such a place. It gives the stretch
// that has turned out to be no copy, if any.
func (c *copies) extend(h *history, end int) (novelFrom, novelTo int) {
	if c.lag > 0 {
		c.seen += matching(h.at(c.seen, end), h.at(c.seen-c.lag, end-c.lag))
		if c.seen < end {
			c.lag = 0
		}
	}
	if end < copyBytes {
		return 0, 0
	}
	if end-c.origin > math.MaxUint16 {
		c.rebase(end)
	}
	place := &c.ends[gramHash(h.at(end-copyBytes, end))]
	now := uint16(end - c.origin)
	lag := int(now - *place)
	known := *place != 0 && lag > 0 && lag <= copyReach
	*place = now
	if c.lag > 0 || !known {
		return 0, 0
	}
	if end-lag < copyBytes {
		return 0, 0
	}
	if text := h.at(end-lag-8, end); binary.LittleEndian.Uint64(text) != binary.LittleEndian.Uint64(text[lag:]) {
		return 0, 0 // only the hashes are equal
	}
	from := max(end-copyLinger, lag)
	n := matchingBack(h.at(from, end), h.at(from-lag, end-lag))
	if n < copyBytes {
		return 0, 0
	}
	novelFrom, novelTo = c.seen, max(c.seen, end-n)
	c.seen, c.lag = end, lag
	return novelFrom, novelTo
}

// rebase moves the origin on to where copies at end can reach, and forgets what
// lies before it.
func (c *copies) rebase(end int) {
	by := end - copyReach - 1 - c.origin
	c.origin += by
	for i, at := range c.ends {
		c.ends[i] = uint16(max(int(at)-by, 0))
	}
}

// settle gives the stretch before to that can no longer become a copy.
func (c *copies) settle(to int) (novelFrom, novelTo int) {
	novelFrom, novelTo = c.seen, to-copyLinger
	if novelTo <= novelFrom {
		return 0, 0
	}
	c.seen = novelTo
	return novelFrom, novelTo
}

func gramHash(gram []byte) uint32 {
	a := binary.LittleEndian.Uint64(gram)
	b := binary.LittleEndian.Uint64(gram[8:])
	c := binary.LittleEndian.Uint64(gram[16:])
	return uint32((a*0x9E3779B97F4A7C15 ^ b*0xC2B2AE3D27D4EB4F ^ c*0x165667B19E3779F9) >> (64 - copyBits))
}
