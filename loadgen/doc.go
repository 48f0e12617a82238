// Package loadgen measures the speed-test matrix of one inference server: how
// fast C streams decode behind a context of L tokens, and how fast prompts are
// read. It opens connections and takes times; it prints nothing.
//
// A run, in order:
//
//  1. The server is asked what it is (engine.Probe) and which request switches
//     it takes (engine.Negotiate); its running and waiting gauges are read while
//     it is left alone, the baseline.
//  2. NewPlan lists the cells, each with its fit arithmetic.
//  3. For each context the prompt is grown to its length by the server's own
//     count, and read cold a few times: the prefill row.
//  4. Each decode cell: fit, drain barrier, one-token prime, C connections up,
//     start at one barrier, readiness, window, close, abort, drain.
//  5. The cell's records get their window parts by instant, after the fact; the
//     proxy's records replace ours where there is a proxy; matrix.FoldDecode
//     turns them into numbers; loadgen adds what only it knows.
//  6. Every record and cell is a line of the run file as soon as it is done, so
//     that an interrupted run is a shorter run, not a lost one.
//
// While a window is open, a slot's goroutine does nothing but read, meter and
// restart: a slot has its own connection, meter and buffers and shares no lock.
// What all numbers mean stands in docs/measuring.md, how one cell goes in
// docs/loadgen.md.
package loadgen
