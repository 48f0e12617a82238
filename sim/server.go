package sim

import (
	"context"
	"encoding/binary"
	"encoding/hex"
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
	// Fault, if not nil, is asked for every admitted request and may return
	// how to break its stream.
	Fault func(Request) *Fault
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

	mu      sync.Mutex
	conns   map[*conn]struct{}
	prompts map[uint64]uint64 // times a prompt was seen
	lingers map[*job]*time.Timer
	closed  bool
	reads   sync.WaitGroup // background reads of connections
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
		NoDefaultDate:      true, // its package goroutine would outlive a bubble
		MaxRequestBodySize: 256 << 20,
		IdleTimeout:        5 * time.Second, // uvicorn's and cpp-httplib's default
		Logger:             quiet{},
		CloseOnShutdown:    true,
	}
	return s
}

type quiet struct{}

// Printf drops fasthttp's reports of clients that left; the log has them.
func (quiet) Printf(string, ...any) {}

// Profile returns the profile with its defaults filled in.
func (s *Server) Profile() Profile { return s.profile }

// Truth returns the log of everything served.
func (s *Server) Truth() *Log { return s.sched.log }

// Serve answers on ln until Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(&listener{ln, s}); err != nil {
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
	if err := s.http.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("sim: shutdown: %w", err)
	}
	s.reads.Wait()
	return nil
}

// complete answers a completion request.
func (s *Server) complete(ctx *fasthttp.RequestCtx, chat bool) {
	arrived := s.sched.now()
	parser := s.parsers.Get()
	defer s.parsers.Put(parser)
	if f := s.strict(parser, ctx.PostBody()); f != nil {
		s.refuse(ctx, f)
		return
	}
	req, f := parse(parser, ctx.PostBody(), chat)
	if f != nil {
		s.refuse(ctx, f)
		return
	}
	tokens, prefixes := s.tokenize(req)
	id := string(ctx.Request.Header.Peek("X-Request-Id"))
	rid := req.rid
	if id == "" {
		id = rid
	}
	if req.tokenIDs && req.ids == nil {
		req.ids = s.profile.Tokenizer.ids(req.prompt)
	}
	seed := s.seed(req)
	if id == "" {
		id = hexID(seed)
	}
	if rid == "" {
		rid = id
	}
	entry := s.sched.log.open(Request{
		ID: id, RID: rid, Model: req.model, Path: string(ctx.Path()), Stream: req.stream, Choices: req.n,
		Arrived: time.Duration(arrived), Prompt: tokens,
	})
	maxTokens, f := s.limit(req, tokens)
	if f != nil {
		s.sched.log.end(entry, time.Duration(arrived), Refused)
		s.refuse(ctx, f)
		return
	}
	st := &stream{
		srv:     s,
		written: -1,
		shape:   s.shape,
		job:     &job{log: entry, n: req.n, prompt: tokens, prefixes: prefixes, noCache: req.noCache, wake: make(chan struct{}, 1)},
		reply: &reply{
			req: req, id: s.replyID(id, chat), model: s.replyModel(req), version: s.profile.Version,
			created: time.Now().Unix(), prompt: tokens, report: s.profile.CacheReport,
			choices: newChoices(s.profile, req, seed, maxTokens),
		},
	}
	if tracked, ok := ctx.Conn().(*conn); ok {
		tracked.last = req.stream && s.profile.Dialect == LlamaCPP
		tracked.watch(st.leave)
	}
	if s.options.Fault != nil {
		var r Request
		entry.edit(func(q *Request) { r = *q })
		st.fault = s.options.Fault(r)
	}
	s.sched.enter(st.job, arrived)
	if !req.stream {
		s.whole(ctx, st)
		return
	}
	var err error
	switch s.profile.LateHeaders {
	case AtAdmission:
		err = st.await(isAdmitted)
	case WithFirstToken:
		err = st.await(isDue)
	}
	if err == errGone {
		_ = st.CloseWithError(err)
		ctx.SetConnectionClose()
		return
	}
	st.written = s.sched.now() // the header: silence counts from here
	s.streamHeader(ctx)
	ctx.Response.ImmediateHeaderFlush = true
	ctx.SetBodyStream(st, -1)
}

