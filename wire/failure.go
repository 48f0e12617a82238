package wire

// complaint is where an object speaks of an error: the members error, error_type
// and detail, absent if it has none. bare says that the object is one itself.
type complaint struct {
	failure, kind, detail int
	bare                  bool
}

func noComplaint(failed bool) complaint {
	return complaint{failure: absent, kind: absent, detail: absent, bare: failed}
}

// other takes the value of a member that only a complaint may be read from.
func (r *reader) other(key []byte, c *complaint) {
	switch string(key) {
	case "error":
		c.failure = r.pass()
	case "error_type":
		c.kind = r.pass()
	case "detail": // FastAPI, for example {"detail":"Not Found"}
		c.detail = r.pass()
	default:
		r.skip()
	}
}

// heed makes the event a failure if its object, which was walked, is one.
func (r *reader) heed(c *complaint) {
	ev := &r.ev
	switch {
	case r.bad:
	case c.failure != absent && r.isError(c.failure):
		ev.Kind = Failure
		ev.Error = r.errorAt(c.failure)
		if c.kind != absent && ev.Error.Type == "" {
			ev.Error.Type = r.scalarAt(c.kind)
		}
	case c.bare:
		ev.Kind = Failure
		ev.Error = r.errorAt(0)
	case c.detail != absent && len(ev.Choices) == 0 && !ev.Usage.Has:
		ev.Kind = Failure
		ev.Error = Error{Message: r.scalarAt(c.detail)}
	}
}

// isError says whether the value of an error member, which was skipped, is an
// error. Some servers send the key with null on every chunk.
func (r *reader) isError(at int) bool {
	defer r.back(r.back(at))
	switch r.peek() {
	case 'n', 'f':
		return false
	case '"':
		return len(r.str()) > 0
	}
	return true
}

// errorAt reads an error that is a text or an object, at a place that was
// skipped.
func (r *reader) errorAt(at int) (e Error) {
	defer r.back(r.back(at))
	if r.peek() != '{' {
		e.Message = r.scalar()
		return e
	}
	status := ""
	r.object()
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(key) {
		case "type":
			e.Type = r.scalar()
		case "code":
			e.Code = r.scalar()
		case "http_status_code":
			status = r.scalar()
		case "message":
			e.Message = r.scalar()
		default:
			r.skip()
		}
	}
	if e.Code == "" {
		e.Code = status
	}
	return e
}

// scalarAt is scalar at a place that was skipped.
func (r *reader) scalarAt(at int) string {
	defer r.back(r.back(at))
	return r.scalar()
}

// scalar takes a value and returns it as text, "" for null.
func (r *reader) scalar() string {
	switch r.peek() {
	case '"':
		return string(r.str())
	case 'n':
		r.skip()
		return ""
	}
	return string(r.raw())
}
