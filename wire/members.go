package wire

import "bytes"

// eachMember calls fn with every member of the JSON object p, the key without
// quotes and both as they stand, until fn returns false. It looks no deeper
// than it must to find where values end and builds nothing, so it is fit for
// bodies of megabytes. It returns false if p is not one object.
func eachMember(p []byte, fn func(key, value []byte) bool) bool {
	i := skipSpace(p, 0)
	if i == len(p) || p[i] != '{' {
		return false
	}
	i = skipSpace(p, i+1)
	if i < len(p) && p[i] == '}' {
		return skipSpace(p, i+1) == len(p)
	}
	for i < len(p) {
		if p[i] != '"' {
			return false
		}
		end := skipString(p, i)
		if end < 0 {
			return false
		}
		key := p[i+1 : end-1]
		i = skipSpace(p, end)
		if i == len(p) || p[i] != ':' {
			return false
		}
		i = skipSpace(p, i+1)
		end = skipValue(p, i)
		if end <= i {
			return false
		}
		if !fn(key, p[i:end]) {
			return true
		}
		i = skipSpace(p, end)
		if i == len(p) {
			return false
		}
		switch p[i] {
		case ',':
			i = skipSpace(p, i+1)
		case '}':
			return skipSpace(p, i+1) == len(p)
		default:
			return false
		}
	}
	return false
}

func skipSpace(p []byte, i int) int {
	for i < len(p) && isSpace(p[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// skipString returns the index behind the string that starts at p[i], -1 when
// it does not end.
func skipString(p []byte, i int) int {
	i++
	for {
		n := bytes.IndexByte(p[i:], '"')
		if n < 0 {
			return -1
		}
		end := i + n
		slashes := 0
		for j := end - 1; j >= i && p[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		// The next round counts back to here at most: an odd run of
		// backslashes ends with this quote.
		i = end + 1
	}
}

// skipValue returns the index behind the value that starts at p[i], -1 when it
// does not end. Brackets are counted, not matched: the value is parsed later,
// if it is of interest.
func skipValue(p []byte, i int) int {
	if i == len(p) {
		return -1
	}
	switch p[i] {
	case '"':
		return skipString(p, i)
	case '{', '[':
		for depth := 0; i < len(p); {
			switch p[i] {
			case '"':
				if i = skipString(p, i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return -1
	}
	for i < len(p) && p[i] != ',' && p[i] != '}' && p[i] != ']' && !isSpace(p[i]) {
		i++
	}
	return i
}
