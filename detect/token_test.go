package detect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawBlock draws a block in which all kinds of bytes stand beside one another.
func drawBlock(t *rapid.T) []byte {
	some := rapid.OneOf(rapid.SampledFrom([]byte("azAZ@[`{/09: \x00\x1f!\x7f\x80\xbf\xc2\xc3\xe3\xea\xf0")), rapid.Byte())
	return rapid.SliceOfN(some, 1, blockBytes).Draw(t, "block")
}

// The masks are the kinds of the bytes, one by one.
func TestMasksAreTheKinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := drawBlock(t)
		m := masksOf(block)
		for i, c := range block {
			bit := func(mask uint64) bool { return mask>>i&1 != 0 }
			ascii := c < 0x80
			for _, v := range []struct {
				name      string
				got, want bool
			}{
				{"letter", bit(m.letter), ascii && byteKinds[c] == wordToken},
				{"digit", bit(m.digit), byteKinds[c] == numberToken},
				{"white", bit(m.white), byteKinds[c] == noToken},
				{"lead", bit(m.lead), !ascii && byteKinds[c] != inside},
				{"inside", bit(m.inside), byteKinds[c] == inside},
			} {
				if v.got != v.want {
					t.Fatalf("byte %d, %#x: %s is %v, want %v", i, c, v.name, v.got, v.want)
				}
			}
		}
	})
}

// byByte reads a text byte by byte, by the words of the comments on byteKinds and
// maxTokenBytes alone: a token goes on with its kind up to its greatest length,
// and with continuation bytes a little further.
func byByte(n *novelty, h *history) {
	for i, c := range h.text {
		kind, size := byteKinds[c], i-n.openAt
		switch {
		case kind == inside && size < maxTokenBytes+4:
		case kind == n.open && kind == noToken:
		case kind == n.open && kind <= numberToken && size < maxTokenBytes:
		default:
			n.token(h, n.open, n.openAt, i)
			n.open, n.openAt = kind, i
		}
	}
}

// What is read of a text by its masks is what is read of it byte by byte.
func TestReadTakesEveryToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history{}
		for range rapid.IntRange(1, 6).Draw(t, "blocks") {
			block := drawBlock(t)
			for range rapid.IntRange(0, 40).Draw(t, "again") { // long words, long white space
				block = append(block, block[len(block)-1])
			}
			h.text = append(h.text, block...)
		}
		var got, want novelty
		for from := 0; from < len(h.text); from += blockBytes {
			got.read(&h, from, min(from+blockBytes, len(h.text)))
		}
		byByte(&want, &h)
		if diff := cmp.Diff(got, want, cmp.AllowUnexported(novelty{}, blockTally{}, copies{}, vocabulary{}, fewRecent{}, fewSighting{}, frame{}, frameToken{}, frameGrams{})); diff != "" {
			t.Errorf("text %q (-by masks +byte by byte):\n%s", h.text, diff)
		}
	})
}

// The first digits of a number are its value, eight at a time or one.
func TestValueOf(t *testing.T) {
	for text, want := range map[string]uint32{
		"7": 7, "1234567": 1234567, "12345678": 12345678, "123456789": 123456789, "1234567891": 123456789, "00000000": 0,
		"99999999":   99999999,
		"9999999999": 999999999,
		"1\x80\x8f":  1*100 + 15, // further bytes count as their low bits
	} {
		if got := valueOf([]byte(text)); got != want {
			t.Errorf("valueOf(%q) = %d, want %d", text, got, want)
		}
	}
}

// A few things remembered are as many would be, to the letter.
func TestFewRecent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var few fewRecent
		var many recent
		now := uint32(0)
		for range rapid.IntRange(1, 300).Draw(t, "sightings") {
			now += rapid.Uint32Range(1, 30).Draw(t, "later")
			hash := rapid.Uint32Range(0, 90).Draw(t, "hash")
			if rapid.Bool().Draw(t, "same row") {
				hash = hash * 0x9E3779B1 & 0xFF // few hashes, of few rows
			}
			if got, want := few.see(hash, now, wordReach), many.see(hash, now, wordReach); got != want {
				t.Fatalf("see(%d) at %d: %v, want %v", hash, now, got, want)
			}
		}
	})
}

// Offsets of copies begin anew now and then; no copy is found or lost by it.
func TestCopiesBeginAnew(t *testing.T) {
	var text []byte
	for prose := proseText(150_000); len(prose) > 700; prose = prose[700:] {
		text = append(text, prose[:700]...)
		text = append(text, prose[:700]...) // a copy, and then something new
	}
	h := history{text: text}
	var near, far copies
	found := 0
	for end := copyBytes; end < len(text); end++ {
		if end%500 == 0 {
			near.rebase(end)
		}
		from, to := near.extend(&h, end)
		wantFrom, wantTo := far.extend(&h, end)
		if to > from {
			found++
		}
		if from != wantFrom || to != wantTo {
			t.Fatalf("at %d: %d to %d are new, want %d to %d", end, from, to, wantFrom, wantTo)
		}
	}
	if far.origin == 0 || found < 150 {
		t.Errorf("%d copies, and the first new origin %d: the text is too short", found, far.origin)
	}
}
