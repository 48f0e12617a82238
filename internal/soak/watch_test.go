package main

import (
	"testing"
	"time"
)

func TestQuarters(t *testing.T) {
	begin := time.Now()
	var all []sample
	for i := range 41 { // 10 to 50 MB over 40 s
		all = append(all, sample{at: begin.Add(time.Duration(i) * time.Second), rss: float64(10 + i)})
	}
	if first, last := quarters(all, rss); first != 15 || last != 45 {
		t.Errorf("got %v and %v, want 15 and 45", first, last)
	}
	if got := most(all, rss); got != 50 {
		t.Errorf("most is %v, want 50", got)
	}
	if first, last := quarters(all[:3], rss); first != 0 || last != 0 {
		t.Errorf("got %v and %v of three samples, want none", first, last)
	}
}

func TestSteady(t *testing.T) {
	begin := time.Now()
	wanted := steady(3 * time.Second)
	for _, tc := range []struct {
		name string
		at   time.Duration
		fds  int
		want bool
	}{
		{"the first", 0, 20, false},
		{"fewer", 2 * time.Second, 14, false},
		{"the same for 2 s", 4 * time.Second, 14, false},
		{"for longer", 5*time.Second + 1, 14, true},
	} {
		if got := wanted(sample{at: begin.Add(tc.at), fds: tc.fds}); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestCountStacks(t *testing.T) {
	got := countStacks([]byte(`SIGQUIT: quit
PC=0x47 m=0 sigcode=0

goroutine 0 gp=0x1 m=0 mp=0x1 [idle]:
runtime.futex()

goroutine 1 gp=0x2 m=nil [select, 2 minutes]:
main.main()
	goroutine 3 in goroutine 1

goroutine 18 gp=0x3 m=nil [IO wait]:
internal/poll.runtime_pollWait()
created by net/http.(*Server).Serve in goroutine 1
`))
	if got != 2 {
		t.Errorf("got %d, want 2: the idle thread's is none", got)
	}
}
