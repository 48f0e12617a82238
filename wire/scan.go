package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep a payload may nest: engines go to 8, and the walk needs
// stack for each level.
const maxDepth = 300

// scan walks one JSON text from left to right, checks it, and builds nothing.
// Each value is taken by exactly one call of object, array, str, count or skip;
// those that find a value of another kind skip it. After a mistake all of them
// find nothing more, and bad stays set.
//
// It reads RFC 8259 and a little more, for servers that write it: NaN and
// Infinity (Python's json), control characters and unknown escapes in strings.
type scan struct {
	p     []byte
	i     int
	depth int
	fresh bool // behind a bracket that opens: no comma comes first
	bad   bool
	text  []byte // strings that had escapes, without them
}

// start makes s ready for the text p. Strings handed out before are lost.
func (s *scan) start(p []byte) {
	s.p, s.i, s.depth, s.fresh, s.bad = p, 0, 0, false, false
	s.text = s.text[:0]
}

// fail notes a mistake. Nothing stands behind it.
func (s *scan) fail() bool {
	s.bad = true
	s.i = len(s.p)
	return false
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *scan) peek() byte {
	for s.i < len(s.p) {
		if c := s.p[s.i]; c > ' ' || !isSpace(c) {
			return c
		}
		s.i++
	}
	return 0
}

// here is where the next value begins.
func (s *scan) here() int {
	s.peek()
	return s.i
}

// back goes to a value to read it again and returns where the walk was. The value
// must have been skipped once, so that it is known to be whole. A function that
// reads such a value and leaves the walk as it was says defer s.back(s.back(to)).
func (s *scan) back(to int) (resume int) {
	resume, s.i = s.i, to
	return resume
}

// object enters an object. Its members follow: key, value, key, value.
func (s *scan) object() bool { return s.enter('{') }

// array enters an array, whose values elem announces.
func (s *scan) array() bool { return s.enter('[') }

func (s *scan) enter(bracket byte) bool {
	if s.peek() != bracket {
		s.skip()
		return false
	}
	s.i++
	if s.depth++; s.depth > maxDepth {
		return s.fail()
	}
	s.fresh = true
	return true
}

// key returns the next key of the object entered last, false behind its end.
func (s *scan) key() ([]byte, bool) {
	if !s.fresh && s.i+1 < len(s.p) && s.p[s.i] == ',' && s.p[s.i+1] == '"' {
		s.i++ // what every server but pretty printers writes
	} else {
		if !s.more('}') {
			return nil, false
		}
		if s.peek() != '"' {
			return nil, s.fail()
		}
	}
	key, escaped := s.quoted()
	if !s.at(':') && s.peek() != ':' {
		return nil, s.fail()
	}
	s.i++
	if escaped {
		key = s.unescape(key)
	}
	return key, true
}

// elem reports whether another value of the array entered last follows.
func (s *scan) elem() bool { return s.more(']') }

func (s *scan) more(end byte) bool {
	fresh := s.fresh
	s.fresh = false
	switch c := s.peek(); {
	case s.bad:
		return false
	case c == end:
		s.i++
		s.depth--
		return false
	case fresh:
		return true
	case c == ',':
		s.i++
		return true
	}
	return s.fail()
}

// end reports whether nothing but white space is left of a text without a
// mistake.
func (s *scan) end() bool { return s.peek() == 0 && s.i == len(s.p) && !s.bad }

// skip takes a value of any kind.
func (s *scan) skip() {
	switch c := s.peek(); c {
	case '"':
		s.quoted()
	case '{':
		s.enter(c)
		for _, ok := s.key(); ok; _, ok = s.key() {
			s.skip()
		}
	case '[':
		s.enter(c)
		for s.elem() {
			s.skip()
		}
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	case 'N':
		s.word("NaN")
	case 'I':
		s.word("Infinity")
	default:
		s.number()
	}
}

func (s *scan) word(w string) {
	if len(s.p)-s.i < len(w) || string(s.p[s.i:s.i+len(w)]) != w {
		s.fail()
		return
	}
	s.i += len(w)
}

// number takes a number by the grammar of RFC 8259, section 6.
func (s *scan) number() {
	if s.at('-') {
		s.i++
		if s.at('I') {
			s.word("Infinity")
			return
		}
	}
	if s.at('0') {
		s.i++
	} else if !s.digits() {
		return
	}
	if s.at('.') {
		s.i++
		if !s.digits() {
			return
		}
	}
	if s.at('e') || s.at('E') {
		s.i++
		if s.at('+') || s.at('-') {
			s.i++
		}
		s.digits()
	}
}

