package passive

import "testing"

func TestContextBuckets(t *testing.T) {
	for _, row := range []struct {
		tokens int
		want   string
		reason string
	}{
		{1, "0-1K", "the shortest prompt"},
		{1024, "0-1K", "a border is of the bucket it ends"},
		{1040, "0-1K", "a load generator hits 1K within 16 tokens"},
		{1041, "1-2K", "beyond the slack"},
		{8192, "4-8K", "a border"},
		{8233, "4-8K", "8K and 0.5 %, the load generator's tolerance"},
		{8321, "8-16K", "beyond the slack"},
		{251 * 1024, "128-256K", "the largest context of the published matrices"},
		{262144, "128-256K", "the last border"},
		{270000, "256K+", "no end"},
		{1 << 40, "256K+", "no end"},
	} {
		if got := contextLabel(contextBucket(row.tokens)); got != row.want {
			t.Errorf("%d tokens are of %s, want %s: %s", row.tokens, got, row.want, row.reason)
		}
	}
}

func TestDecodeBuckets(t *testing.T) {
	for _, row := range []struct {
		n    int
		want string
	}{{0, "1"}, {1, "1"}, {2, "2"}, {3, "3-4"}, {4, "3-4"}, {5, "5-8"}, {8, "5-8"}, {9, "9-16"}, {128, "65-128"}, {129, "129-256"}, {1 << 20, "16385+"}} {
		if got := decodeLabel(decodeBucket(row.n)); got != row.want {
			t.Errorf("%d decoding are of %s, want %s", row.n, got, row.want)
		}
	}
}

func TestMeansAreRounded(t *testing.T) {
	for _, row := range []struct {
		n    float64
		want string
	}{{1, "1"}, {1.4, "1"}, {1.6, "2"}, {2.4, "2"}, {2.6, "3-4"}, {4.4, "3-4"}} {
		if got := decodeLabel(roundedBucket(row.n)); got != row.want {
			t.Errorf("a mean of %v is of %s, want %s", row.n, got, row.want)
		}
	}
}
