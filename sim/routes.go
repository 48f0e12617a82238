package sim

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"
)

func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	switch s.profile.Dialect {
	case LlamaCPP:
		h.Set("Access-Control-Allow-Origin", "")
		h.Set("Keep-Alive", "timeout=5, max=100")
	default:
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
		h.Set("Vary", "Origin")
	}
	path := string(ctx.Path())
	if !s.authorized(ctx, path) {
		return
	}
	if path == "/sim/truth" {
		ctx.SetContentType("application/json")
		_ = s.Truth().WriteJSON(ctx)
		return
	}
	if !s.route(ctx, path) {
		s.unknown(ctx)
	}
}

// route answers a path that the dialect's engine has.
func (s *Server) route(ctx *fasthttp.RequestCtx, path string) bool {
	post, d := ctx.IsPost(), s.profile.Dialect
	switch path {
	case "/v1/chat/completions", "/v1/completions", "/tokenize":
		switch {
		case post && path == "/tokenize":
			s.tokenizeText(ctx)
		case post:
			s.complete(ctx, path == "/v1/chat/completions")
		case d == LlamaCPP:
			return false
		default:
			ctx.Response.Header.Set("Allow", "POST")
			ctx.SetStatusCode(fasthttp.StatusMethodNotAllowed)
			s.json(ctx, `{"detail":"Method Not Allowed"}`)
		}
	case "/v1/models":
		s.models(ctx)
	case "/metrics":
		ctx.SetContentType("text/plain; version=0.0.4; charset=utf-8")
		ctx.SetBody(s.metrics(nil))
	case "/health":
		if d == LlamaCPP {
			s.json(ctx, `{"status":"ok"}`)
		}
	default:
		switch d {
		case VLLM:
			return s.routeVLLM(ctx, path)
		case SGLang:
			return s.routeSGLang(ctx, path, post)
		default:
			return s.routeLlama(ctx, path, post)
		}
	}
	return true
}

func (s *Server) routeVLLM(ctx *fasthttp.RequestCtx, path string) bool {
	switch path {
	case "/version":
		s.json(ctx, fmt.Sprintf(`{"version":%s}`, quote(s.profile.Version)))
	case "/ping":
	case "/load":
		s.json(ctx, `{"server_load":0}`) // load tracking is off by default
	default:
		return false
	}
	return true
}

func (s *Server) routeSGLang(ctx *fasthttp.RequestCtx, path string, post bool) bool {
	st := s.sched.status()
	p := s.profile
	used := st.usedBlocks * p.BlockSize
	usage := float64(st.usedBlocks) / float64(st.blocks)
	switch path {
	case "/server_info", "/get_server_info":
		s.json(ctx, fmt.Sprintf(`{"model_path":%s,"served_model_name":%s,"context_length":%d,"max_running_requests":%d,"page_size":%d,"tp_size":1,"dp_size":1,"stream_interval":1,"api_key":null,"status":"ready","max_total_num_tokens":%d,"max_req_input_len":%d,"internal_states":[{"effective_max_running_requests_per_dp":%d,"memory_usage":{"token_capacity":%d}}],"version":%s}`,
			quote(p.Root), quote(p.Model), p.MaxModelLen, p.MaxRunning, p.BlockSize, p.KVTokens, p.MaxModelLen-6, p.MaxRunning, p.KVTokens, quote(p.Version)))
	case "/v1/loads":
		s.json(ctx, fmt.Sprintf(`{"timestamp":%s,"version":%s,"accelerator":null,"num_accelerators":1,"loads":[{"dp_rank":0,"num_running_reqs":%d,"num_waiting_reqs":%d,"num_used_tokens":%d,"num_total_tokens":%d,"max_total_num_tokens":%d,"max_running_requests":%d,"token_usage":%.4f,"memory":{"token_capacity":%d},"queues":{"waiting":%d,"grammar":0,"paused":0,"retracted":0}}]}`,
			quote(time.Now().UTC().Format(time.RFC3339Nano)), quote(p.Version), st.running, st.waiting, used, used, p.KVTokens, p.MaxRunning, usage, p.KVTokens, st.waiting))
	case "/model_info", "/get_model_info":
		s.json(ctx, fmt.Sprintf(`{"model_path":%s,"served_model_name":%s,"tokenizer_path":%s,"is_generation":true,"weight_version":"default"}`, quote(p.Root), quote(p.Model), quote(p.Root)))
	case "/abort_request":
		if !post {
			return false
		}
		s.abortRequest(ctx)
	case "/flush_cache":
		if !s.sched.flush() {
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
		}
		ctx.Response.Header.SetNoDefaultContentType(true)
		ctx.SetBodyString("Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n")
	default:
		return false
	}
	return true
}

