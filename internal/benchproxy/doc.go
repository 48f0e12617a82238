// Command benchproxy measures the proxy beside nginx, HAProxy and net/http's
// ReverseProxy, with the yard's emitter, client and scripts:
//
//  1. the yard's programs are built (nginx, HAProxy and wrk come from Debian),
//  2. the emitter, the peers and the proxy with everything on are started,
//  3. the yard's scripts run them in turn, round by round, beside the way without
//     a proxy,
//  4. medians are printed with their ratio to nginx and the bars.
//
// It is make bench-proxy. Without the yard it says so and measures nothing. It
// wants root: the scripts raise what is measured over other work (SCHED_RR), which
// holds other work on the machine up while it runs.
package main
