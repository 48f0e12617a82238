package wire

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
