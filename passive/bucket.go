package passive

import (
	"fmt"
	"math/bits"
)

const (
	contextBuckets = 10 // the last is without an end
	decodeBuckets  = 16 // the last one ends at 32,768 and takes all beyond
)

// contextBucket returns the bucket of a prompt; see the package's doc for the
// 1/64.
func contextBucket(tokens int) int {
	b := 0
	for edge := 1024; b < contextBuckets-1 && tokens > edge+edge/64; edge *= 2 {
		b++
	}
	return b
}

// contextEdges returns the least and the greatest prompt of a bucket, in tokens
// and without the slack; over is 0 where there is no end.
func contextEdges(bucket int) (above, upTo int) {
	if bucket > 0 {
		above = 512 << bucket
	}
	if bucket < contextBuckets-1 {
		upTo = 1024 << bucket
	}
	return above, upTo
}

// contextLabel names the context bucket of a cell: "4-8K", "256K+".
func contextLabel(bucket int) string {
	above, upTo := contextEdges(bucket)
	if upTo == 0 {
		return fmt.Sprintf("%dK+", above/1024)
	}
	return fmt.Sprintf("%d-%dK", above/1024, upTo/1024)
}

// decodeBucket returns the bucket of a number of sequences decoding.
func decodeBucket(n int) int {
	return min(bits.Len(uint(max(n, 1)-1)), decodeBuckets-1)
}

// roundedBucket is decodeBucket of a mean, which merged changes are.
func roundedBucket(n float64) int { return decodeBucket(int(n + 0.5)) }

// decodeLabel names a bucket of the number decoding: "1", "2", "3-4", "5-8".
func decodeLabel(bucket int) string {
	switch bucket {
	case 0, 1:
		return fmt.Sprint(bucket + 1)
	case decodeBuckets - 1:
		return fmt.Sprintf("%d+", 1<<(bucket-1)+1)
	}
	return fmt.Sprintf("%d-%d", 1<<(bucket-1)+1, 1<<bucket)
}
