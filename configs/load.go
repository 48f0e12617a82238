package configs

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Source is where a setting came from.
type Source string

const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "environment"
	FromFlag    Source = "flag"
)

// Loaded says where the settings came from.
type Loaded struct {
	File     string            // of --config, "" when there was none
	Sources  map[string]Source // by key
	Warnings []string          // STREAMGAUGE_* variables that nobody reads

	texts map[string][]string // by key, as given; may hold secrets, so not exported
	keys  Keys
}

// Given reports whether a key has another value than its default, wherever from:
// a file that spells the default out gives nothing.
func (l *Loaded) Given(name string) bool {
	k, texts := l.keys.Get(name), l.texts[name]
	return k != nil && strings.Join(texts, ",") != k.Default
}

// Mistakes are all that is wrong with the settings, a sentence each.
type Mistakes []error

func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, err := range m {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As look at each.
func (m Mistakes) Unwrap() []error { return m }

// LoadProxy merges the proxy's settings: flags of fs that were given, variables,
// the file of --config, defaults. fs may lack flags, or be nil.
func LoadProxy(fs *pflag.FlagSet) (Proxy, Loaded, error) {
	var c Proxy
	l, bad := load(fs, ProxyKeys(), &c)
	bad = append(bad, c.check(l)...)
	return c, l, bad.err()
}

// LoadLoadgen does the same for loadgen.
func LoadLoadgen(fs *pflag.FlagSet) (Loadgen, Loaded, error) {
	var c Loadgen
	l, bad := load(fs, LoadgenKeys(), &c)
	bad = append(bad, c.check(l)...)
	return c, l, bad.err()
}

func (m Mistakes) err() error {
	if len(m) == 0 {
		return nil
	}
	return m
}

// load fills the tagged fields of dst, a pointer to a struct.
func load(fs *pflag.FlagSet, keys Keys, dst any) (Loaded, Mistakes) {
	l := Loaded{Sources: map[string]Source{}, texts: map[string][]string{}, keys: keys}
	// No nesting: "." in a key of the file is a mistake, not a path.
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00"))
	bad := l.readFile(v, fs, keys)
	fields := fieldsOf(dst)
	for i := range keys {
		k := &keys[i]
		texts, source, err := lookUp(v, fs, k)
		if err == nil {
			var value any
			if value, err = k.parse(texts); err == nil {
				fields[k.Name].Set(reflect.ValueOf(value))
			}
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", k.place(source, l.File), err))
			continue
		}
		l.Sources[k.Name], l.texts[k.Name] = source, texts
	}
	l.strayVariables()
	return l, bad
}

// place names a setting where it was given, so that the mistake can be found.
func (k *Key) place(s Source, file string) string {
	switch s {
	case FromEnv:
		return k.Env()
	case FromFile:
		return file + ": " + k.Name
	}
	return "--" + k.Name
}

// fieldsOf maps keys to the fields tagged with them.
func fieldsOf(dst any) map[string]reflect.Value {
	v := reflect.ValueOf(dst).Elem()
	out := map[string]reflect.Value{}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("key"); name != "" {
			out[name] = v.Field(i)
		}
	}
	return out
}

// readFile reads the file of --config or STREAMGAUGE_CONFIG into v and names
// every key that the table does not have.
func (l *Loaded) readFile(v *viper.Viper, fs *pflag.FlagSet, keys Keys) Mistakes {
	path := os.Getenv(envPrefix + "CONFIG")
	if fs != nil {
		if f := fs.Lookup(ConfigFlag); f != nil && f.Changed {
			path = f.Value.String()
		}
	}
	if path == "" {
		return nil
	}
	l.File = path
	if err := readable(path); err != nil {
		return Mistakes{fmt.Errorf("--config: %w", err)}
	}
	v.SetConfigFile(path)
	v.SetConfigType("yaml")
	if err := v.ReadInConfig(); err != nil {
		var pe viper.ConfigParseError
		if errors.As(err, &pe) {
			err = errors.Unwrap(pe)
		}
		return Mistakes{fmt.Errorf("%s: it is not YAML with one setting a line: %s", path, oneLine(err))}
	}
	var bad Mistakes
	for _, name := range fileKeys(v) {
		if keys.Get(name) == nil {
			bad = append(bad, fmt.Errorf("%s: unknown key %q%s", path, name, keys.hint(name)))
		}
	}
	return bad
}

