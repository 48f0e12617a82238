package sim

import (
	"fmt"
	"strings"

	"github.com/valyala/fastjson"
)

// request is a completion request as the engine understood it.
type request struct {
	chat   bool
	model  string
	prompt string // chat: the rendered template
	ids    []int  // prompt given as token ids
	rid    string // rid (SGLang), request_id (vLLM)
	salt   string

	stream          bool
	includeUsage    bool
	continuousUsage bool
	tokenIDs        bool
	logprobs        bool
	topLogprobs     int
	timings         bool
	progress        bool
	noCache         bool
	ignoreEOS       bool

	n         int
	minTokens int
	maxTokens int // 0 = as many as fit
}

// maxChoices bounds n.
const maxChoices = 64

// fault is a request that the engine refuses.
type fault struct {
	status  int
	message string
	kind    string
	param   string
	extra   string // further JSON members, ",…"
}

func (f *fault) Error() string { return fmt.Sprintf("%d %s", f.status, f.message) }

// render is the chat template: every role and mark is made of whole tokens, so
// that /tokenize of the rendered text counts what the chat endpoint counts.
func render(messages []*fastjson.Value) (string, bool) {
	var b strings.Builder
	for _, m := range messages {
		if m.Type() != fastjson.TypeObject {
			return "", false
		}
		b.WriteString("<")
		b.Write(m.GetStringBytes("role"))
		b.WriteString(">\n")
		content := m.Get("content")
		switch {
		case content == nil || content.Type() == fastjson.TypeNull:
		case content.Type() == fastjson.TypeString:
			b.Write(content.GetStringBytes())
		default:
			for _, part := range content.GetArray() {
				b.Write(part.GetStringBytes("text"))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("<assistant>\n")
	return b.String(), true
}

// parse reads a request body.
func parse(p *fastjson.Parser, body []byte, chat bool) (*request, *fault) {
	v, err := p.ParseBytes(body)
	if err != nil || v.Type() != fastjson.TypeObject {
		return nil, &fault{status: 400, kind: "Bad Request", param: fmt.Sprintf("body.%d", len(body)),
			message: fmt.Sprintf("1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.%d', 'msg': 'JSON decode error'}", len(body))}
	}
	r := &request{
		chat:            chat,
		model:           string(v.GetStringBytes("model")),
		rid:             string(v.GetStringBytes("rid")),
		salt:            string(v.GetStringBytes("cache_salt")),
		stream:          v.GetBool("stream"),
		includeUsage:    v.GetBool("stream_options", "include_usage"),
		continuousUsage: v.GetBool("stream_options", "continuous_usage_stats"),
		tokenIDs:        v.GetBool("return_token_ids"),
		logprobs:        v.GetBool("logprobs"),
		timings:         v.GetBool("timings_per_token"),
		progress:        v.GetBool("return_progress"),
		ignoreEOS:       v.GetBool("ignore_eos"),
		noCache:         v.Exists("cache_prompt") && !v.GetBool("cache_prompt"),
		n:               min(max(1, v.GetInt("n")), maxChoices),
		minTokens:       max(0, v.GetInt("min_tokens")),
		maxTokens:       max(0, v.GetInt("max_tokens")),
	}
	if r.rid == "" {
		r.rid = string(v.GetStringBytes("request_id"))
	}
	r.topLogprobs = v.GetInt("top_logprobs")
	if !chat {
		r.topLogprobs = v.GetInt("logprobs")
		r.logprobs = v.Exists("logprobs") && v.Get("logprobs").Type() != fastjson.TypeNull
	}
	for _, key := range []string{"max_completion_tokens", "n_predict"} {
		if n := v.GetInt(key); n > 0 {
			r.maxTokens = n
		}
	}
	if chat {
		messages := v.Get("messages")
		if messages == nil {
			return nil, missing("messages")
		}
		text, ok := render(messages.GetArray())
		if messages.Type() != fastjson.TypeArray || !ok {
			return nil, &fault{status: 400, kind: "Bad Request", param: "body.messages",
				message: "1 validation error:\n  {'type': 'list_type', 'loc': 'body.messages', 'msg': 'Input should be a valid list'}"}
		}
		r.prompt = text
		return r, nil
	}
	prompt := v.Get("prompt")
	if prompt == nil {
		return nil, missing("prompt")
	}
	if prompt.Type() == fastjson.TypeString {
		r.prompt = string(prompt.GetStringBytes())
		return r, nil
	}
	for _, x := range prompt.GetArray() {
		switch x.Type() {
		case fastjson.TypeNumber:
			r.ids = append(r.ids, x.GetInt())
		case fastjson.TypeString:
			r.prompt += string(x.GetStringBytes())
		}
	}
	return r, nil
}

func missing(field string) *fault {
	return &fault{status: 400, kind: "Bad Request", param: "body." + field,
		message: fmt.Sprintf("1 validation error:\n  {'type': 'missing', 'loc': 'body.%s', 'msg': 'Field required'}", field)}
}
