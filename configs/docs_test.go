package configs

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const markdownFile = "../docs/configuration.md"

// Docs and shipped files are what the table says; -update writes them.
func TestWrittenFilesAreTrue(t *testing.T) {
	want := map[string]string{markdownFile: Markdown()}
	for _, p := range programs {
		want[p.name+".yaml"] = YAML(p.name, p.keys)
	}
	for path, text := range want {
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v (go test ./configs -update writes it)", err)
			continue
		}
		if d := cmp.Diff(text, string(got)); d != "" {
			t.Errorf("%s is behind the table, go test ./configs -update writes it (-want +got):\n%s", path, d)
		}
	}
}

// A shipped file changes nothing: it holds every key, at its default.
func TestShippedFilesAreTheDefaults(t *testing.T) {
	for _, p := range programs {
		plain, shipped := p.fresh(), p.fresh()
		if _, bad := load(nil, p.keys, plain); len(bad) > 0 {
			t.Fatalf("%s: %v", p.name, bad)
		}
		fs := flags(t, p.keys, "--config", p.name+".yaml")
		l, bad := load(fs, p.keys, shipped)
		if len(bad) > 0 {
			t.Errorf("%s.yaml: %v", p.name, bad)
			continue
		}
		for name, f := range fieldsOf(shipped) {
			want := fieldsOf(plain)[name]
			// An empty list and none mean the same.
			if f.Kind() == reflect.Slice && f.Len() == 0 && want.Len() == 0 {
				continue
			}
			if d := cmp.Diff(want.Interface(), f.Interface()); d != "" {
				t.Errorf("%s.yaml: %s (-default +file):\n%s", p.name, name, d)
			}
		}
		for _, k := range p.keys {
			if l.Given(k.Name) {
				t.Errorf("%s.yaml: %s counts as given", p.name, k.Name)
			}
			if k.Default != "" && l.Sources[k.Name] != FromFile {
				t.Errorf("%s.yaml lacks %s", p.name, k.Name)
			}
		}
	}
}
