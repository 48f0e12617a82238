package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"
)

// Options are what a test may want beside a profile.
type Options struct {
	Seed   uint64   // of all texts, lengths and loops; the same seed and prompts give the same
	APIKey string   // "" = none asked for
	Refuse []string // body keys that are answered with 400, as strict gateways do; see RefuseStatus
	// RefuseStatus is 400 or, for the shape of pydantic, 422. 0 = 400.
	RefuseStatus int
	// Fault, if not nil, is asked for every request that is not refused and
	// may return how to break its stream. It must be safe for concurrent use.
	Fault func(Request) *Fault
	// Keep bounds the log of a server that runs for days: of the requests
	// that have ended the last Keep, and up to as many more, are remembered.
	// 0 = all.
	Keep int
}

// Fault breaks one stream.
type Fault struct {
	After   int // tokens; at least one is sent
	Kind    FaultKind
	Message string // of ErrorEvent
}

// FaultKind is a way for a stream to break.
type FaultKind uint8

const (
	ErrorEvent FaultKind = iota // an error object in the stream, then its terminal marker
	Cut                         // the connection closes without the last chunk
	Silence                     // nothing more comes, the connection stays open
)

// Server is a simulated engine.
type Server struct {
	profile Profile
	options Options
	sched   *scheduler
	http    *fasthttp.Server
	shape   shape
	parsers fastjson.ParserPool

	mu        sync.Mutex
	conns     map[*conn]struct{}
	prompts   map[uint64]uint64 // times a prompt was seen
	lingers   map[*job]*time.Timer
	closed    bool
	listeners []net.Listener
	reads     sync.WaitGroup // background reads of connections
}

// New returns a server that is not serving yet. In a synctest bubble it must be
// called inside.
func New(p Profile, o Options) *Server {
	p = p.withDefaults()
	s := &Server{
		profile: p,
		options: o,
		sched:   newScheduler(p, time.Now()),
		conns:   map[*conn]struct{}{},
		prompts: map[uint64]uint64{},
		lingers: map[*job]*time.Timer{},
	}
	s.sched.log.keep = o.Keep
	switch p.Dialect {
	case SGLang:
		s.shape = sglang{}
	case LlamaCPP:
		s.shape = llamacpp{}
	default:
		s.shape = vllm{}
	}
	name := "uvicorn"
	if p.Dialect == LlamaCPP {
		name = "llama.cpp"
	}
	s.http = &fasthttp.Server{
		Name:               name,
		Handler:            s.handle,
		ErrorHandler:       garbled,
		NoDefaultDate:      true, // its package goroutine would outlive a bubble
		MaxRequestBodySize: 256 << 20,
		IdleTimeout:        5 * time.Second, // uvicorn's and cpp-httplib's default
		Logger:             quiet{},
		CloseOnShutdown:    true,
	}
	return s
}

// garbled answers what is no request, or not a whole one. fasthttp's own handler
// resets the response and NoDefaultDate with it.
func garbled(ctx *fasthttp.RequestCtx, err error) {
	status := fasthttp.StatusBadRequest
	if small := (*fasthttp.ErrSmallBuffer)(nil); errors.As(err, &small) {
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString("Invalid HTTP request received.")
}

type quiet struct{}

// Printf drops fasthttp's reports of clients that left; the log has them.
func (quiet) Printf(string, ...any) {}

// Profile returns the profile with its defaults filled in.
func (s *Server) Profile() Profile { return s.profile }

// Truth returns the log of everything served.
func (s *Server) Truth() *Log { return s.sched.log }

// Serve answers on ln until Shutdown. Called after Shutdown it only closes ln.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ln.Close()
	}
	s.listeners = append(s.listeners, ln)
	s.mu.Unlock()
	if err := s.http.Serve(&listener{ln, s}); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("sim: serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown cuts all streams, closes all connections and waits until their
// goroutines have ended, or for ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for j, t := range s.lingers {
		t.Stop()
		delete(s.lingers, j)
	}
	s.mu.Unlock()
	s.sched.close()
	s.mu.Lock()
	for c := range s.conns {
		c.Conn.Close()
	}
	s.mu.Unlock()
	err := s.http.ShutdownWithContext(ctx)
	for _, ln := range s.listeners {
		ln.Close() // of a Serve that had only begun, the HTTP server knows nothing
	}
	if err != nil {
		return fmt.Errorf("sim: shutdown: %w", err)
	}
	s.reads.Wait()
	return nil
}

// gone ends a request whose client left, at once or after the profile's linger.
func (s *Server) gone(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.profile.Linger == 0 || s.closed {
		s.sched.leave(j, ClientGone)
		return
	}
	s.lingers[j] = time.AfterFunc(s.profile.Linger, func() {
		s.mu.Lock()
		delete(s.lingers, j)
		s.mu.Unlock()
		s.sched.leave(j, ClientGone)
	})
}

func (s *Server) comment() string {
	if s.profile.Dialect == LlamaCPP {
		return ":\n\n"
	}
	return ": keep-alive\n\n"
}
