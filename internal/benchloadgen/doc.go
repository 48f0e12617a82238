// Benchloadgen lays loadgen beside a ground truth and beside the least that a
// client of as many streams can cost.
//
//  1. The yard's emitter and drain are built from $STREAMGAUGE_SHARED/yard
//     (default ../shared beside the module), loadgen from this module. Without
//     the yard nothing is measured: that is said loudly, and is no failure.
//  2. For each load, and for each of the rounds: the emitter is started on core
//     0; drain, loadgen, and loadgen with --events run on core 1, one after the
//     other. The emitter's log of the second and third is taken.
//  3. Of loadgen's own run: total, TBT and gap p99 beside the same figures made
//     of the emitter's log over the same window; the cell's status; processor
//     time of the whole process a token, beside drain's; peak RSS.
//     Of the run with --events: each instant less the emitter's reading of
//     CLOCK_REALTIME, which it takes before it formats and writes the event, so
//     its own time up to the kernel is in the difference.
//  4. Three times, loadgen is started against a socket that only waits for it:
//     the time from its start to the first byte sent.
//  5. A table with the median of the rounds and the worst of them, and exit code
//     1 if a median misses its bar or a round is limited.
//  6. AIPerf and llama-benchy are installed into environments of their own in the
//     cache folder, once, and run on the same loads with streams as long as our
//     window. One that cannot be installed is left out, loudly. What each tool
//     reports stands beside the emitter's log of the requests it measured.
//
// With root and chrt, everything runs under SCHED_RR, as the yard's own
// measurements do: on a shared machine other work costs more than any tool.
package main
