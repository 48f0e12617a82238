//go:build !race

package wire

import (
	"strings"
	"testing"
)

// In steady state no event costs an allocation, whole reads or split ones.
func TestNoAllocationsPerEvent(t *testing.T) {
	for name, body := range captures(t) {
		if strings.HasSuffix(name, ".json") {
			continue
		}
		dialect := dialectOf(name)
		d := NewDecoder(dialect, 0)
		for _, size := range []int{len(body), 100} {
			run := func() {
				d.Reset(dialect)
				for p := body; len(p) > 0; p = p[min(size, len(p)):] {
					d.Push(p[:min(size, len(p))])
					for d.Next() != nil {
					}
				}
			}
			if name == "vllm/50-enginecore-SIGKILL.sse" {
				continue // ends with an error, which is told as strings
			}
			run()
			if n := testing.AllocsPerRun(10, run); n != 0 {
				t.Errorf("%s in reads of %d: %v allocations", name, size, n)
			}
		}
	}
}
