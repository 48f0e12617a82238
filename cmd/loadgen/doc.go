// Command loadgen produces the speed test matrix of an inference server.
//
//	loadgen --url http://127.0.0.1:8000 --concurrency 1..128
//
// holds each number of concurrent streams steady over each context length and
// prints prefill rate, total and per-request tok/s, TTFT and time between tokens
// of every cell, with a status that says whether to believe it. Results go to
// stdout, progress to stderr, the run file and reports to the folder of --out.
//
// On a terminal the progress is a live screen on which the matrix fills in; q or
// Ctrl-C stops the run, saves and reports what there is, and twice leaves at once.
// --resume goes on with a run file.
//
// Other commands: demo (everything with nothing installed), once (one measured
// request), probe (what the server is), report (any report from a run file),
// compare (two sets of runs), sim (the simulated engine), loops and inspect
// (judge a captured text or stream). Each has --help.
//
// Exit codes: 0 every cell measured, or looped, over capacity, short, limited or
// skipped by the rules; 1 a cell failed, the run could not be done, or bad input;
// 2 usage or configuration; 3 compare --fail-on met; 130 interrupted, by a signal, a
// key or --max-time: what was measured is saved and reported.
package main
