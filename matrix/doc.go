// Package matrix holds the speed test matrix: the lines of a run file, and the
// arithmetic that turns a cell's records into its numbers.
//
// The steps, in order:
//
//  1. Fits says whether a cell can run at all on the server's KV cache (fit.go).
//  2. The load generator runs it and writes its records with Writer (runfile.go).
//  3. FoldDecode and FoldPrefill turn the records into a Cell (fold.go): pure
//     functions, so that anyone can recompute a cell from the file alone.
//  4. Read gives the whole file back to whatever prints it.
//
// Every definition is that of docs/measuring.md.
package matrix
