package wire

import "bytes"

// AskUsage returns a request body that asks for the usage of its stream as well:
// body with stream_options.include_usage set to true. It returns body itself,
// and false, if that is no streaming request, says anything of include_usage, or
// cannot be read. Nothing else is changed, white space and the order of members
// included. body is not written to. Dialects other than chat and completions send
// their usage unasked, and some refuse the member.
func AskUsage(d Dialect, body []byte) ([]byte, bool) {
	if d != Chat && d != Completions {
		return body, false
	}
	var stream, twice bool
	var options []byte
	ok := eachMember(body, func(key, value []byte) bool {
		switch string(key) {
		case "stream":
			stream = string(value) == "true"
		case "stream_options":
			twice = twice || options != nil
			options = value
		}
		return true
	})
	if !ok || !stream || twice {
		return body, false
	}
	if options == nil || string(options) == "null" {
		return withOptions(body, options)
	}
	said, members := false, false
	ok = eachMember(options, func(key, _ []byte) bool {
		members = true
		said = said || string(key) == "include_usage"
		return true
	})
	if !ok || said {
		return body, false
	}
	add := `"include_usage":true`
	if members {
		add += ","
	}
	return splice(body, offset(body, options)+1, 0, add), true
}

// withOptions adds the member stream_options, or replaces its null.
func withOptions(body, null []byte) ([]byte, bool) {
	const options = `{"include_usage":true}`
	if null != nil {
		return splice(body, offset(body, null), len(null), options), true
	}
	// The object has a member, "stream".
	return splice(body, bytes.IndexByte(body, '{')+1, 0, `"stream_options":`+options+`,`), true
}

// offset is where part begins in whole. part must have been cut from whole by
// slices of two indices, which keep the capacity up to the end of whole's: what it
// lacks is what lies before. A third index, a copy or whole cut anew would make it
// wrong without a sign.
func offset(whole, part []byte) int { return cap(whole) - cap(part) }

// splice replaces n bytes at i.
func splice(b []byte, i, n int, with string) []byte {
	out := append(make([]byte, 0, len(b)+len(with)), b[:i]...)
	return append(append(out, with...), b[i+n:]...)
}
