package detect

import (
	"crypto/sha256"
	"fmt"
)

// Kind is what was found. Kinds are ordered: a stream's level only rises.
type Kind uint8

const (
	None       Kind = iota
	Suspected       // an exact repetition of 3 cycles and 1024 characters
	Counter         // the same text around numbers that change: a counting loop or a table
	Near            // the text goes on but says next to nothing new
	WhiteSpace      // nothing but white space for too long, periodic or not
	Confirmed       // an exact repetition by the rule
	Engine          // the engine's own verdict; set by package stream, never here
)

var kindNames = [...]string{"none", "suspected", "counter", "near", "whitespace", "confirmed", "engine"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Acts reports whether the verdict is certain enough to retire a stream.
// The other kinds are warnings.
func (k Kind) Acts() bool { return k >= WhiteSpace }

// Extent is an offset in a text, or a length of text, in both units.
type Extent struct {
	Bytes int64
	Chars int64 // code points
}

func (e Extent) minus(o Extent) Extent { return Extent{e.Bytes - o.Bytes, e.Chars - o.Chars} }

// ExcerptBytes is the most text that a Verdict quotes.
const ExcerptBytes = 160

// Verdict says what repeats, and where.
type Verdict struct {
	Kind Kind
	// Onset is where the repetition begins.
	Onset Extent
	// Period is the length of one cycle, the smallest there is. Zero where
	// there is none: for Near, and for white space in no order. For Counter it
	// is the average, since the numbers' widths differ.
	Period Extent
	// ConfirmedAt is the first offset at which the kind's rule held.
	ConfirmedAt Extent
	// Length is how much repeats, from Onset, and Cycles how many whole
	// periods that is. Both grow while Running, and are exact after Finish.
	Length  Extent
	Cycles  int64
	Running bool
	// SHA256 is the digest of one cycle as it stands at Onset; zero without a
	// period, and for Counter.
	SHA256 [32]byte
	// Excerpt is the beginning of one cycle, at most ExcerptBytes long.
	Excerpt string
}

func (v *Verdict) describe(cycle []byte) {
	v.SHA256 = sha256.Sum256(cycle)
	v.Excerpt = excerpt(cycle)
}

func (v *Verdict) follow(length Extent, running bool) {
	v.Length = length
	v.Running = running
	if v.Period.Chars > 0 {
		v.Cycles = length.Chars / v.Period.Chars
	}
}

// excerpt copies the beginning of text, cut between characters.
func excerpt(text []byte) string {
	if len(text) > ExcerptBytes {
		cut := ExcerptBytes
		for cut > 0 && isContinuation(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	return string(text)
}
