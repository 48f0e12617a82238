package detect

import "unsafe"

// Memory is how many bytes the state holds now.
func (l *Loop) Memory() int {
	size := int(unsafe.Sizeof(*l)) +
		sizeOf(l.history.text) + sizeOf(l.history.sums) + sizeOf(l.history.calm) +
		sizeOf(l.runs) + sizeOf(l.anchors.list) + sizeOf(l.rolled) + sizeOf(l.verdicts)
	for i := range l.verdicts {
		size += len(l.verdicts[i].Excerpt)
	}
	if l.anchors.index != nil {
		size += int(unsafe.Sizeof(*l.anchors.index))
	}
	if n := l.near; n != nil {
		size += int(unsafe.Sizeof(*n)) + sizeOf(n.frame.tokens)
		if n.frame.last != nil {
			size += int(unsafe.Sizeof(*n.frame.last))
		}
		if n.words.words != nil {
			size += int(unsafe.Sizeof(*n.words.words))
		}
		if n.words.pairs.many != nil {
			size += int(unsafe.Sizeof(*n.words.pairs.many))
		}
	}
	return size
}

func sizeOf[S ~[]T, T any](s S) int {
	var one T
	return cap(s) * int(unsafe.Sizeof(one))
}
