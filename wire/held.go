package wire

import (
	"math/bits"
	"sync"
)

// Sizes of the buffers that streams share: 512 bytes, the half of which an event
// of vLLM fills, to 64 KB, twice each. What is larger is not kept.
const (
	minBuffer = 9
	maxBuffer = 16
)

var buffers [maxBuffer - minBuffer + 1]sync.Pool

// held is bytes that must outlive the read they came with. It borrows its
// memory, so that a stream holds at most twice what it must hold, and nothing
// when every event came whole.
type held struct {
	buf *buffer
}

type buffer struct {
	b    []byte
	size int // its pool, or beyond the last
}

func (h *held) bytes() []byte {
	if h.buf == nil {
		return nil
	}
	return h.buf.b
}

func (h *held) append(p []byte) {
	if len(p) == 0 {
		return
	}
	if have := h.bytes(); cap(have)-len(have) < len(p) {
		grown := newBuffer(len(have) + len(p))
		grown.b = append(grown.b, have...)
		h.release()
		h.buf = grown
	}
	h.buf.b = append(h.buf.b, p...)
}

// release gives the memory back, which may be in use elsewhere from then on.
func (h *held) release() {
	if h.buf == nil {
		return
	}
	if h.buf.size < len(buffers) {
		h.buf.b = h.buf.b[:0]
		buffers[h.buf.size].Put(h.buf)
	}
	h.buf = nil
}

// newBuffer returns an empty buffer with room for n bytes.
func newBuffer(n int) *buffer {
	size := max(bits.Len(uint(n-1))-minBuffer, 0)
	if size < len(buffers) {
		if b, ok := buffers[size].Get().(*buffer); ok {
			return b
		}
	}
	return &buffer{b: make([]byte, 0, 1<<(size+minBuffer)), size: size}
}