// fileKeys are the top-level keys of the file, sorted.
func fileKeys(v *viper.Viper) []string {
	var out []string
	for name := range v.AllSettings() {
		out = append(out, name)
	}
	// A key whose value is null is not among the settings; it still is a key.
	for _, name := range v.AllKeys() {
		top, _, _ := strings.Cut(name, "\x00")
		if !slices.Contains(out, top) {
			out = append(out, top)
		}
	}
	slices.Sort(out)
	return out
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// lookUp returns what was given for a key, by precedence. Viper's own flag
// binding is not used: it would cast "abc" to 0 by the flag's type.
func lookUp(v *viper.Viper, fs *pflag.FlagSet, k *Key) ([]string, Source, error) {
	if fs != nil {
		if f := fs.Lookup(k.Name); f != nil && f.Changed {
			if t, ok := f.Value.(*flagText); ok {
				return t.texts, FromFlag, nil
			}
			return []string{f.Value.String()}, FromFlag, nil
		}
	}
	if s := os.Getenv(k.Env()); s != "" {
		return k.split(s), FromEnv, nil
	}
	if v.InConfig(k.Name) && v.Get(k.Name) != nil {
		texts, err := scalars(v.Get(k.Name))
		return texts, FromFile, err
	}
	if k.Default == "" {
		return nil, FromDefault, nil
	}
	return []string{k.Default}, FromDefault, nil
}

// split cuts a variable into the values of a repeatable key: one a line, and
// addresses also at commas, which the others may contain.
func (k *Key) split(s string) []string {
	if !k.Repeats() {
		return []string{s}
	}
	return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == ',' && k.Type == URLs })
}

// scalars turns a value of the file into texts: one, or those of a list.
func scalars(v any) ([]string, error) {
	switch v := v.(type) {
	case string:
		return []string{v}, nil
	case bool:
		return []string{strconv.FormatBool(v)}, nil
	case int:
		return []string{strconv.Itoa(v)}, nil
	case int64:
		return []string{strconv.FormatInt(v, 10)}, nil
	case uint64:
		return []string{strconv.FormatUint(v, 10)}, nil
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}, nil
	case []any:
		var out []string
		for _, e := range v {
			if _, nested := e.([]any); nested {
				return nil, errors.New("a list inside a list has no meaning here")
			}
			s, err := scalars(e)
			if err != nil {
				return nil, err
			}
			out = append(out, s...)
		}
		return out, nil
	case map[string]any:
		// Viper folds the case of keys, which would change JSON.
		return nil, errors.New("a mapping is not read here: write the value as text in quotes")
	}
	return nil, fmt.Errorf("a value of type %T is not read here: write it as text in quotes", v)
}

// elsewhere are variables of this prefix that other parts of the project read.
var elsewhere = []string{"CONFIG", "API_KEY", "SHARED", "CACHE", "CORPUS", "E2E", "ENGINES", "ENGINES_SKIP", "VLLM_URL", "SGLANG_URL", "LLAMACPP_URL"}

// strayVariables warns of variables that look like settings and are none of
// either program: a misspelt one would be passed over in silence.
func (l *Loaded) strayVariables() {
	all := append(LoadgenKeys(), ProxyKeys()...)
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		short, ours := strings.CutPrefix(name, envPrefix)
		if !ours || slices.Contains(elsewhere, short) {
			continue
		}
		key := strings.ToLower(strings.ReplaceAll(short, "_", "-"))
		if all.Get(key) == nil {
			l.Warnings = append(l.Warnings, fmt.Sprintf("the variable %s is no setting%s", name, all.hint(key)))
		}
	}
	slices.Sort(l.Warnings)
}
