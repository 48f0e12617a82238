// Package passive fills a speed-test matrix from production traffic, with no
// load generator: it folds streams, as they end, into cells of (model, upstream,
// context of the prompt, streams decoding at once).
//
//  1. Who watches a stream asks the [Book] for a [Stream] and tells it the first
//     generated event of each of its choices (Decodes). From then on it counts
//     as decoding at its upstream.
//  2. The upstream's timeline keeps how many sequences were decoding when
//     (timeline.go). A sequence decodes from its first generated event to its
//     last, as in docs/measuring.md; when the last one was is known when the
//     stream ends, and corrected then.
//  3. At the end of the stream (Stream.End) its prompt is put into a context
//     bucket: by the server's count, else by the size of the request body times
//     the tokens per byte learned of the model (ratio.go).
//  4. Each generated event but the first of its choice then gives its tokens, and
//     the time since the one before, to the cell of the number decoding at its
//     instant. The time to first token goes to the cell of the first one's
//     instant. From the onset of a loop on nothing is booked, though the stream
//     goes on being counted as decoding: the engine is working on it.
//  5. [Book.Matrix] makes the numbers: rate = Σ tokens / Σ time, total = rate ×
//     the time's mean of the number decoding (cell.go).
//
// [Recent] is its companion for what happens now: tokens a second, and the
// distributions of the last minutes, told by the same watcher (recent.go).
//
// Booking waits for the end because only then it is known how many tokens each
// event had, how long the prompt was, whether the stream looped from where, and
// whether it failed. It costs nothing while tokens are on their way.
//
// # Borders
//
// Context buckets are 0-1K, 1-2K, … 128-256K, 256K+. A bucket's upper border
// lies 1/64 above the power of two, so that prompts which were meant to be 8K and
// came out at 8,200 tokens are of the bucket that ends with 8K. Buckets of the
// number decoding are 1, 2, 3-4, 5-8, …: a load generator's cell of 8 streams, of
// which one is starting anew, stays in its bucket.
//
// # What is not known
//
// The tokens of an event are known when the stream told them event by event, or
// when the total of a completed stream is its number of events, within 1 % (an
// end-of-text token makes no event). Other streams are kept apart in each cell: a
// cell is made of the known ones when these brought 1,000 tokens; otherwise of
// all, and it is then estimated, and says so.
//
// A stream that is open counts as decoding up to now, and is corrected when it
// ends: what ended while it stalled was booked one too high.
//
// Requests that are not streamed keep the engine busy unseen; where there are
// many, the number decoding is too low.
//
// # Memory
//
// A timeline holds at most 32,768 changes (512 KB), back to the first token of
// the oldest open stream. Beyond that it keeps its newest quarter exactly and
// merges the older changes into time-weighted means of equal length: with an hour
// open at 200 changes a second these are half a second long. Models beyond 64
// are booked as "other"; context and concurrency have 10 and 16 buckets, and a
// cell's histograms are sparse.
package passive
