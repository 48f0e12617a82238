package hist

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkInvariants is shared by every property: what must hold of any histogram.
func checkInvariants(t interface{ Errorf(string, ...any) }, h *H) {
	var n int64
	for _, c := range h.counts {
		if c != nil {
			for _, k := range c {
				n += k
			}
		}
	}
	if n != h.Count() {
		t.Errorf("buckets hold %d, count says %d", n, h.Count())
	}
	prev := int64(math.MinInt64)
	for _, q := range []float64{0, .01, .1, .5, .9, .99, .999, 1} {
		v := h.Quantile(q)
		if v < prev {
			t.Errorf("quantile %v = %d is below the one before, %d", q, v, prev)
		}
		if h.Count() > 0 && (v < h.Min() || v > h.Max()) {
			t.Errorf("quantile %v = %d is outside [%d, %d]", q, v, h.Min(), h.Max())
		}
		prev = v
	}
}

func values() *rapid.Generator[[]int64] {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Int64Range(0, 600), rapid.Int64Range(0, 1e11), rapid.Int64Range(0, math.MaxInt64),
	), 1, 200)
}

func TestQuantileIsWithinOneIn256(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := values().Draw(t, "values")
		var h H
		for _, v := range vs {
			h.Record(v)
		}
		checkInvariants(t, &h)
		slices.Sort(vs)
		for _, q := range []float64{.5, .9, .99} {
			want := vs[max(int(math.Ceil(q*float64(len(vs))))-1, 0)]
			got := h.Quantile(q)
			if d := math.Abs(float64(got) - float64(want)); d > float64(want)/256+1 {
				t.Errorf("quantile %v of %d values = %d, want %d ± 1/256", q, len(vs), got, want)
			}
		}
	})
}

func TestMergeEqualsRecordingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := values().Draw(t, "a"), values().Draw(t, "b")
		var all, left, right H
		for _, v := range a {
			all.Record(v)
			left.Record(v)
		}
		for _, v := range b {
			all.Record(v)
			right.Record(v)
		}
		left.Merge(&right)
		if d := math.Abs(left.sum - all.sum); d > all.sum*1e-12 {
			t.Errorf("merged sum %v, recorded %v", left.sum, all.sum)
		}
		left.sum = all.sum // floating-point addition order may differ in the last bit
		if got, want := asJSON(t, &left), asJSON(t, &all); got != want {
			t.Errorf("merged %s, recorded %s", got, want)
		}
		checkInvariants(t, &left)
	})
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h, back H
		for _, v := range values().Draw(t, "values") {
			h.Record(v)
		}
		if err := json.Unmarshal([]byte(asJSON(t, &h)), &back); err != nil {
			t.Fatal(err)
		}
		if got, want := asJSON(t, &back), asJSON(t, &h); got != want {
			t.Errorf("came back as %s, want %s", got, want)
		}
	})
}

func asJSON(t interface{ Fatal(...any) }, h *H) string {
	p, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func TestUnmarshalRefusesDamage(t *testing.T) {
	for _, tc := range []struct{ name, in string }{
		{"count does not add up", `{"n":2,"sum":1,"min":1,"max":1,"b":[[0,1,1]]}`},
		{"block out of range", `{"n":1,"sum":1,"min":1,"max":1,"b":[[99,1,1]]}`},
		{"negative count", `{"n":-1,"sum":1,"min":1,"max":1,"b":[[0,1,-1]]}`},
		{"min above max", `{"n":1,"sum":1,"min":2,"max":1,"b":[[0,1,1]]}`},
		{"min outside its bucket", `{"n":1,"sum":1,"min":0,"max":1,"b":[[0,1,1]]}`},
		{"max below the last bucket: every quantile was that of max", `{"n":2,"sum":1,"min":1,"max":1,"b":[[0,1,1],[20,3,1]]}`},
		{"empty with a maximum", `{"n":0,"sum":0,"min":0,"max":9,"b":[]}`},
		{"counts that overflow to the right total", `{"n":2,"sum":1,"min":1,"max":1,"b":[[0,1,9223372036854775807],[0,1,9223372036854775807],[0,1,4]]}`},
		{"not an object", `[]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := new(H).UnmarshalJSON([]byte(tc.in)); err == nil {
				t.Errorf("%s was accepted", tc.in)
			}
		})
	}
}

func TestEmptyAndEdges(t *testing.T) {
	var h H
	if h.Quantile(.5) != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Error("an empty histogram has values")
	}
	h.Record(-5)
	h.RecordN(7, 0)
	h.RecordN(math.MaxInt64, 2)
	if got := h.Count(); got != 3 {
		t.Errorf("count %d, want 3: a negative value counts as 0, n = 0 counts nothing", got)
	}
	if h.Min() != 0 || h.Max() != math.MaxInt64 {
		t.Errorf("range [%d, %d], want [0, max]", h.Min(), h.Max())
	}
	h.Reset()
	checkInvariants(t, &h)
	if h.Count() != 0 {
		t.Error("Reset left values")
	}
}

func TestRecordAllocatesOncePerPowerOfTwo(t *testing.T) {
	var h H
	h.Record(10_000_000)
	if n := testing.AllocsPerRun(100, func() { h.Record(10_000_001) }); n != 0 {
		t.Errorf("%v allocations a record, want 0", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	var h H
	for b.Loop() {
		h.Record(10_123_456)
	}
}
