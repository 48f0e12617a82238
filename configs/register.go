package configs

import (
	"strings"

	"github.com/spf13/pflag"
)

// flagText is a flag's value: the text as it was given. It is parsed with the
// variables and the file, so that all mistakes are found together.
type flagText struct {
	key   *Key
	texts []string
}

func (f *flagText) Set(s string) error {
	if !f.key.Repeats() {
		f.texts = f.texts[:0]
	}
	f.texts = append(f.texts, s)
	return nil
}

func (f *flagText) String() string {
	if f.key == nil { // pflag asks the zero value
		return ""
	}
	if f.texts == nil {
		return f.key.fallback()
	}
	return strings.Join(f.texts, ",")
}

func (f *flagText) Type() string { return f.key.word() }

// ConfigFlag is the flag that names the YAML file; STREAMGAUGE_CONFIG likewise.
const ConfigFlag = "config"

// Register adds the flags of these keys, and --config.
func Register(fs *pflag.FlagSet, keys Keys) {
	if fs.Lookup(ConfigFlag) == nil {
		fs.String(ConfigFlag, "", "YAML file with settings; flags and STREAMGAUGE_* variables win over it")
	}
	for i := range keys {
		k := keys[i]
		f := fs.VarPF(&flagText{key: &k}, k.Name, "", k.Help)
		if k.Type == Bool {
			f.NoOptDefVal = "true"
		}
	}
}
