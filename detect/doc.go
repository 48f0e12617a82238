// Package detect judges whether a stream of text repeats itself: since when,
// with which period, and whether it still does.
//
// The steps, in order:
//
//  1. Make one [Loop] per choice and channel with [New]; text of different
//     channels is never joined.
//  2. [Loop.Feed] each piece of text as it comes. How the text was cut plays no
//     part: it is looked at in blocks of 64 bytes at absolute offsets, so a
//     verdict is known at most 64 bytes after the place it names.
//  3. Feed reports whether the level rose; [Loop.Verdict] then tells the
//     highest verdict, [Loop.Verdicts] all of them.
//  4. While nothing is confirmed, [Loop.Candidate] tells what repetition the
//     text ends in right now. After that the verdict's Running and Length tell
//     whether the loop goes on, or after how much it was left.
//  5. [Loop.Finish] looks at the last partial block. [Loop.Reset] makes the
//     state usable for another stream.
//
// A repetition is confirmed at the least offset n at which, for some period p,
// the maximal stretch ending at n in which every character equals the one p
// before it spans 4 p and 4,096 characters, and its cycle is not all white
// space. Of several such p the smallest is told. A character is a byte that is
// no UTF-8 continuation byte together with the continuation bytes behind it:
// for valid text a code point, and for invalid text still well defined.
//
// The package knows nothing of protocols, models or time. It has no goroutine,
// no lock and no clock, and it allocates only when its window grows and when a
// verdict is reached.
package detect
