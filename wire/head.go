package wire

import "hash/maphash"

// maxHead bounds what is remembered of a stream; of vLLM it is 130 bytes.
const maxHead = 256

// head is how the chunks of a stream begin, up to the value of "choices": id,
// model and the like, the same in each chunk and a third of its text. A chunk
// with the same bytes says the same there. They are known by their hash, which
// lies beside the rest of the stream's state: the bytes themselves would be three
// more cache lines that a stream which waited has lost.
type head struct {
	hash      uint64
	size      uint16 // bytes; 0: none is known
	id, model span
}

// headSeed is drawn anew in each process: nobody can prepare heads that collide.
var headSeed = maphash.MakeSeed()

// span is a piece of a head.
type span struct{ from, to uint16 }

func (s span) of(p []byte) []byte {
	if s.from == s.to {
		return nil
	}
	return p[s.from:s.to]
}

// sameHead skips a head that is known, to the value of "choices".
func (r *reader) sameHead() bool {
	h := &r.of.head
	size := int(h.size)
	if size == 0 || size > len(r.p) || maphash.Bytes(headSeed, r.p[:size]) != h.hash {
		return false
	}
	r.i, r.depth = size, 1
	r.ev.ID, r.ev.Model = h.id.of(r.p), h.model.of(r.p)
	return true
}

// keepHead remembers the head that was read, unless it has escapes: then its
// strings do not lie in the payload, and spanOf must not be asked.
func (r *reader) keepHead() {
	if r.i > maxHead || len(r.text) > 0 {
		return
	}
	r.of.head = head{maphash.Bytes(headSeed, r.p[:r.i]), uint16(r.i), r.spanOf(r.ev.ID), r.spanOf(r.ev.Model)}
}

// spanOf returns where v lies in the payload. v is nil or what str returned of a
// string without escapes: see offset.
func (r *reader) spanOf(v []byte) span {
	if v == nil {
		return span{}
	}
	from := offset(r.p, v)
	return span{uint16(from), uint16(from + len(v))}
}
