package proxy

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/passive"
)

// TestMatrixKeysAreDocumented holds docs/live.md to the keys of /matrix.
func TestMatrixKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/live.md")
	if err != nil {
		t.Fatal(err)
	}
	typ := reflect.TypeFor[passive.Cell]()
	for i := range typ.NumField() {
		if key := typ.Field(i).Tag.Get("json"); !strings.Contains(string(page), "`"+key) {
			t.Errorf("docs/live.md does not say what %s is", key)
		}
	}
	for _, path := range []string{"`/`", "`/live`", "`/matrix`"} {
		if !strings.Contains(string(page), "| "+path) {
			t.Errorf("docs/live.md has no row of %s", path)
		}
	}
}
