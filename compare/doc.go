// Package compare lays two sets of runs beside each other, cell by cell, by
// docs/measuring.md, "Comparing". It computes and judges; it draws nothing.
//
// The steps, in order:
//
//  1. Each cell of each run is an observation of its metrics (sample.go). Cells
//     that are not valid give none.
//  2. The spread between the runs of one side, over all cells, is the noise
//     floor of a metric (floor.go). With one run a side there is none; the batch
//     means inside the window stand in, and the verdict says so.
//  3. The difference of a cell's means gets Welch's interval, its variances
//     drawn towards the floor (welch.go, student.go).
//  4. The p values of all cells and metrics are adjusted together (holm.go), so
//     that 5 % of comparisons, not of cells, show a difference that is not there.
//  5. Definitions that differ are named as warnings (differ.go), and rules for
//     scripts are checked (rule.go).
package compare
