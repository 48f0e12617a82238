// Command benchproxy measures the proxy beside nginx, HAProxy and net/http's
// ReverseProxy, with the yard's emitter, client and scripts:
//
//  1. the yard's programs are built (nginx, HAProxy and wrk come from Debian),
//  2. the emitter, the peers and three proxies of ours are started: ours, with
//     everything on; ours-nodetect, without the search for repetition, whose
//     memory is that of a stream alone; ours-unobserved, which forwards the same
//     streams under a path that it does not take for one of an engine. All
//     proxies start anew before each load of a thousand streams and more,
//  3. the yard's scripts run them in turn, round by round, beside the way without
//     a proxy; who comes first changes with the round (bench.go),
//  4. medians are printed with their ratio to nginx (table.go), then each bar
//     with what was measured (bars.go). A bar that is missed gives exit code 1.
//
// It is make bench-proxy. With -behave it runs the yard's checks of behaviour
// instead and judges our rows (behave.go): make behave. Without the yard it says
// so and measures nothing. It wants root: the scripts raise what is measured over
// other work (SCHED_RR), which holds other work on the machine up while it runs.
package main