func (s *scan) at(c byte) bool { return s.i < len(s.p) && s.p[s.i] == c }

// digits takes one or more.
func (s *scan) digits() bool {
	start := s.i
	for s.i < len(s.p) && s.p[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > start || s.fail()
}

// items takes an array and returns the number of its values, None if the value
// is none.
func (s *scan) items() int {
	if !s.array() {
		return None
	}
	n := 0
	for ; s.elem(); n++ {
		s.skip()
	}
	return n
}

// count takes a number of tokens and returns None for what is none.
func (s *scan) count() int {
	start := s.here()
	s.skip()
	digits := s.p[start:s.i]
	if len(digits) == 0 || digits[0]-'0' > 9 && digits[0] != '-' {
		return None
	}
	n := 0
	for _, c := range digits {
		if c-'0' > 9 || n > (1<<31-1)/10 {
			return fraction(digits)
		}
		n = n*10 + int(c-'0')
	}
	if n > 1<<31-1 {
		return None
	}
	return n
}

// fraction is count for numbers that are not digits alone: 7.0, 6e0.
func fraction(p []byte) int {
	if f, err := strconv.ParseFloat(string(p), 64); err == nil && f >= 0 && f <= 1<<31-1 {
		return int(f)
	}
	return None
}

// str takes a string, unescaped; it returns nil for any other value. Unknown
// escapes and lone surrogates are kept as they stand.
func (s *scan) str() []byte {
	if s.peek() != '"' {
		s.skip()
		return nil
	}
	raw, escaped := s.quoted()
	if escaped {
		return s.unescape(raw)
	}
	return raw
}

// raw takes any value and returns it as it stands.
func (s *scan) raw() []byte {
	start := s.here()
	s.skip()
	return s.p[start:s.i]
}

const (
	ones    = 0x0101010101010101
	highs   = 0x80 * ones
	quotes  = '"' * ones
	slashes = '\\' * ones
)

// plain returns the number of bytes of p before the first quote or backslash. It
// looks at eight at a time: x-1 borrows from the high bit of the byte x only
// where x is 0.
func plain(p []byte) int {
	i := 0
	for ; i+8 <= len(p); i += 8 {
		w := binary.LittleEndian.Uint64(p[i:])
		q, b := w^quotes, w^slashes
		if found := ((q-ones)&^q | (b-ones)&^b) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(p) && p[i] != '"' && p[i] != '\\' {
		i++
	}
	return i
}

// quoted takes the string that begins here and returns what stands between its
// quotes, and whether a backslash does.
func (s *scan) quoted() (raw []byte, escaped bool) {
	start := s.i + 1
	for i := start; i < len(s.p); i += 2 { // a backslash and what follows it
		if i += plain(s.p[i:]); i == len(s.p) {
			break
		}
		if s.p[i] == '"' {
			s.i = i + 1
			return s.p[start:i], escaped
		}
		escaped = true
	}
	s.fail()
	return nil, false
}

// unescape appends a string without its escapes to text.
func (s *scan) unescape(raw []byte) []byte {
	out := s.text
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			break
		}
		out = append(out, raw[:n]...)
		raw = raw[n:]
		if c := simpleEscape(raw[1]); c != 0 {
			out = append(out, c)
			raw = raw[2:]
			continue
		}
		r, size := utf16Escape(raw)
		if size == 0 {
			size = len(`\u`)
			out = append(out, raw[:size]...)
		} else {
			out = utf8.AppendRune(out, r)
		}
		raw = raw[size:]
	}
	out = append(out, raw...)
	text := out[len(s.text):]
	s.text = out
	return text
}

// simpleEscape returns the byte that a backslash and c stand for, 0 if none.
func simpleEscape(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// utf16Escape returns the character of a \uXXXX, or of a pair of them, at the
// start of p and the length of that; 0 for lone surrogates and what is none.
func utf16Escape(p []byte) (r rune, size int) {
	r, ok := hex4(p)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if low, ok := hex4(p[6:]); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return 0, 0
}

// hex4 reads the \uXXXX at the start of p.
func hex4(p []byte) (r rune, ok bool) {
	if len(p) < 6 || p[0] != '\\' || p[1] != 'u' {
		return 0, false
	}
	for _, c := range p[2:6] {
		letter := c | 0x20
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= letter && letter <= 'f':
			c = letter - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
