package matrix

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestPageNamesEveryKey holds docs/runfile.md to the lines of the run file.
func TestPageNamesEveryKey(t *testing.T) {
	page, err := os.ReadFile("../docs/runfile.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []any{Header{}, Host{}, Engine{}, Config{}, Cell{}, Hists{}, ProxyDiff{}, Warning{}, Note{}, Footer{}} {
		typ := reflect.TypeOf(line)
		for i := range typ.NumField() {
			key, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if key == "" || key == "type" || key == "v" {
				continue
			}
			if !strings.Contains(string(page), "`"+key+"`") && !strings.Contains(string(page), "."+key+"`") {
				t.Errorf("docs/runfile.md does not name %s of %s", key, typ.Name())
			}
		}
	}
}
