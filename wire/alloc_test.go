//go:build !race

package wire

import "testing"

// In steady state no event costs an allocation, whole reads or split ones.
func TestNoAllocationsPerEvent(t *testing.T) {
	for name, body := range captures(t) {
		if name[len(name)-4:] != ".sse" {
			continue
		}
		d := NewDecoder(Chat, 0)
		for _, size := range []int{len(body), 100} {
			run := func() {
				d.Reset(Chat)
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
