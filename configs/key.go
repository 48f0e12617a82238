package configs

import (
	"slices"
	"strings"
)

// Type is how the text of a setting is read.
type Type string

const (
	Text     Type = "text"     // string
	Bool     Type = "bool"     // bool; the flag alone means true
	OnOff    Type = "on|off"   // bool
	Maybe    Type = "on|off "  // *bool; nil when not set
	Choice   Type = "choice"   // string, one of Choices
	Count    Type = "number"   // int
	Seed     Type = "seed"     // uint64
	Real     Type = "decimal"  // *float64; nil when not set
	Duration Type = "duration" // time.Duration, with unit: 30s, 1m30s
	Bytes    Type = "size"     // int64: 4096, 64KiB, 64MiB, 1GiB
	Share    Type = "percent"  // float64 in 0..1: 1%
	Levels   Type = "list"     // []int: 1..128, 1..8+1, 1,3,128
	Contexts Type = "contexts" // []int: 8k,16k,0,max (Max)
	Rates    Type = "rates"    // []float64, a second: 10/s, 30/m, 1..64/s
	Stages   Type = "stages"   // []Stage: 1m@10/s,2m@20/s
	Targets  Type = "targets"  // SLO: ttft=500ms,tbt=50ms
	File     Type = "file"     // string, a file that can be read
	Path     Type = "path"     // string, a file or folder to be written
	Address  Type = "address"  // string, host:port or :port
	URL      Type = "url"      // string, http:// or https://
	URLs     Type = "urls"     // []string
	Object   Type = "json"     // map[string]any
	Headers  Type = "header"   // http.Header, name:value
	Pairs    Type = "pair"     // []Pair, name=value
	Names    Type = "name"     // []string
)

// Key is one setting.
type Key struct {
	Name    string
	Type    Type
	Default string   // as one would write it; "" is "not set"
	Shown   string   // what an empty default means, for help and docs
	Zero    string   // the word that means 0 (off, auto, none); "": 0 is not allowed
	Min     int      // of a Count
	Choices []string // of a Choice
	Help    string   // one line, no full stop
	Group   string   // heading in the docs
}

// Keys is the table of a program.
type Keys []Key

// Env is the variable of a key.
func (k *Key) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, "-", "_"))
}

const envPrefix = "STREAMGAUGE_"

// Repeats reports whether the flag may be given several times.
func (k *Key) Repeats() bool {
	switch k.Type {
	case URLs, Headers, Pairs, Names:
		return true
	}
	return false
}

// word is the type as help and docs show it.
func (k *Key) word() string {
	if k.Type == Choice {
		return strings.Join(k.Choices, "|")
	}
	return strings.TrimSpace(string(k.Type))
}

// fallback is the default as help and docs show it.
func (k *Key) fallback() string {
	if k.Shown != "" {
		return k.Shown
	}
	return k.Default
}

// Get returns the key of that name, nil when there is none.
func (ks Keys) Get(name string) *Key {
	for i := range ks {
		if ks[i].Name == name {
			return &ks[i]
		}
	}
	return nil
}

// Only returns the keys with these names, in the order of the table; a command
// that takes a part of a run's flags registers those.
func (ks Keys) Only(names ...string) Keys {
	var out Keys
	for _, k := range ks {
		if slices.Contains(names, k.Name) {
			out = append(out, k)
		}
	}
	return out
}

// Without returns the keys but these.
func (ks Keys) Without(names ...string) Keys {
	return slices.DeleteFunc(slices.Clone(ks), func(k Key) bool { return slices.Contains(names, k.Name) })
}
