package sim

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/valyala/fasthttp"
)

// complete answers a completion request.
func (s *Server) complete(ctx *fasthttp.RequestCtx, chat bool) {
	arrived := s.sched.now()
	st, f := s.accept(ctx, chat, arrived)
	if f != nil {
		s.refuse(ctx, f)
		return
	}
	if tracked, ok := ctx.Conn().(*conn); ok {
		tracked.last = st.reply.req.stream && s.profile.Dialect == LlamaCPP
		tracked.watch(st.leave)
	}
	s.sched.enter(st.job, arrived)
	if !st.reply.req.stream {
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
	if errors.Is(err, errGone) {
		_ = st.CloseWithError(err)
		ctx.SetConnectionClose()
		return
	}
	st.written = s.sched.now() // the header: silence counts from here
	s.streamHeader(ctx)
	ctx.Response.ImmediateHeaderFlush = true
	ctx.SetBodyStream(st, -1)
}

// accept reads a request, opens its entry in the log and prepares its stream,
// or says why it is refused.
func (s *Server) accept(ctx *fasthttp.RequestCtx, chat bool, arrived int64) (*stream, *fault) {
	parser := s.parsers.Get()
	defer s.parsers.Put(parser)
	if f := s.strict(parser, ctx.PostBody()); f != nil {
		return nil, f
	}
	req, f := parse(parser, ctx.PostBody(), chat)
	if f != nil {
		return nil, f
	}
	tokens, prefixes := s.tokenize(req)
	if req.tokenIDs && req.ids == nil {
		req.ids = s.profile.Tokenizer.ids(req.prompt)
	}
	seed := s.seed(req)
	id := string(ctx.Request.Header.Peek("X-Request-Id"))
	for _, other := range []string{req.rid, hexID(seed)} {
		if id == "" {
			id = other
		}
	}
	if req.rid == "" {
		req.rid = id
	}
	entry := s.sched.log.open(Request{
		ID: id, RID: req.rid, Model: req.model, Path: string(ctx.Path()), Stream: req.stream, Choices: req.n,
		Arrived: time.Duration(arrived), Prompt: tokens,
	})
	maxTokens, f := s.limit(req, tokens)
	if f != nil {
		s.sched.log.end(entry, time.Duration(arrived), Refused)
		return nil, f
	}
	st := &stream{
		srv:     s,
		written: -1,
		shape:   s.shape,
		job:     &job{log: entry, n: req.n, prompt: tokens, prefixes: prefixes, noCache: req.noCache, wake: make(chan struct{}, 1)},
		reply: &reply{
			req: req, id: s.replyID(id, chat), model: s.replyModel(req),
			created: time.Now().Unix(), prompt: tokens, report: s.profile.CacheReport,
			choices: newChoices(s.profile, req, seed, maxTokens),
		},
	}
	if s.options.Fault != nil {
		st.fault = s.options.Fault(entry.copy())
	}
	return st, nil
}

// whole runs a request that does not stream to its end.
func (s *Server) whole(ctx *fasthttp.RequestCtx, st *stream) {
	for !st.ended {
		err := st.await(isDue)
		if err == nil {
			err = st.step()
		}
		if err != nil {
			_ = st.CloseWithError(err)
			ctx.SetConnectionClose()
			s.refuse(ctx, &fault{status: fasthttp.StatusInternalServerError, kind: "InternalServerError", message: "request aborted"})
			return
		}
	}
	if st.faulted {
		s.refuse(ctx, &fault{status: fasthttp.StatusInternalServerError, kind: "InternalServerError", message: st.fault.Message})
		return
	}
	st.handOver(piece{tokens: st.reply.made()})
	st.reply.cached = st.job.log.copy().Cached
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
		st.job.log.edit(func(r *Request) { r.LoopToken = first.loopAt })
		return rule
	}
	return nil
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
