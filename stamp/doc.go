// Package stamp gives every socket read the instant at which its bytes arrived.
//
// The steps of one read, on Linux over TCP:
//
//  1. Conn.Read calls recvmsg through the runtime's poller. The socket has
//     SO_TIMESTAMPNS, so the kernel hands over, with the bytes, the
//     CLOCK_REALTIME at which the last segment of them entered the stack.
//  2. The clock is read once, directly after. That reading is the user stamp,
//     and, being a pair of wall and monotonic time, it also tells whether the
//     wall clock was stepped.
//  3. The kernel's stamp is moved to CLOCK_MONOTONIC with a clock pair measured
//     within the last second.
//  4. A stamp that cannot be right (later than the read, older than the read
//     before, taken around a step of the wall clock) is refused and counted,
//     and the user stamp stands in.
//
// Everywhere else (other systems, in-memory connections, on request) the user
// stamp is the stamp. A kernel stamp is exact when the read returned the data
// of one segment. When segments merge before they are read, the merged buffer
// carries the newest stamp: an upper bound for the earlier bytes, and still no
// later than the user stamp.
//
// The package knows nothing of what the bytes mean. Beside Conn it has the
// Dialer and Listener that make one, and the Watcher that tells when a peer
// has gone while nobody reads.
package stamp
