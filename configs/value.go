package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamgauge/streamgauge/engine"
)

// Pair is one name=value of a list whose order is kept.
type Pair struct{ Name, Value string }

// parse reads the texts of a key; those of a key that does not repeat are one.
// No texts gives the type's empty value.
func (k *Key) parse(texts []string) (any, error) {
	s := ""
	if len(texts) > 0 {
		s = strings.TrimSpace(texts[len(texts)-1])
	}
	switch k.Type {
	case Bool, OnOff:
		return parseBool(s)
	case Maybe:
		if s == "" {
			return (*bool)(nil), nil
		}
		b, err := parseBool(s)
		return &b, err
	case Choice:
		if s != "" && !slices.Contains(k.Choices, s) {
			return nil, fmt.Errorf("%q is none of %s", s, strings.Join(k.Choices, ", "))
		}
		return s, nil
	case Count:
		return k.parseCount(s)
	case Seed:
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", s)
		}
		return n, nil
	case Real:
		return parseReal(s)
	case Duration:
		if k.isZero(s) {
			return time.Duration(0), nil
		}
		d, err := parseDuration(s)
		if err == nil && d == 0 && k.Zero == "" {
			err = errors.New("it must be more than 0")
		}
		return d, err
	case Bytes:
		if k.isZero(s) {
			return int64(0), nil
		}
		n, err := ParseSize(s)
		if err == nil && n == 0 && k.Zero == "" {
			err = errors.New("it must be more than 0")
		}
		return n, err
	case Share:
		return ParseShare(s)
	case Levels:
		return ParseLevels(strings.Join(texts, ","))
	case Contexts:
		return ParseContexts(strings.Join(texts, ","))
	case Rates:
		return ParseRates(strings.Join(texts, ","))
	case Stages:
		return ParseStages(strings.Join(texts, ","))
	case Targets:
		return ParseSLO(s)
	case File:
		return s, readable(s)
	case Address:
		return s, k.checkAddress(s)
	case URL:
		if s == "" {
			return "", nil
		}
		_, err := engine.ParseURL(s)
		return s, err
	case URLs:
		return parseURLs(texts)
	case Object:
		return parseObject(s)
	case Headers:
		return parseHeaders(texts)
	case Pairs:
		return parsePairs(texts)
	case Names:
		return slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return strings.TrimSpace(s) == "" }), nil
	}
	if len(texts) > 0 { // Text keeps its spaces: the end of a prompt is literal
		return texts[len(texts)-1], nil
	}
	return "", nil
}

func (k *Key) isZero(s string) bool { return k.Zero != "" && (s == k.Zero || s == "0" || s == "") }

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "on", "yes", "1":
		return true, nil
	case "false", "off", "no", "0", "":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither on nor off", s)
}

func (k *Key) parseCount(s string) (int, error) {
	if k.isZero(s) {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	if n < k.Min {
		return 0, fmt.Errorf("%d is below %d", n, k.Min)
	}
	return n, nil
}

func parseReal(s string) (*float64, error) {
	if s == "" {
		return nil, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%q is not a number", s)
	}
	if f < 0 {
		return nil, fmt.Errorf("%s is negative", s)
	}
	return &f, nil
}

// readable checks that a file can be opened now: a missing key file should be
// named with the other mistakes, not after the first prefill.
func readable(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return fmt.Errorf("the file %s cannot be read: %w", path, err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return fmt.Errorf("%s is a folder, not a file", path)
	}
	return nil
}

func (k *Key) checkAddress(s string) error {
	if s == k.Zero && s != "" {
		return nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not an address such as :9000 or 127.0.0.1:9464", s)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q has no port between 0 and 65535", s)
	}
	return nil
}

// parseURLs reads addresses of upstreams. Clients send their own credentials,
// ours would overwrite or leak them.
func parseURLs(texts []string) ([]string, error) {
	var out []string
	for _, s := range texts {
		t, err := engine.ParseURL(s)
		if err != nil {
			return nil, err
		}
		if t.User != nil || t.Query != "" {
			return nil, fmt.Errorf("the address of %s carries credentials or a query: clients send their own", t.URL)
		}
		if !slices.Contains(out, t.URL) {
			out = append(out, t.URL)
		}
	}
	return out, nil
}

func parseObject(s string) (map[string]any, error) {
	if s == "" {
		return nil, nil
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber() // 1e400 and 2^63 stay what they are
	var m map[string]any
	if err := dec.Decode(&m); err != nil || m == nil || dec.More() {
		return nil, errors.New("it is not one JSON object such as {\"top_k\":20}")
	}
	return m, engine.CheckExtra(m)
}

func parseHeaders(texts []string) (http.Header, error) {
	h := http.Header{}
	for _, s := range texts {
		name, value, ok := strings.Cut(s, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok || name == "":
			return nil, errors.New("a header is written name:value") // not quoted: it may be a bare secret
		case strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
		}):
			return nil, fmt.Errorf("%q cannot be the name of a header", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return nil, fmt.Errorf("the value of the header %s has control characters", name)
		}
		switch canonical := http.CanonicalHeaderKey(name); canonical {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection":
			return nil, fmt.Errorf("the header %s is set by the client itself", canonical)
		}
		h.Add(name, value)
	}
	return h, nil
}

func parsePairs(texts []string) ([]Pair, error) {
	var out []Pair
	for _, s := range texts {
		name, value, ok := strings.Cut(s, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not name=value", s)
		}
		out = append(out, Pair{name, strings.TrimSpace(value)})
	}
	return out, nil
}
