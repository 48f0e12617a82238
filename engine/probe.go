package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"
)

// probe is one Probe under way.
type probe struct {
	*call
	info   Info
	cards  []card
	series []Series // of /metrics; nil when there is none
}

// card is one entry of /v1/models.
type card struct {
	id      string
	aliases []string
	owner   string
	parent  string // of a LoRA adapter: its base
	maxLen  int
}

// Probe asks a server what it is. model "" takes the only one it serves. What
// could not be learned stays 0 without an error; an *Error means the server
// cannot be measured: not there, not OpenAI-compatible, not ready, or without
// that model.
func Probe(ctx context.Context, t *Target, model string) (Info, error) {
	p := &probe{call: t.open()}
	defer p.close()
	if err := p.models(ctx); err != nil {
		return Info{}, err
	}
	p.series, _ = p.metrics(ctx)
	source := ""
	p.info.Kind, source = p.identify(ctx)
	p.fact("engine", string(p.info.Kind), source)
	if err := p.choose(model); err != nil {
		return p.info, err
	}
	switch p.info.Kind {
	case VLLM:
		p.vllm(ctx)
	case SGLang:
		p.sglang(ctx)
	case LlamaCPP:
		p.llamacpp(ctx)
	default:
		// The metrics may be of a family we know though the server is not.
		p.kv(vllmKV(p.series))
		p.kv(sglangKV(p.series))
	}
	p.cardLen()
	if err := p.gauges(ctx); err != nil {
		return p.info, err
	}
	return p.info, context.Cause(ctx)
}

// models reads /v1/models, the one path every OpenAI-compatible server has.
func (p *probe) models(ctx context.Context) error {
	a, err := p.get(ctx, "/v1/models")
	if err != nil {
		return err
	}
	if f := p.fault(a); f != nil {
		return f
	}
	v := a.json()
	if v == nil || v.Get("data") == nil || v.Get("data").Type() != fastjson.TypeArray {
		return &Error{Kind: NotOpenAI, Status: a.status, Message: a.address + " does not list models: no OpenAI-compatible server is at this address"}
	}
	for _, d := range v.GetArray("data") {
		c := card{
			id:     string(d.GetStringBytes("id")),
			owner:  string(d.GetStringBytes("owned_by")),
			parent: string(d.GetStringBytes("parent")),
			maxLen: d.GetInt("max_model_len"),
		}
		for _, alias := range d.GetArray("aliases") {
			c.aliases = append(c.aliases, string(alias.GetStringBytes()))
		}
		if c.id != "" && printable(c.id) == c.id { // else no name, but an attack on who prints it
			p.cards = append(p.cards, c)
			p.info.Models = append(p.info.Models, c.id)
		}
	}
	return nil
}

// identify tells the engine and why. owned_by is the engines' default, and
// gateways put anything there, so the engines' own paths are asked when it does
// not speak. /version alone proves nothing: TensorRT-LLM has it too.
func (p *probe) identify(ctx context.Context) (Kind, string) {
	for _, c := range p.cards {
		switch kind := Kind(c.owner); kind {
		case VLLM, SGLang, LlamaCPP:
			return kind, "/v1/models owned_by " + c.owner
		}
	}
	if v := p.look(ctx, "/props"); v != nil && v.Get("default_generation_settings") != nil && v.Get("total_slots") != nil {
		return LlamaCPP, "/props default_generation_settings"
	}
	for _, path := range []string{"/server_info", "/get_server_info"} {
		v := p.look(ctx, path)
		if v == nil {
			continue
		}
		if v.Get("max_total_num_tokens") != nil {
			return SGLang, path + " max_total_num_tokens"
		}
		if v.Get("vllm_config") != nil {
			return VLLM, path + " vllm_config"
		}
	}
	if dialectOf(p.series) == &vllmMetrics {
		if v := p.look(ctx, "/version"); v != nil && len(v.GetStringBytes("version")) > 0 {
			return VLLM, "/version, and /metrics with vllm: names"
		}
	}
	return Unknown, "no path of an engine we know answered"
}

