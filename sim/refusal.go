package sim

import (
	"fmt"
	"strconv"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"
)

// strict refuses a body that has a key of Options.Refuse.
func (s *Server) strict(p *fastjson.Parser, body []byte) *fault {
	if len(s.options.Refuse) == 0 {
		return nil
	}
	v, err := p.ParseBytes(body)
	if err != nil {
		return nil // parse will say so
	}
	for _, key := range s.options.Refuse {
		if !v.Exists(key) && !v.Exists("stream_options", key) {
			continue
		}
		if s.options.RefuseStatus == fasthttp.StatusUnprocessableEntity {
			return &fault{status: s.options.RefuseStatus, param: key, message: "Extra inputs are not permitted"}
		}
		return &fault{status: fasthttp.StatusBadRequest, kind: "invalid_request_error",
			message: "Unrecognized request argument supplied: " + key}
	}
	return nil
}

// limit returns how many tokens may be generated, or why the request does not
// fit the model's context, in the engine's own words.
func (s *Server) limit(req *request, prompt int) (int, *fault) {
	if f := s.checkModel(req); f != nil {
		return 0, f
	}
	most := s.profile.MaxModelLen
	bad := func(kind, message string, args ...any) *fault {
		return &fault{status: fasthttp.StatusBadRequest, kind: kind, message: fmt.Sprintf(message, args...)}
	}
	want := req.maxTokens
	switch s.profile.Dialect {
	case SGLang:
		if req.chat && req.stream && req.tokenIDs {
			return 0, bad("BadRequest", "return_token_ids is not supported with streaming on /v1/chat/completions. Please set stream=false when using return_token_ids=true.")
		}
		if prompt >= most {
			return 0, bad("BadRequestError", "The input (%d tokens) is longer than the model's context length (%d tokens).", prompt, most)
		}
		if prompt+want > most {
			return 0, bad("BadRequestError", "Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.", most, prompt+want, prompt, want)
		}
	case LlamaCPP:
		if prompt >= most {
			f := bad("exceed_context_size_error", "request (%d tokens) exceeds the available context size (%d tokens), try increasing it", prompt, most)
			f.extra = fmt.Sprintf(`,"n_prompt_tokens":%d,"n_ctx":%d`, prompt, most)
			return 0, f
		}
		want = min(want, most-prompt) // the slot is full then: finish_reason length
	default:
		if want > most {
			f := bad("BadRequestError", "max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output tokens. (parameter=max_tokens, value=%d)", want, most, want)
			f.param = "max_tokens"
			return 0, f
		}
		if prompt >= most {
			f := bad("BadRequestError", "This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%d)", most, most+1, most+1)
			f.param = "input_tokens"
			return 0, f
		}
		if prompt+want > most {
			return 0, bad("BadRequestError", "This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion). Please reduce the length of the messages or completion.", most, prompt+want, prompt, want)
		}
	}
	if blocks := s.profile.KVTokens / s.profile.BlockSize; (prompt+req.n)/s.profile.BlockSize >= blocks {
		return 0, bad("BadRequestError", "The prompt of %d tokens does not fit the KV cache of %d tokens.", prompt, s.profile.KVTokens)
	}
	if want == 0 {
		want = most - prompt
	}
	return want, nil
}

// checkModel: vLLM alone minds the model's name.
func (s *Server) checkModel(req *request) *fault {
	if s.profile.Dialect != VLLM || req.model == "" || req.model == s.profile.Model {
		return nil
	}
	return &fault{status: fasthttp.StatusNotFound, kind: "NotFoundError", param: "model",
		message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", req.model, s.profile.Model)}
}

// refuse answers with an error in the dialect's shape.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, f *fault) {
	var b []byte
	switch {
	case f.status == fasthttp.StatusUnprocessableEntity:
		b = append(b, `{"detail":[{"type":"extra_forbidden","loc":["body",`...)
		b = appendQuoted(b, f.param)
		b = append(b, `],"msg":`...)
		b = appendQuoted(b, f.message)
		b = append(b, `}]}`...)
	case s.profile.Dialect == SGLang:
		b = append(b, `{"object":"error","message":`...)
		b = appendQuoted(b, f.message)
		b = append(b, `,"type":`...)
		b = appendQuoted(b, f.kind)
		b = append(b, `,"param":null,"code":`...)
		b = strconv.AppendInt(b, int64(f.status), 10)
		b = append(b, '}')
	case s.profile.Dialect == LlamaCPP:
		if f.kind == "Bad Request" {
			f.kind = "invalid_request_error"
		}
		b = append(b, `{"error":{"code":`...)
		b = strconv.AppendInt(b, int64(f.status), 10)
		b = append(b, `,"message":`...)
		b = appendQuoted(b, f.message)
		b = append(b, `,"type":`...)
		b = appendQuoted(b, f.kind)
		b = append(b, f.extra...)
		b = append(b, `}}`...)
	default:
		b = append(b, `{"error":{"message":`...)
		b = appendQuoted(b, f.message)
		b = append(b, `,"type":`...)
		b = appendQuoted(b, f.kind)
		b = append(b, `,"param":`...)
		if f.param == "" {
			b = append(b, "null"...)
		} else {
			b = appendQuoted(b, f.param)
		}
		b = append(b, `,"code":`...)
		b = strconv.AppendInt(b, int64(f.status), 10)
		b = append(b, `}}`...)
	}
	ctx.SetStatusCode(f.status)
	if s.profile.Dialect == LlamaCPP {
		ctx.SetContentType("application/json; charset=utf-8")
		ctx.SetConnectionClose()
	} else {
		ctx.SetContentType("application/json")
	}
	ctx.SetBody(b)
}
