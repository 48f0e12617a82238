// Package wire turns the bytes of a response body into events.
//
//  1. The first byte that is not white space tells what the body is: an event
//     stream, one or more bare JSON values, an HTML page, or compressed bytes.
//     Content types are not trusted: gateways send all of these as
//     text/event-stream.
//  2. An event stream is cut into lines (LF, CRLF or a lone CR) and lines into
//     events, by the rules of the HTML standard, section 9.2.6. A bare JSON
//     body is cut where a top-level value closes.
//  3. A payload is the terminal marker, a keep-alive, or one JSON value. The
//     value is walked once, from left to right, and checked on the way; the few
//     members that carry tokens, counts, endings and errors are taken, nothing
//     is built of the rest.
//
// A Decoder gives the same events however the body was cut into reads. Between
// reads it holds half an event of bounded size, if there is one, and half a
// kilobyte besides: what reading takes is borrowed from a pool while events are
// handed out. In steady state no event costs an allocation. It knows no time, no
// HTTP and no statistics.
package wire
