package configs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/streamgauge/streamgauge/detect"
)

// programs are the tables with what they fill.
var programs = []struct {
	name  string
	keys  Keys
	fresh func() any
}{
	{"loadgen", LoadgenKeys(), func() any { return new(Loadgen) }},
	{"proxy", ProxyKeys(), func() any { return new(Proxy) }},
}

func TestTableAndStructAgree(t *testing.T) {
	for _, p := range programs {
		fields := fieldsOf(p.fresh())
		seen := map[string]bool{}
		for i := range p.keys {
			k := &p.keys[i]
			if seen[k.Name] {
				t.Errorf("%s: key %s stands twice", p.name, k.Name)
			}
			seen[k.Name] = true
			f, ok := fields[k.Name]
			if !ok {
				t.Errorf("%s: no field has the key %s", p.name, k.Name)
				continue
			}
			var texts []string
			if k.Default != "" {
				texts = []string{k.Default}
			}
			v, err := k.parse(texts)
			if err != nil {
				t.Errorf("%s: default of %s: %v", p.name, k.Name, err)
				continue
			}
			if got, want := f.Type(), reflect.TypeOf(v); got != want {
				t.Errorf("%s: field of %s has type %v, want %v", p.name, k.Name, got, want)
			}
			if k.Help == "" || strings.HasSuffix(k.Help, ".") || k.Group == "" {
				t.Errorf("%s: %s needs a group and one line of help without full stop: %q", p.name, k.Name, k.Help)
			}
		}
		for name := range fields {
			if !seen[name] {
				t.Errorf("%s: a field has the key %s, the table does not", p.name, name)
			}
		}
	}
}

// Values that differ from every default, by type.
var others = map[Type]string{
	Text: "other", Bool: "true", OnOff: "off", Maybe: "on", Count: "777", Seed: "777", Real: "0.5",
	Duration: "77s", Bytes: "77KiB", Share: "7%", Levels: "7", Rates: "7/s", Stages: "7s@7/s", Targets: "ttft=7ms", Contexts: "7k", File: "table_test.go", Path: "other",
	Address: "127.0.0.1:777", URL: "http://other:1", URLs: "http://other:1", Object: `{"top_k":7}`,
	Headers: "X-A: b", Pairs: "a=b", Names: "other",
}

// A key that nobody reads would be a setting that does nothing.
func TestEveryKeyChangesItsField(t *testing.T) {
	for _, p := range programs {
		for _, k := range p.keys {
			text := others[k.Type]
			switch {
			case k.Type == Choice:
				text = k.Choices[len(k.Choices)-1]
				if text == k.Default {
					text = k.Choices[0]
				}
			case k.Default == "true":
				text = "false"
			}
			base, set := p.fresh(), p.fresh()
			if _, bad := load(nil, p.keys, base); len(bad) > 0 {
				t.Fatalf("%s: defaults: %v", p.name, bad)
			}
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			Register(fs, p.keys)
			if err := fs.Parse([]string{"--" + k.Name + "=" + text}); err != nil {
				t.Fatal(err)
			}
			if _, bad := load(fs, p.keys, set); len(bad) > 0 {
				t.Errorf("%s: --%s=%s: %v", p.name, k.Name, text, bad)
				continue
			}
			for name, f := range fieldsOf(set) {
				same := reflect.DeepEqual(f.Interface(), fieldsOf(base)[name].Interface())
				if changed := !same; changed != (name == k.Name) {
					t.Errorf("%s: --%s=%s: field of %s changed: %v", p.name, k.Name, text, name, changed)
				}
			}
		}
	}
}

// The least values of the table are those that the detector itself accepts.
func TestDetectMinimaAgree(t *testing.T) {
	for _, p := range programs {
		for name, limits := range map[string]func(n int) detect.Limits{
			"detect-cycles":     func(n int) detect.Limits { return detect.Limits{Cycles: n} },
			"detect-chars":      func(n int) detect.Limits { return detect.Limits{Chars: n} },
			"detect-whitespace": func(n int) detect.Limits { return detect.Limits{WhiteSpace: n} },
		} {
			least := p.keys.Get(name).Min
			if err := limits(least).Validate(); err != nil {
				t.Errorf("%s: %s = %d is in the table, but %v", p.name, name, least, err)
			}
			if limits(least-1).Validate() == nil {
				t.Errorf("%s: %s = %d is below the table's minimum, but the detector takes it", p.name, name, least-1)
			}
		}
	}
}

func TestFlagHelpComesFromTheTable(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Register(fs, LoadgenKeys())
	usage := fs.FlagUsages()
	for _, want := range []string{
		"--on-loop salvage|discard", "(default salvage)",
		"--max-failed percent", "(default 1%)",
		"--contexts contexts", "as far as they fit",
		"--config string",
	} {
		if !strings.Contains(usage, want) {
			t.Errorf("usage lacks %q:\n%s", want, usage)
		}
	}
	if strings.Contains(usage, "--insecure bool") {
		t.Errorf("--insecure shows a value, but is given alone")
	}
}

func TestOnlyAndWithout(t *testing.T) {
	ks := LoadgenKeys()
	if got := ks.Only("model", "url"); len(got) != 2 || got[0].Name != "url" || got[1].Name != "model" {
		t.Errorf("Only = %v, want url and model in the order of the table", got)
	}
	if got, want := len(ks.Without("url", "model")), len(ks)-2; got != want {
		t.Errorf("Without leaves %d keys, want %d", got, want)
	}
	if LoadgenKeys().Get("url") == nil {
		t.Error("Without changed the table")
	}
}
