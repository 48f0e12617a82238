// Truth compares our instants of tokens with the ones at which they were sent.
//
//  1. The yard's emitter is built from $STREAMGAUGE_SHARED/yard/emitter (default
//     ../shared beside the module) and started. Without it nothing is measured:
//     that is said loudly, and is no failure.
//  2. For 1, 8 and 128 streams, steady (evenly spread over the time between two
//     tokens) and in lock-step (all at once, like a decode step), with kernel
//     and with user stamps, streams are read by the code of loadgen's slots:
//     upstream.Client and stream.Meter ("loadgen"). Kernel stamps also with
//     200 events a second and stream, with a bar of 1 ms.
//  3. The same again through our proxy, a process of its own, whose records give
//     the instants that it took ("proxy").
//  4. Each generated event is laid beside the emitter's log of it. The error of
//     one that is not coalesced is its instant less the emitter's reading of
//     CLOCK_REALTIME, taken before the event is formatted and written: the
//     emitter's own time up to the kernel is in it.
//  5. A table, in which a kernel p99 at the highest number of streams has a bar.
//  6. Then the pair: loadgen runs the same cells directly, through the proxy
//     without knowing of it ("forwarded"), and with the proxy's records joined
//     ("joined"), in turns. What each reports of total, TTFT and gaps is laid
//     beside the emitter's log, and the errors beside one another: the emitter's
//     timers fall otherwise in each run, and 128 requests at once wait for it by
//     milliseconds, which no way of looking at it has a part in.
//  7. Exit code 1 if a bar is missed.
//
// With root and chrt, everything runs under SCHED_RR, as the yard's own
// measurements do: on a shared machine other work costs more than any hop.
package main