// whole runs a request that does not stream to its end.
func (s *Server) whole(ctx *fasthttp.RequestCtx, st *stream) {
	for !st.ended {
		err := st.await(isDue)
		if err == nil {
			err = st.step()
		}
		if err == errPing {
			continue
		}
		if err != nil {
			_ = st.CloseWithError(err)
			ctx.SetConnectionClose()
			s.refuse(ctx, &fault{status: 500, kind: "InternalServerError", message: "request aborted"})
			return
		}
		st.written = s.sched.now()
	}
	if st.faulted {
		s.refuse(ctx, &fault{status: 500, kind: "InternalServerError", message: st.fault.Message})
		return
	}
	st.handOver(piece{tokens: st.reply.made()})
	st.job.log.edit(func(r *Request) { st.reply.cached = r.Cached })
	st.reply.reset()
	s.json(ctx, string(st.shape.whole(st.reply)))
}

// tokenize counts a prompt and hashes its prefixes.
func (s *Server) tokenize(req *request) (int, []uint64) {
	if req.ids == nil {
		tokens, prefixes := s.profile.Tokenizer.blocks(req.prompt, s.profile.BlockSize)
		if req.salt != "" {
			salt := hash(fnvOffset, req.salt)
			for i := range prefixes {
				prefixes[i] ^= salt
			}
		}
		return tokens, prefixes
	}
	h := hash(fnvOffset, req.salt)
	var prefixes []uint64
	for i, id := range req.ids {
		h = (h ^ uint64(id)) * fnvPrime
		if (i+1)%s.profile.BlockSize == 0 {
			prefixes = append(prefixes, h)
		}
	}
	return len(req.ids), prefixes
}

// seed is a number for a request's text: of its prompt and of how often that
// prompt came before, not of the order in which requests arrive.
func (s *Server) seed(req *request) uint64 {
	h := hash(fnvOffset, req.prompt)
	for _, id := range req.ids {
		h = (h ^ uint64(id)) * fnvPrime
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompts[h]++
	return (h ^ s.options.Seed*fnvPrime) + s.prompts[h]
}

func hexID(seed uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], seed*fnvPrime)
	return hex.EncodeToString(b[:])
}

// chooseLoops draws the loops of a stream's choices at its first token, when
// the load that it runs under is known, and returns the rule.
func (s *Server) chooseLoops(st *stream, load int) *LoopRule {
	for i := range s.profile.Loops {
		rule := &s.profile.Loops[i]
		if !rule.matches(st.job.prompt, load) {
			continue
		}
		perToken := s.profile.Speed.TBT.At(st.job.prompt, load)
		for k := range st.reply.choices {
			p := st.reply.choices[k].prose
			if p.rng.Float64() >= rule.Share {
				continue
			}
			wait := float64(rule.OnsetMin) + p.rng.Float64()*float64(rule.OnsetMax-rule.OnsetMin)
			onset := min(1+int(wait/perToken), maxOnset)
			p.loop(onset, rule.PeriodMin+p.rng.IntN(rule.PeriodMax-rule.PeriodMin+1))
		}
		first := st.reply.choices[0].prose
		st.job.log.edit(func(r *Request) {
			if r.LoopToken = first.loopAt; first.loopAt >= 0 {
				for _, t := range first.phrase {
					r.LoopPeriod += len(vocabulary[t])
				}
			}
		})
		return rule
	}
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

// replyID is the id on a reply's chunks.
func (s *Server) replyID(id string, chat bool) string {
	switch {
	case s.profile.Dialect == SGLang:
		return id
	case chat || s.profile.Dialect == LlamaCPP:
		return "chatcmpl-" + id
	}
	return "cmpl-" + id
}

// replyModel is the model a reply names: SGLang echoes the request's.
func (s *Server) replyModel(req *request) string {
	if s.profile.Dialect == SGLang && req.model != "" {
		return req.model
	}
	return s.profile.Model
}

func (s *Server) streamHeader(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	if s.profile.Dialect == LlamaCPP {
		h.SetContentType("text/event-stream")
		h.Set("X-Accel-Buffering", "no")
		return
	}
	h.SetContentType("text/event-stream; charset=utf-8")
}
