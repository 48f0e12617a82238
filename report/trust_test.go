package report

import (
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

func TestTrust(t *testing.T) {
	good := func() *matrix.Run {
		run := warned()
		run.Header.Warnings, run.End = nil, &matrix.Footer{Outcome: "done"}
		run.Cells = []matrix.Cell{{
			Phase: matrix.Decode, Context: 8192, Concurrency: 4, Status: matrix.Valid, TotalTokS: stream.Some(100.0), TBTMS: stream.Some(10.0), CI95: stream.Some(1.0),
			Stamps: "kernel", TokensFrom: stream.FromTokenIDs, CoalescedShare: stream.Some(0.01), CPUShare: stream.Some(0.1), Streams: 8,
			ProxyDiff: &matrix.ProxyDiff{Joined: 8, OwnTBT: stream.Some(10.05)},
		}}
		return run
	}
	for _, c := range trust(good()) {
		if c.State != "good" {
			t.Errorf("a good run has %s: %s %s", c.State, c.Name, c.Text)
		}
	}
	for _, tc := range []struct {
		name        string
		spoil       func(*matrix.Run)
		check, says string
		state       string
	}{
		{"failed cell", func(r *matrix.Run) { r.Cells[0].Status = matrix.Failed }, "cells", "0 of 1 valid, 1 failed", "bad"},
		{"generator was the limit", func(r *matrix.Run) { r.Cells[0].Status = matrix.Limited }, "cells", "1 limited", "bad"},
		{"user stamps", func(r *matrix.Run) { r.Cells[0].Stamps = "user" }, "clock", "scheduling", "note"},
		{"nothing known of the clock", func(r *matrix.Run) { r.Cells[0].Stamps = "" }, "clock", "does not say", "note"},
		{"estimated tokens", func(r *matrix.Run) { r.Cells[0].TokensFrom = stream.FromEstimate }, "tokens", "estimated", "note"},
		{"unsteady", func(r *matrix.Run) { r.Cells[0].CI95 = stream.Some(9.0) }, "steadiness", "±9.0 % at worst (8K × 4)", "note"},
		{"busy generator", func(r *matrix.Run) { r.Cells[0].CPUShare = stream.Some(0.8) }, "load generator", "80 %", "note"},
		{"coalesced", func(r *matrix.Run) { r.Cells[0].CoalescedShare = stream.Some(0.2) }, "coalesced events", "20.0 %", "note"},
		{"readings apart", func(r *matrix.Run) { r.Cells[0].ProxyDiff.OwnTBT = stream.Some(11.0) }, "two readings", "10.0 %", "note"},
		{"records missing", func(r *matrix.Run) { r.Cells[0].ProxyDiff.Missing = 2 }, "two readings", "2 streams had no record", "note"},
		{"failed streams", func(r *matrix.Run) { r.Cells[0].FailedStreams = 1 }, "streams", "1 of 8 streams failed", "note"},
		{"loops", func(r *matrix.Run) { r.Cells[0].Loops = 3 }, "loops", "3 streams in 1 cell repeated", "note"},
		{"foreign load", func(r *matrix.Run) {
			r.Header.Warnings = []matrix.Warning{{Code: "foreign_load", Message: "2 requests were running"}}
		}, "foreign load", "2 requests", "note"},
		{"interrupted", func(r *matrix.Run) { r.End = &matrix.Footer{Outcome: "interrupted", Message: "Ctrl-C."} }, "end", "interrupted: Ctrl-C", "bad"},
		{"cut off", func(r *matrix.Run) { r.End = nil }, "end", "cut off", "bad"},
		{"damaged file", func(r *matrix.Run) { r.Bad = []matrix.BadLine{{Line: 3}} }, "file", "1 line of the run file could not be read and is", "note"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run := good()
			tc.spoil(run)
			for _, c := range trust(run) {
				if c.Name == tc.check && c.State == tc.state && strings.Contains(c.Text, tc.says) {
					return
				}
			}
			t.Errorf("no %s check %q that says %q: %+v", tc.state, tc.check, tc.says, trust(run))
		})
	}
}
