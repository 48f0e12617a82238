package configs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/streamgauge/streamgauge/engine"
)

// APIKey returns the server's key: of --api-key-file, else STREAMGAUGE_API_KEY,
// else OPENAI_API_KEY, else none.
func (c *Loadgen) APIKey() (string, error) {
	if c.APIKeyFile != "" {
		return ReadSecret(c.APIKeyFile)
	}
	for _, name := range []string{envPrefix + "API_KEY", "OPENAI_API_KEY"} {
		if key := strings.TrimSpace(os.Getenv(name)); key != "" {
			return key, nil
		}
	}
	return "", nil
}

// maxSecret is the largest key file, in bytes; a model's weights given by
// mistake should not be read.
const maxSecret = 64 << 10

// ReadSecret reads a file that holds one secret. Errors name the file and never
// its content.
func ReadSecret(path string) (string, error) {
	if err := readable(path); err != nil {
		return "", err
	}
	if st, err := os.Stat(path); err == nil && st.Size() > maxSecret {
		return "", fmt.Errorf("the file %s has %d bytes, which is no key", path, st.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the file %s cannot be read: %w", path, errors.Unwrap(err))
	}
	secret := strings.TrimSpace(string(b))
	switch {
	case secret == "":
		return "", fmt.Errorf("the file %s is empty", path)
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", fmt.Errorf("the file %s holds more than one word, which is no key", path)
	}
	return secret, nil
}

// Setting is one setting as it may be shown and kept.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source Source `json:"source"`
}

// Settings lists every setting in the order of the table, without secrets:
// credentials in addresses, values of headers that may carry one.
func (l *Loaded) Settings() []Setting {
	var general *engine.Redactor
	out := make([]Setting, 0, len(l.keys))
	for i := range l.keys {
		k := &l.keys[i]
		shown := make([]string, 0, len(l.texts[k.Name]))
		for _, text := range l.texts[k.Name] {
			shown = append(shown, general.String(k.public(text)))
		}
		out = append(out, Setting{k.Name, strings.Join(shown, ","), l.Sources[k.Name]})
	}
	return out
}

// public is a text of the key without the secrets that its type may hold.
func (k *Key) public(text string) string {
	switch k.Type {
	case Headers:
		name, value, ok := strings.Cut(text, ":")
		if !ok || engine.SecretHeader(name) {
			value = engine.Redacted
		}
		return strings.TrimSpace(name) + ":" + strings.TrimSpace(value)
	case URL:
		if t, err := engine.ParseURL(text); err == nil {
			return t.URL
		}
	}
	return text
}
