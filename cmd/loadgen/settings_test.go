package main

import (
	"testing"

	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// A run that was cut off before its first cell has nothing but its header to say
// that no prefill rows were asked for.
func TestResumeTakesNoPrefillFromTheFile(t *testing.T) {
	cells := func(phases ...matrix.CellPhase) []matrix.Cell {
		var out []matrix.Cell
		for _, p := range phases {
			out = append(out, matrix.Cell{Phase: p})
		}
		return out
	}
	for _, tc := range []struct {
		name   string
		header bool
		cells  []matrix.Cell
		source configs.Source
		want   bool
	}{
		{"asked for none, no cell yet", true, nil, configs.FromDefault, true},
		{"asked for them, no cell yet", false, nil, configs.FromDefault, false},
		{"an older file whose first cell is no prefill row", false, cells(matrix.Decode), configs.FromDefault, true},
		{"a file that begins with a prefill row", false, cells(matrix.Prefill, matrix.Decode), configs.FromDefault, false},
		{"--no-prefill=false is given", true, nil, configs.FromFlag, false},
	} {
		var cfg loadgen.Config
		run := matrix.Run{Header: matrix.Header{Config: matrix.Config{NoPrefill: tc.header}}, Cells: tc.cells}
		adopt(&cfg, &configs.Loaded{Sources: map[string]configs.Source{"no-prefill": tc.source}}, &run)
		if cfg.NoPrefill != tc.want {
			t.Errorf("%s: no prefill rows %v, want %v", tc.name, cfg.NoPrefill, tc.want)
		}
	}
}
