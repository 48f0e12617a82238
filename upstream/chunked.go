package upstream

import (
	"errors"
	"fmt"
)

// chunked takes the framing of a chunked body out, in place (RFC 9112, section
// 7.1). It can be cut anywhere.
type chunked struct {
	state   chunkState
	size    int64 // of the chunk, while its digits come in
	left    int64 // of its data
	digits  int   // of the size
	skipped int   // bytes of the chunk's extension
	trailer []byte
}

type chunkState uint8

const (
	chunkStart  chunkState = iota // at the first digit of a size
	chunkSize                     // in the digits
	chunkBlank                    // in white space after them
	chunkExt                      // after them, in what the size line may carry
	chunkSizeLF                   // at the LF of the size line
	chunkData                     // in the data
	chunkCR                       // at the CR after it
	chunkLF                       // at the LF after that
	chunkTrail                    // at the start of a trailer line
	chunkTrailX                   // in a trailer line
	chunkTrailN                   // at the LF of the blank line
	chunkEnd
)

const (
	// maxChunk keeps the size inside an int64 with room for a digit more.
	maxChunk = 1 << 58
	// maxDigits leaves room for leading zeros; nobody sends many.
	maxDigits = 16
	// maxExt is the limit of a chunk extension; nobody uses them.
	maxExt = 4 << 10
)

var (
	errChunkCRLF    = errors.New("chunk without CRLF")
	errChunkExt     = errors.New("chunk extension that is none, or over 4 KiB")
	errChunkTrailer = errors.New("trailer section over 64 KiB")
)

// decode moves the data in p to its front and returns how much it is, and how
// much of p was used: all of it, but for bytes behind the body's end.
func (d *chunked) decode(p []byte) (n, used int, err error) {
	for used < len(p) && d.state != chunkEnd {
		if d.state == chunkData {
			k := int(min(d.left, int64(len(p)-used)))
			if n != used {
				copy(p[n:], p[used:used+k])
			}
			n += k
			used += k
			if d.left -= int64(k); d.left == 0 {
				d.state = chunkCR
			}
			continue
		}
		if err := d.step(p[used]); err != nil {
			return n, used, err
		}
		used++
	}
	return n, used, nil
}

// step takes one byte of framing.
func (d *chunked) step(b byte) error {
	switch d.state {
	case chunkStart, chunkSize:
		v, ok := unhex(b)
		switch {
		case ok && d.size < maxChunk && d.digits < maxDigits:
			d.size, d.digits = d.size<<4|v, d.digits+1
			d.state = chunkSize
		case ok:
			return fmt.Errorf("chunk size over %d bytes, or of over %d digits", int64(maxChunk), maxDigits)
		case d.state == chunkStart:
			return fmt.Errorf("chunk size begins with %q", b)
		case b == '\r':
			d.state = chunkSizeLF
		case b == ';':
			d.state, d.skipped = chunkExt, 0
		case b == ' ' || b == '\t':
			d.state, d.skipped = chunkBlank, 0
		default:
			return fmt.Errorf("chunk size has %q", b)
		}
	case chunkBlank:
		switch {
		case b == '\r':
			d.state = chunkSizeLF
		case b == ';':
			d.state = chunkExt
		case b != ' ' && b != '\t':
			return errChunkExt
		}
		if d.skipped++; d.skipped > maxExt {
			return errChunkExt
		}
	case chunkExt:
		if d.skipped++; d.skipped > maxExt {
			return errChunkExt
		}
		switch {
		case b == '\r':
			d.state = chunkSizeLF
		case b == '\n':
			return errChunkCRLF // some take it for the line's end, some do not
		case b < ' ' && b != '\t' || b == 0x7f:
			return errChunkExt
		}
	case chunkSizeLF:
		if b != '\n' {
			return errChunkCRLF
		}
		d.left, d.size, d.digits = d.size, 0, 0
		d.state = chunkData
		if d.left == 0 {
			d.state = chunkTrail
		}
	case chunkCR:
		if b != '\r' {
			return errChunkCRLF
		}
		d.state = chunkLF
	case chunkLF:
		if b != '\n' {
			return errChunkCRLF
		}
		d.state = chunkStart
	case chunkTrail, chunkTrailX:
		if d.state == chunkTrail && b == '\r' {
			d.state = chunkTrailN
			return nil
		}
		if len(d.trailer) == maxHead {
			return errChunkTrailer
		}
		d.trailer = append(d.trailer, b)
		d.state = chunkTrailX
		if b == '\n' {
			d.state = chunkTrail
		}
	case chunkTrailN:
		if b != '\n' {
			return errChunkCRLF
		}
		d.state = chunkEnd
	}
	return nil
}

// fields returns the trailer fields, none before the body's end.
func (d *chunked) fields() ([]Field, error) {
	if d.state != chunkEnd || len(d.trailer) == 0 {
		return nil, nil
	}
	return appendFields(nil, append(d.trailer, "\r\n"...))
}

func unhex(b byte) (int64, bool) {
	switch {
	case '0' <= b && b <= '9':
		return int64(b - '0'), true
	case 'a' <= b && b <= 'f':
		return int64(b-'a') + 10, true
	case 'A' <= b && b <= 'F':
		return int64(b-'A') + 10, true
	}
	return 0, false
}
