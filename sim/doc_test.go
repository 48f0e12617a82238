package sim

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocNamesWhatThereIs: docs/sim.md names every profile, and its notation parses.
func TestDocNamesWhatThereIs(t *testing.T) {
	b, err := os.ReadFile("../docs/sim.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Profiles() {
		if _, err := Lookup(name); err != nil {
			t.Errorf("Lookup(%q): %v", name, err)
		}
		if !strings.Contains(string(b), "`"+name+"`") {
			t.Errorf("docs/sim.md does not name the profile %q", name)
		}
	}
	block := regexp.MustCompile("(?s)```\n(.*?)```").FindSubmatch(b)
	if block == nil {
		t.Fatal("docs/sim.md shows no notation")
	}
	if w, err := ParseWrites(string(block[1])); err != nil || len(w) != 4 {
		t.Errorf("the notation in docs/sim.md: %d writes, error %v", len(w), err)
	}
	if _, err := Lookup("nope"); err == nil || !strings.Contains(err.Error(), "laguna-xs-vllm") {
		t.Errorf("Lookup of an unknown profile: %v, want an error that lists the names", err)
	}
}
