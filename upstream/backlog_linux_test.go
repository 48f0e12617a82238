package upstream

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// R9: dials to a listener whose backlog is full come up in time or fail as
// connect; none hangs.
func TestR9FullBacklog(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 1); err != nil { // and nobody accepts
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{Addr: "127.0.0.1:" + strconv.Itoa(name.(*unix.SockaddrInet4).Port)}
	c.Dialer.Timeout = 200 * time.Millisecond
	defer c.CloseIdle()
	const dials = 128
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		up       []*Ready // held, or the pool would serve the others with them
		timeouts int
	)
	begin := time.Now()
	for range dials {
		wg.Go(func() {
			ready, err := c.Connect(context.Background())
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				up = append(up, ready)
				return
			}
			wantOp(t, err, OpConnect, nil)
			if IsTimeout(err) {
				timeouts++
			}
		})
	}
	wg.Wait()
	if len(up) == 0 || timeouts == 0 || len(up)+timeouts != dials {
		t.Errorf("got %d up and %d timeouts of %d, want some of both and nothing else", len(up), timeouts, dials)
	}
	for _, r := range up {
		r.Close()
	}
	if took := time.Since(begin); took > 10*c.Dialer.Timeout {
		t.Errorf("took %v, want about %v: all dial at once", took, c.Dialer.Timeout)
	}
}
