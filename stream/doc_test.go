package stream

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// recordPage returns docs/record.md.
func recordPage(t *testing.T) string {
	t.Helper()
	p, err := os.ReadFile("../docs/record.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// The line that the page shows is a record, and the program would write it so.
func TestPageShowsARecord(t *testing.T) {
	page := recordPage(t)
	_, rest, ok := strings.Cut(page, "<!-- example -->\n```json\n")
	example, _, ok2 := strings.Cut(rest, "\n```")
	if !ok || !ok2 {
		t.Fatal("docs/record.md has no example line")
	}
	line := strings.ReplaceAll(example, "\n", "")
	r, err := ParseRecord([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Append(nil)); got != line {
		t.Errorf("written again:\n%s\nthe page has:\n%s", got, line)
	}
	// The page explains the window and its clean part; both must follow from the
	// events shown.
	log := LogOf(r, origin)
	onset := OnsetIn(log, ms(msOf(r.Loops[0].OnsetNS)))
	w := WindowOf(log, Edges{Open: ms(105), Close: ms(500)})
	clean := log[:onset]
	for clean[0].At < ms(105) {
		clean = clean[1:]
	}
	for _, e := range clean[1:] {
		w.CleanTokens += float64(e.Tokens)
	}
	w.CleanNS, w.Trimmed = int64(clean[len(clean)-1].At-clean[0].At), true
	if w != *r.Window {
		t.Errorf("window of the events shown: %+v, the page has %+v", w, *r.Window)
	}
}

// Every key of a record is on the page, and so is every flag that the meter
// can set.
func TestPageNamesEveryKeyAndFlag(t *testing.T) {
	page := recordPage(t)
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !strings.Contains(page, "`"+key+"`") {
				t.Errorf("docs/record.md does not name %q", key)
			}
			ft := f.Type
			for ft.Kind() == reflect.Pointer || ft.Kind() == reflect.Slice {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct && !strings.HasPrefix(ft.Name(), "Null") {
				walk(ft)
			}
		}
	}
	walk(reflect.TypeOf(Record{}))

	source, err := os.ReadFile("finish.go")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`(?m)^\tadd\(.*, "(\w+)"\)$`).FindAllStringSubmatch(string(source), -1)
	if len(flags) < 10 {
		t.Fatalf("%d flags found in finish.go, want at least 10", len(flags))
	}
	for _, f := range flags {
		if !strings.Contains(page, "| `"+f[1]+"` |") {
			t.Errorf("docs/record.md does not explain the flag %q", f[1])
		}
	}
}
