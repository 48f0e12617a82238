// Package hist is the one histogram of the project: the meter fills one per
// stream, a cell merges those of its streams, the proxy's pages and the reports
// print from the same type, so two printed percentiles cannot disagree.
//
// Buckets are log-linear: values below 256 have a bucket each, above that every
// power of two is cut into 128 equal buckets, so a quantile is off by at most
// 1/256 of its value (a bucket's middle is reported). Blocks of one power of two
// are made when first hit: a stream whose gaps span four powers of two holds
// 4 KiB. Minimum, maximum, sum and count are exact.
package hist
