package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// read reports whether these keys could be read; their fields are 0 otherwise.
func (l *Loaded) read(names ...string) bool {
	for _, n := range names {
		if l.Sources[n] == "" {
			return false
		}
	}
	return true
}

// rank orders sources by precedence.
func (l *Loaded) rank(name string) int {
	return slices.Index([]Source{FromDefault, FromFile, FromEnv, FromFlag}, l.Sources[name])
}

// check names the settings that are right alone and wrong together.
func (c *Loadgen) check(l Loaded) Mistakes {
	var bad Mistakes
	if c.RespectEOS == c.ForceLength && l.read("respect-eos", "force-length") {
		// One is the opposite of the other: what was said with more weight holds.
		switch respect, force := l.rank("respect-eos"), l.rank("force-length"); {
		case respect > force:
			c.ForceLength = !c.RespectEOS
		case force > respect:
			c.RespectEOS = !c.ForceLength
		default:
			bad = append(bad, fmt.Errorf("--respect-eos and --force-length are both %t: one excludes the other", c.ForceLength))
		}
	}
	if (c.Cert == "") != (c.TLSKey == "") {
		bad = append(bad, errors.New("--cert and --key belong together"))
	}
	if c.TopP != nil && (*c.TopP == 0 || *c.TopP > 1) {
		bad = append(bad, fmt.Errorf("--top-p: %g is not above 0 and up to 1", *c.TopP))
	}
	if c.Insecure && c.CA != "" {
		bad = append(bad, errors.New("--insecure checks no certificate, so --ca would be ignored: give one of them"))
	}
	if c.AdminTokenFile != "" && c.ProxyAdmin == "" {
		bad = append(bad, errors.New("--proxy-admin-token-file needs --proxy-admin"))
	}
	if c.Resume != "" && c.Out != "" {
		bad = append(bad, errors.New("--resume writes where the run file is: leave --out away"))
	}
	return append(bad, detectMistakes(c.Limits().Validate())...)
}

func (c *Proxy) check(l Loaded) Mistakes {
	var bad Mistakes
	if c.Insecure && c.CA != "" {
		bad = append(bad, errors.New("--insecure checks no certificate, so --ca would be ignored: give one of them"))
	}
	if (c.Cert == "") != (c.TLSKey == "") {
		bad = append(bad, errors.New("--cert and --key belong together"))
	}
	if (c.ListenCert == "") != (c.ListenKey == "") {
		bad = append(bad, errors.New("--listen-cert and --listen-key belong together"))
	}
	if l.read("listen", "admin") && c.Listen == c.Admin && !strings.HasSuffix(c.Listen, ":0") {
		bad = append(bad, fmt.Errorf("--listen and --admin are both %s: nothing of ours is served on the data port", c.Listen))
	}
	if l.read("buffer-body", "max-body") && c.BufferBody > c.MaxBody {
		bad = append(bad, fmt.Errorf("--buffer-body of %d bytes is above --max-body of %d", c.BufferBody, c.MaxBody))
	}
	if c.AdminTokenFile != "" && c.Admin == "off" {
		bad = append(bad, errors.New("--admin-token-file needs an admin port, and --admin is off"))
	}
	return append(bad, detectMistakes(c.Limits().Validate())...)
}

// detectMistakes takes the detector's own sentences apart.
func detectMistakes(err error) Mistakes {
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		return many.Unwrap()
	}
	if err != nil {
		return Mistakes{err}
	}
	return nil
}

// Require names the settings that a command cannot do without and that were not
// given, in one sentence.
func (l *Loaded) Require(names ...string) error {
	var missing []string
	for _, n := range names {
		if len(l.texts[n]) == 0 || l.texts[n][0] == "" {
			missing = append(missing, "--"+n)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("missing: %s (flag, STREAMGAUGE_* variable, or key of the --config file)", strings.Join(missing, ", "))
}
