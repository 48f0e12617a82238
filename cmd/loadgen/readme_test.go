package main

import (
	"testing"

	"github.com/streamgauge/streamgauge/cmd/internal/readme"
)

// TestReadme holds the commands that the documents show to the program: their
// subcommands, flags, and how many arguments they take.
func TestReadme(t *testing.T) {
	shown, err := readme.Commands("../..", "loadgen")
	if err != nil {
		t.Fatal(err)
	}
	if len(shown) < 5 {
		t.Errorf("%d commands found in the documents, the README alone shows more", len(shown))
	}
	for _, c := range shown {
		cmd, rest, err := newRoot(streams{}).Find(c.Args[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: %q: %v", c.Place, c.Args, err)
		}
	}
}
