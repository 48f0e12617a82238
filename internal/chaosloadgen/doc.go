// Package chaosloadgen holds a test that disturbs loadgen, as a program of its
// own, at random instants: `make chaos-loadgen`, or STREAMGAUGE_CHAOS=1. It takes
// minutes of real time; the packages loadgen and cmd/loadgen test the same
// endings one by one.
//
//  1. The engine (loadgen sim, another process) is killed with SIGKILL; loadgen is
//     interrupted; the file system of the run file fills up.
//  2. Whatever happens, loadgen has to be over in five seconds, with the right
//     exit code.
//  3. What it has written has to be readable, and every report of it has to
//     render. If nothing was measured yet, nothing may be left behind.
package chaosloadgen
