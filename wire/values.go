package wire

// nesting is where a scan through bare JSON values stands.
type nesting struct {
	depth   int
	text    bool // inside a string
	escape  bool // behind a backslash in it
	garbage bool // between values, something that is none was reported
	over    bool // the value is too large, which was reported
}

// nextValue consumes input until a top-level value closes.
func (d *Decoder) nextValue() *Event {
	start := d.pos
	n := &d.json
	for d.pos < len(d.in) {
		if n.text {
			d.pos = n.skipText(d.in, d.pos)
			continue
		}
		c := d.in[d.pos]
		d.pos++
		switch {
		case n.depth == 0 && c != '{' && c != '[':
			start = d.pos
			if !isSpace(c) && !n.garbage {
				n.garbage = true
				return d.reading().malformed(1)
			}
		case c == '"':
			n.text = true
		case c == '{' || c == '[':
			n.depth++
			n.garbage = false
		case c == '}' || c == ']':
			if n.depth--; n.depth > 0 {
				continue
			}
			if !n.over {
				return d.value(d.in[start:d.pos])
			}
			n.over = false
			start = d.pos
		}
	}
	switch held := d.in[start:]; {
	case n.depth == 0 || n.over:
	case !d.fits(held):
		n.over = true
		return d.dropped()
	default:
		d.event.data.append(held)
	}
	return nil
}

// skipText consumes what stands of a string in p from i on.
func (n *nesting) skipText(p []byte, i int) int {
	if n.escape {
		n.escape = false
		return i + 1
	}
	i += plain(p[i:])
	if i == len(p) {
		return i
	}
	n.escape = p[i] == '\\'
	n.text = n.escape
	return i + 1
}

// fits reports whether the value stays within the size limit with p.
func (d *Decoder) fits(p []byte) bool { return len(d.event.data.bytes())+len(p) <= d.max }

// dropped reports a value over the size limit. The one behind it will be read.
func (d *Decoder) dropped() *Event {
	d.tooLarge()
	d.event.data.release()
	return d.reading().malformed(d.max + 1)
}

// value returns the event of a value whose last bytes are end.
func (d *Decoder) value(end []byte) *Event {
	if !d.fits(end) {
		return d.dropped()
	}
	if len(d.event.data.bytes()) > 0 {
		d.event.data.append(end)
		end = d.event.data.bytes()
	}
	d.spent = true
	return d.reading().read(end, false)
}
