//go:build linux && !race

package stamp

import (
	"testing"
	"time"
)

func TestReadAllocatesNothing(t *testing.T) {
	warm(t)
	for _, tt := range []struct {
		name string
		user bool
		idle time.Duration
	}{
		{"kernel", false, 0},
		{"kernel, read idle", false, time.Minute},
		{"user", true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peer, c := tcpPair(t, tt.user)
			c.SetReadIdle(tt.idle)
			msg, buf := make([]byte, 200), make([]byte, 4096)
			allocs := testing.AllocsPerRun(1000, func() {
				peer.Write(msg)
				c.Read(buf)
			})
			if allocs != 0 {
				t.Errorf("got %v allocations a read, want 0", allocs)
			}
		})
	}
}