// choose sets the model to measure.
func (p *probe) choose(model string) error {
	list := strings.Join(p.info.Models, ", ")
	switch {
	case len(p.cards) == 0:
		return &Error{Kind: NoModel, Message: fmt.Sprintf("%s serves no model", p.t)}
	case model == "" && len(p.cards) > 1:
		return &Error{Kind: NoModel, Message: fmt.Sprintf("%s serves %d models, choose one with --model: %s", p.t, len(p.cards), list)}
	case model == "":
		p.info.Model = p.cards[0].id
		p.fact("model", p.info.Model, "/v1/models, the only one")
		return nil
	}
	for _, c := range p.cards {
		if c.id == model || slices.Contains(c.aliases, model) {
			p.info.Model = model
			p.fact("model", model, "chosen, and in /v1/models")
			return nil
		}
	}
	return &Error{Kind: NoModel, Message: fmt.Sprintf("%s does not serve the model %q; it serves: %s", p.t, model, list)}
}

// cardLen takes the model's length from its card, or from that of its base.
func (p *probe) cardLen() {
	name := p.info.Model
	for range 2 {
		for _, c := range p.cards {
			if c.id != name && !slices.Contains(c.aliases, name) {
				continue
			}
			if c.maxLen > 0 {
				p.maxLen(c.maxLen, "/v1/models max_model_len of "+c.id)
				return
			}
			name = c.parent
			break
		}
	}
}

// gauges finds out whether the server tells how many requests run.
func (p *probe) gauges(ctx context.Context) error {
	s := NewScraper(p.t, p.info.Kind)
	defer s.Close()
	sample, err := s.Scrape(ctx)
	if err != nil {
		p.fact("gauges", "none", err.Error())
		// A wrong --engine-metrics is a mistake, a server without metrics is not.
		if p.t.MetricsURL != "" {
			return err
		}
		return nil
	}
	p.info.HasMetrics = !math.IsNaN(sample.Running)
	p.fact("gauges", "yes", s.Source())
	return nil
}

// tokenizer sends a sample to /tokenize and looks for the key of its count.
func (p *probe) tokenizer(ctx context.Context, body, key string) {
	ctx, cancel := context.WithTimeout(ctx, introspectionWait)
	defer cancel()
	a, err := p.post(ctx, "/tokenize", []byte(body))
	if err != nil || !a.ok() {
		return
	}
	if v := a.json(); v != nil && v.Get(key) != nil {
		p.info.HasTokenize = true
		p.fact("tokenize", "yes", "POST /tokenize")
	}
}

// fact keeps a fact; the server's words may hold secrets.
func (p *probe) fact(name, value, source string) {
	p.info.Facts = append(p.info.Facts, Fact{name, printable(p.red.String(value)), printable(p.red.String(source))})
}

func (p *probe) number(name string, n int, source string) { p.fact(name, strconv.Itoa(n), source) }

// The setters keep the first value: callers ask the best source first.

func (p *probe) version(v, source string) {
	if p.info.Version == "" && v != "" {
		p.info.Version = printable(p.red.String(v))
		p.fact("version", v, source)
	}
}

func (p *probe) kv(n int, source string) {
	if p.info.KVTokens == 0 && n > 0 {
		p.info.KVTokens = n
		p.number("kv_tokens", n, source)
	}
}

func (p *probe) maxLen(n int, source string) {
	if p.info.MaxModelLen == 0 && n > 0 {
		p.info.MaxModelLen = n
		p.number("max_model_len", n, source)
	}
}

func (p *probe) maxRunning(n int, source string) {
	if p.info.MaxRunning == 0 && n > 0 {
		p.info.MaxRunning = n
		p.number("max_running", n, source)
	}
}

// quote is a string as JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		panic(err)
	}
	return string(b)
}

func queryEscape(s string) string { return url.QueryEscape(s) }
