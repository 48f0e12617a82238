package engine

import (
	"bytes"
	"strings"

	"github.com/valyala/fastjson"
)

// ErrorText returns the message of an error body, whatever its shape:
//
//	{"error":{"message":…}}           OpenAI, vLLM, llama.cpp
//	{"object":"error","message":…}    SGLang, LMDeploy
//	{"error":"text"}                  Ollama, TGI
//	{"detail":"text"}, {"detail":[{"loc":[…],"msg":…}]}   FastAPI
//
// or the text of a body that is no JSON; "" for a page. It may quote the request
// and secrets: pass it through a Redactor before it is shown.
func ErrorText(body []byte) string {
	body = bytes.TrimSpace(body)
	v, err := fastjson.ParseBytes(body)
	if err != nil {
		if len(body) > 0 && body[0] == '<' {
			return ""
		}
		return strings.ToValidUTF8(string(body[:min(len(body), 4*maxQuoted)]), "\uFFFD")
	}
	for _, path := range [][]string{{"error", "message"}, {"message"}, {"error"}, {"detail"}} {
		if s := v.GetStringBytes(path...); len(s) > 0 {
			return string(s)
		}
	}
	var parts []string
	for _, d := range v.GetArray("detail") {
		var loc []string
		for _, l := range d.GetArray("loc") {
			loc = append(loc, strings.Trim(l.String(), `"`))
		}
		parts = append(parts, strings.Join(loc, ".")+": "+string(d.GetStringBytes("msg")))
	}
	return strings.Join(parts, "; ")
}

// overflowSigns are what engines write when a prompt, or prompt and max_tokens,
// exceed the model's context. testdata holds the sentences they come from.
var overflowSigns = []string{
	"maximum context length",                 // vLLM, OpenAI
	"cannot be greater than max_model_len",   // vLLM: max_tokens alone
	"longer than the model's context length", // SGLang
	"exceed_context_size_error",              // llama.cpp
	"exceeds the available context size",     // llama.cpp
	"context_length_exceeded",                // OpenAI's code
}

// ContextOverflow reports whether an answer refuses a request for its length:
// the cell is then over capacity by the model's limit, not failed.
func ContextOverflow(status int, body []byte) bool {
	if status != 400 && status != 413 && status != 422 {
		return false
	}
	for _, sign := range overflowSigns {
		if bytes.Contains(body, []byte(sign)) {
			return true
		}
	}
	return false
}
