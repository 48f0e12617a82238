package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
)

// proxy is ours, as a process of its own.
type proxy struct {
	*yard.Program
	addr, admin string
	said        string // file that holds its stderr
}

// start runs the program in front of an engine, everything on that is on by
// default.
func start(ctx context.Context, program, engine string, flags ...string) (*proxy, error) {
	addr, err := yard.FreeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := yard.FreeAddr()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(filepath.Dir(program), "log-")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &proxy{addr: addr, admin: admin, said: log.Name()}
	cmd := exec.Command(program, append([]string{"--upstream", "http://" + engine, "--listen", addr, "--admin", admin, "--models-every", "off", "--model", "soak", "--log-level", "warn", "--drain", "1s"}, flags...)...)
	cmd.Stderr = log
	p.Program, err = yard.Start(ctx, cmd, func() error {
		_, err := p.get(ctx, "/healthz")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, p.tail())
	}
	return p, nil
}

// end ends the proxy in order. That it does is a promise too.
func (p *proxy) end(t *tally) {
	if !p.Stop(syscall.SIGTERM) {
		t.fault("process", errors.New("the proxy did not end when it was told to"))
	}
}

// get asks the admin port.
func (p *proxy) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		return nil, err
	}
	// A connection kept for later would be a descriptor too many.
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return b, err
}

// counter is the sum of a metric's series whose labels contain text.
func (p *proxy) counter(ctx context.Context, name, text string) (float64, error) {
	b, err := p.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	var sum float64
	for line := range strings.Lines(string(b)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if metric, labels, _ := strings.Cut(series, "{"); !ok || metric != name || !strings.Contains(labels, text) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("/metrics: %q: %w", line, err)
		}
		sum += v
	}
	return sum, nil
}

// tail is the end of what it said.
func (p *proxy) tail() []byte {
	b, err := os.ReadFile(p.said)
	if err != nil {
		return []byte(err.Error())
	}
	return b[max(0, len(b)-2<<10):]
}

// sample is what the process holds at one instant.
type sample struct {
	at       time.Time
	rss      float64 // MB
	fds      int
	threads  int
	requests int // that went as they should until then
}

// sample reads /proc.
func (p *proxy) sample() (sample, error) {
	s := sample{at: time.Now()}
	dir := fmt.Sprintf("/proc/%d/", p.PID())
	fds, err := os.ReadDir(dir + "fd")
	if err != nil {
		return s, err
	}
	s.fds = len(fds)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return s, err
	}
	in := bufio.NewScanner(bytes.NewReader(status))
	for in.Scan() {
		f := strings.Fields(in.Text())
		if len(f) < 2 {
			continue
		}
		n, err := strconv.Atoi(f[1])
		switch f[0] {
		case "VmRSS:": // kB
			s.rss = float64(n) / 1024
		case "Threads:":
			s.threads = n
		default:
			continue
		}
		if err != nil {
			return s, fmt.Errorf("%sstatus: %q: %w", dir, in.Text(), err)
		}
	}
	return s, in.Err()
}

// goroutines ends the process and counts the goroutines of the stacks that it
// prints at that. No port says their number.
func (p *proxy) goroutines() (int, error) {
	p.Stop(syscall.SIGQUIT)
	b, err := os.ReadFile(p.said)
	if err != nil {
		return 0, err
	}
	n := countStacks(b)
	if n == 0 {
		return 0, errors.New("the proxy printed no stacks when told to quit")
	}
	return n, nil
}

func countStacks(b []byte) (n int) {
	for line := range bytes.Lines(b) {
		// "goroutine 12 gp=0x… [IO wait]:"; 0 is the one of the signal.
		if rest, ok := bytes.CutPrefix(line, []byte("goroutine ")); ok && !bytes.HasPrefix(rest, []byte("0 ")) && bytes.HasSuffix(bytes.TrimSpace(line), []byte("]:")) {
			n++
		}
	}
	return n
}
