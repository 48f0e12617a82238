package enginetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options says how to run an engine. Zero fields take the engine's default.
type Options struct {
	// Model is a tiny model's name (see Models) or the path of another one.
	// Default: "tiny-loop".
	Model string
	// Name is what the model is served as. Default: "tiny". llama.cpp accepts
	// any name in requests.
	Name string
	// Slots is how many sequences run at once. Default: 8 for llama.cpp, 128
	// for the others.
	Slots int
	// ContextTotal is the size of the KV cache in tokens. llama.cpp shares it
	// out evenly between the slots; vLLM rounds up to a multiple of 128.
	// Default: 65,536 for llama.cpp, 1,048,576 for vLLM, 131,072 for SGLang.
	ContextTotal int
	// ContextPerSeq is the longest sequence, ContextTotal at most. Default:
	// 8192; llama.cpp ignores it, a slot's share is its limit.
	ContextPerSeq int
	// Port to listen on, on 127.0.0.1. Default: a free one.
	Port int
	// Args are appended to the command line, Env to the environment.
	Args, Env []string
	// ReadyTimeout bounds the wait for readiness. Default: 5 minutes, since
	// vLLM was seen to take 165 s on a busy machine.
	ReadyTimeout time.Duration
	// LogDir receives <kind>-<port>.log. Default: a new temporary folder,
	// removed by Stop.
	LogDir string
}

// Server is a running engine that answers requests.
type Server struct {
	Engine     Engine
	URL        string // "http://127.0.0.1:port", without a path
	MetricsURL string
	Model      string // the name to put into requests
	PID        int    // 0 when the server was not started here
	LogPath    string // "" when the server was not started here
	StartTime  time.Duration

	tmp     string
	grace   time.Duration
	exited  chan struct{}
	exitErr error // never nil once exited is closed
	stop    sync.Once
}

// Start runs the engine and returns once it answers. It does not outlive this
// process: on Linux the engine ends with it even when it is killed. When
// Engine.URL is set, nothing is started and opts are what the caller believes
// that server to have.
func (e Engine) Start(ctx context.Context, opts Options) (*Server, error) {
	if e.URL != "" {
		s := &Server{Engine: e, URL: strings.TrimRight(e.URL, "/")}
		s.MetricsURL = s.URL + "/metrics"
		s.Model = cmp.Or(opts.Name, "tiny")
		if err := s.ready(ctx, 5*time.Second); err != nil {
			return nil, fmt.Errorf("%s at $%s: %w", e.Kind, e.Kind.URLVar(), err)
		}
		return s, nil
	}
	return e.Kind.recipe().start(ctx, e, opts)
}

func (r recipe) start(ctx context.Context, e Engine, o Options) (*Server, error) {
	o.Model = cmp.Or(o.Model, "tiny-loop")
	o.Name = cmp.Or(o.Name, "tiny")
	o.Slots = cmp.Or(o.Slots, r.defaults.Slots)
	o.ContextTotal = cmp.Or(o.ContextTotal, r.defaults.ContextTotal)
	o.ContextPerSeq = cmp.Or(o.ContextPerSeq, r.defaults.ContextPerSeq)
	o.ReadyTimeout = cmp.Or(o.ReadyTimeout, 5*time.Minute)
	if !filepath.IsAbs(o.Model) {
		m, err := modelPath(e.Kind, o.Model)
		if err != nil {
			return nil, err
		}
		o.Model = m
	}
	if o.Port == 0 {
		p, err := freePort()
		if err != nil {
			return nil, err
		}
		o.Port = p
	}

	s := &Server{Engine: e, Model: o.Name, grace: stopGrace, exited: make(chan struct{})}
	s.URL = "http://127.0.0.1:" + strconv.Itoa(o.Port)
	s.MetricsURL = s.URL + "/metrics"
	if o.LogDir == "" {
		d, err := os.MkdirTemp("", "enginetest-")
		if err != nil {
			return nil, err
		}
		o.LogDir, s.tmp = d, d
	}
	s.LogPath = filepath.Join(o.LogDir, fmt.Sprintf("%s-%d.log", e.Kind, o.Port))
	argv, env := r.command(e, o)
	begin := time.Now()
	if err := s.spawn(argv, append(append(os.Environ(), env...), o.Env...)); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", e.Kind, err), os.RemoveAll(s.tmp))
	}
	if err := s.ready(ctx, o.ReadyTimeout); err != nil {
		err = fmt.Errorf("start %s: %w; the end of its log:\n%s", e.Kind, err, s.LogTail(4<<10))
		return nil, errors.Join(err, s.Stop())
	}
	s.StartTime = time.Since(begin)
	return s, nil
}

var errExitZero = errors.New("exit status 0")

// spawn starts the process in a group of its own with its output in LogPath.
func (s *Server) spawn(argv, env []string) error {
	log, err := os.Create(s.LogPath)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "## %s\n", strings.Join(argv, " "))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	cmd.SysProcAttr = ownGroup()
	// The kernel sends Pdeathsig when the *thread* that started the child ends
	// (golang.org/issue/27505), so that thread is kept until the child is gone.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			s.exitErr = cmp.Or(cmd.Wait(), errExitZero)
			close(s.exited)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.PID = cmd.Process.Pid
	return nil
}

// ready polls /health, at most five times a second, until it says 200.
func (s *Server) ready(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// No kept connection: an engine counts them, and a leak check finds them.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	wait := 50 * time.Millisecond
	for {
		last := health(ctx, client, s.URL)
		if last == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("it exited before it was ready: %w", s.exitErr)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not ready after %s: %w", limit, last)
			}
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, 200*time.Millisecond)
	}
}

func health(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/health says %s", resp.Status)
	}
	return nil
}

// stopGrace is how long an engine may take to end by itself after SIGTERM. With
// streams open both llama.cpp and vLLM wait for their clients, so it is short.
const stopGrace = 5 * time.Second

// Stop ends the engine's process group and waits for the main process. A server
// that was not started here is left running. Stopping twice is harmless.
func (s *Server) Stop() error {
	if s.PID == 0 {
		return nil
	}
	s.stop.Do(func() {
		_ = syscall.Kill(-s.PID, syscall.SIGTERM) // fails when it ended by itself
		grace := time.NewTimer(s.grace)
		defer grace.Stop()
		select {
		case <-s.exited:
		case <-grace.C:
		}
		// The group may hold workers that their parent left behind.
		_ = syscall.Kill(-s.PID, syscall.SIGKILL)
		<-s.exited
	})
	if s.tmp != "" {
		return os.RemoveAll(s.tmp)
	}
	return nil
}

// Exited is closed when the engine's process has ended, by Stop or by itself.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Signal sends sig to the engine's main process only: for tests of what an
// engine's death looks like to a client.
func (s *Server) Signal(sig syscall.Signal) error {
	if s.PID == 0 {
		return errors.New("enginetest: the server was not started here")
	}
	return syscall.Kill(s.PID, sig)
}

// LogTail is the last n bytes of the engine's output.
func (s *Server) LogTail(n int64) string {
	f, err := os.Open(s.LogPath)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-n), n))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

// freePort picks a port below the range from which the kernel takes ports for
// outgoing connections: vLLM binds seconds after this returns, and a load test
// in between must not be given the same port.
func freePort() (int, error) {
	for range 100 {
		p := 20000 + rand.IntN(10000)
		l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(p))
		if err == nil {
			return p, l.Close()
		}
	}
	return 0, errors.New("no free port between 20000 and 30000 on 127.0.0.1")
}