func (s *Server) routeLlama(ctx *fasthttp.RequestCtx, path string, post bool) bool {
	p := s.profile
	switch path {
	case "/props":
		s.json(ctx, fmt.Sprintf(`{"default_generation_settings":{"params":{"n_predict":-1,"ignore_eos":false,"stream":false},"n_ctx":%d},"total_slots":%d,"model_alias":%s,"model_path":%s,"modalities":{"vision":false,"audio":false},"endpoint_slots":true,"endpoint_props":false,"endpoint_metrics":true,"chat_template":"{%% for m in messages %%}<{{ m['role'] }}>\n{{ m['content'] }}\n{%% endfor %%}<assistant>\n","build_info":%s,"is_sleeping":false}`,
			p.MaxModelLen, p.MaxRunning, quote(p.Model), quote(p.Root), quote(p.Version)))
	case "/slots":
		s.slots(ctx)
	case "/apply-template", "/v1/chat/completions/input_tokens":
		if !post {
			return false
		}
		parser := s.parsers.Get()
		defer s.parsers.Put(parser)
		req, f := parse(parser, ctx.PostBody(), true)
		if f != nil {
			s.refuse(ctx, f)
			return true
		}
		if path == "/apply-template" {
			s.json(ctx, string(append(appendQuoted([]byte(`{"prompt":`), req.prompt), '}')))
			return true
		}
		tokens, _ := s.tokenize(req)
		s.json(ctx, fmt.Sprintf(`{"input_tokens":%d,"object":"response.input_tokens"}`, tokens))
	default:
		return false
	}
	return true
}

func (s *Server) json(ctx *fasthttp.RequestCtx, body string) {
	if s.profile.Dialect == LlamaCPP {
		ctx.SetContentType("application/json; charset=utf-8")
	} else {
		ctx.SetContentType("application/json")
	}
	ctx.SetBodyString(body)
}

func (s *Server) unknown(ctx *fasthttp.RequestCtx) {
	ctx.SetStatusCode(fasthttp.StatusNotFound)
	if s.profile.Dialect == LlamaCPP {
		s.json(ctx, `{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`)
		ctx.SetConnectionClose()
		return
	}
	s.json(ctx, `{"detail":"Not Found"}`)
}

// authorized checks the bearer key where the dialect's engine asks for it:
// vLLM on /v1 alone, the others nearly everywhere.
func (s *Server) authorized(ctx *fasthttp.RequestCtx, path string) bool {
	if s.options.APIKey == "" || string(ctx.Request.Header.Peek("Authorization")) == "Bearer "+s.options.APIKey {
		return true
	}
	open := false
	switch s.profile.Dialect {
	case VLLM:
		open = !strings.HasPrefix(path, "/v1/")
	case SGLang:
		open = path == "/health" || path == "/metrics"
	case LlamaCPP:
		open = path == "/health" || path == "/v1/models"
	}
	if open {
		return true
	}
	ctx.SetStatusCode(fasthttp.StatusUnauthorized)
	if s.profile.Dialect == LlamaCPP {
		s.json(ctx, `{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`)
	} else {
		s.json(ctx, `{"error":"Unauthorized"}`)
	}
	return false
}

func (s *Server) models(ctx *fasthttp.RequestCtx) {
	p := s.profile
	created := s.sched.start.Unix()
	switch p.Dialect {
	case SGLang:
		s.json(ctx, fmt.Sprintf(`{"object":"list","data":[{"id":%s,"object":"model","created":%d,"owned_by":"sglang","root":%s,"parent":null,"max_model_len":%d}]}`, quote(p.Model), created, quote(p.Model), p.MaxModelLen))
	case LlamaCPP:
		s.json(ctx, fmt.Sprintf(`{"models":[{"name":%s,"model":%s,"modified_at":"","size":"","digest":"","type":"model","description":"","tags":[""],"capabilities":["completion"],"parameters":"","details":{"parent_model":"","format":"gguf","family":"","families":[""],"parameter_size":"","quantization_level":""}}],"object":"list","data":[{"id":%s,"aliases":[%s],"tags":[],"object":"model","created":%d,"owned_by":"llamacpp","meta":{"vocab_type":2,"n_vocab":%d,"n_ctx":%d,"n_ctx_train":%d,"n_embd":2048,"n_params":1000000000,"size":2000000000,"ftype":"F16"}}]}`,
			quote(p.Model), quote(p.Model), quote(p.Model), quote(p.Model), created, promptIDs+idRange, p.MaxModelLen, p.MaxModelLen))
	default:
		s.json(ctx, fmt.Sprintf(`{"object":"list","data":[{"id":%s,"object":"model","created":%d,"owned_by":"vllm","root":%s,"parent":null,"max_model_len":%d,"permission":[{"id":"modelperm-%s","object":"model_permission","created":%d,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]}]}`,
			quote(p.Model), created, quote(p.Root), p.MaxModelLen, hexID(hash(fnvOffset, p.Model)), created))
	}
}

// tokenizeText answers POST /tokenize: of a prompt, of chat messages (vLLM), of
// content (llama.cpp).
func (s *Server) tokenizeText(ctx *fasthttp.RequestCtx) {
	parser := s.parsers.Get()
	defer s.parsers.Put(parser)
	v, err := parser.ParseBytes(ctx.PostBody())
	if err != nil {
		s.refuse(ctx, &fault{status: fasthttp.StatusBadRequest, kind: "Bad Request", message: "JSON decode error"})
		return
	}
	var text string
	switch {
	case s.profile.Dialect == LlamaCPP:
		text = string(v.GetStringBytes("content"))
	case s.profile.Dialect == VLLM && v.Exists("messages"):
		text, _ = render(v.GetArray("messages"))
	default:
		text = string(v.GetStringBytes("prompt"))
	}
	var ids []token
	s.profile.Tokenizer.each(text, func(t string) { ids = append(ids, token{promptID(t), t}) })
	for range s.profile.Tokenizer.Extra {
		ids = append(ids, token{id: stopID})
	}
	list := make([]byte, 0, 7*len(ids)+2)
	list = append(list, '[')
	for i, id := range ids {
		if i > 0 {
			list = append(list, ',')
		}
		if v.GetBool("with_pieces") {
			list = append(list, `{"id":`...)
		}
		list = strconv.AppendInt(list, int64(id.id), 10)
		if v.GetBool("with_pieces") {
			list = append(list, `,"piece":`...)
			list = appendQuoted(list, id.text)
			list = append(list, '}')
		}
	}
	list = append(list, ']')
	switch s.profile.Dialect {
	case LlamaCPP:
		s.json(ctx, fmt.Sprintf(`{"tokens":%s}`, list))
	case SGLang:
		s.json(ctx, fmt.Sprintf(`{"tokens":%s,"count":%d,"max_model_len":%d}`, list, len(ids), s.profile.MaxModelLen))
	default:
		s.json(ctx, fmt.Sprintf(`{"count":%d,"max_model_len":%d,"tokens":%s,"token_strs":null}`, len(ids), s.profile.MaxModelLen, list))
	}
}

// token is a token of a prompt.
type token struct {
	id   int
	text string
}

// abortRequest answers SGLang's POST /abort_request {"rid":…} or {"abort_all":true}.
func (s *Server) abortRequest(ctx *fasthttp.RequestCtx) {
	v, err := fastjson.ParseBytes(ctx.PostBody())
	if err != nil {
		s.refuse(ctx, &fault{status: fasthttp.StatusBadRequest, kind: "Bad Request", message: "JSON decode error"})
		return
	}
	rid, all := string(v.GetStringBytes("rid")), v.GetBool("abort_all")
	s.sched.abort(Aborted, func(j *job) bool {
		return all || rid != "" && j.log.copy().RID == rid
	})
}

func (s *Server) slots(ctx *fasthttp.RequestCtx) {
	st := s.sched.status()
	b := []byte{'['}
	for i := range s.profile.MaxRunning {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"id":%d,"n_ctx":%d,"speculative":false,"is_processing":%t`, i, s.profile.MaxModelLen, i < st.running)
		if i < st.running {
			b = append(b, `,"next_token":[{"has_next_token":true,"n_remain":-1,"n_decoded":0}]`...)
		}
		b = append(b, '}')
	}
	s.json(ctx, string(append(b, ']')))
}
