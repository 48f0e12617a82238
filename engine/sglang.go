package engine

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"github.com/valyala/fastjson"
)

// sglang collects what an SGLang server tells of itself. /server_info holds the
// server's own keys among its 400 fields: single values are taken out, the rest
// is dropped.
func (p *probe) sglang(ctx context.Context) {
	path := "/server_info"
	info := p.look(ctx, path)
	if info == nil || info.Get("max_total_num_tokens") == nil {
		// The old name still answers, but each call logs a warning there.
		path = "/get_server_info"
		info = p.look(ctx, path)
	}
	if info != nil {
		p.version(string(info.GetStringBytes("version")), path)
		ranks := max(info.GetInt("dp_size"), 1)
		if n := info.GetInt("max_total_num_tokens"); n > 0 {
			p.kv(n*ranks, dpSource(path+" max_total_num_tokens", ranks))
		}
		if n := sglangRunning(info, ranks); n > 0 {
			p.maxRunning(n, path+" effective_max_running_requests_per_dp, all DP ranks")
		} else if n := info.GetInt("max_running_requests"); n > 0 {
			p.maxRunning(n, path+" max_running_requests, as configured")
		}
	}
	if v := p.look(ctx, "/v1/loads"); v != nil {
		p.version(string(v.GetStringBytes("version")), "/v1/loads")
		var tokens, running int
		loads := v.GetArray("loads")
		for _, l := range loads {
			tokens += l.GetInt("max_total_num_tokens")
			running += l.GetInt("max_running_requests")
		}
		p.kv(tokens, dpSource("/v1/loads max_total_num_tokens", len(loads)))
		p.maxRunning(running, "/v1/loads max_running_requests")
	}
	n, source := sglangKV(p.series)
	p.kv(n, source)
	p.tokenizer(ctx, `{"model":`+quote(p.info.Model)+`,"prompt":"a"}`, "count")
	p.info.CanAbort = true
	p.fact("abort", "yes", "POST /abort_request is part of SGLang")
}

func dpSource(source string, ranks int) string {
	if ranks > 1 {
		return fmt.Sprintf("%s, sum of %d DP ranks", source, ranks)
	}
	return source
}

// sglangRunning is the number of requests that may run at once over all DP
// ranks, 0 when /server_info does not tell. Its list of internal states has one
// entry a DP rank, or a single one for all of them.
func sglangRunning(info *fastjson.Value, ranks int) int {
	states := info.GetArray("internal_states")
	total := 0
	for _, s := range states {
		total += s.GetInt("effective_max_running_requests_per_dp")
	}
	if len(states) == 1 {
		total *= ranks
	}
	return total
}

// sglangKV is the KV capacity of sglang:max_total_num_tokens: the sum over DP
// ranks, one TP rank of each.
func sglangKV(all []Series) (tokens int, source string) {
	ranks := sglangMetrics.ranksOf(all, "sglang:max_total_num_tokens")
	total := 0.0
	for _, v := range ranks {
		total += v
	}
	if !(total > 0 && total < 1<<53) {
		return 0, ""
	}
	return int(total), dpSource("/metrics sglang:max_total_num_tokens", len(ranks))
}

// sglangLoads samples /v1/loads, which works without --enable-metrics.
func sglangLoads(ctx context.Context, c *call) (Sample, error) {
	a, err := c.get(ctx, "/v1/loads")
	if err != nil {
		return Unknowns(), err
	}
	if f := c.fault(a); f != nil {
		return Unknowns(), f
	}
	v := a.json()
	if v == nil || len(v.GetArray("loads")) == 0 {
		return Unknowns(), &Error{Kind: BadAnswer, Status: a.status, Message: a.address + " lists no loads"}
	}
	loads := v.GetArray("loads")
	s := Unknowns()
	s.Running, s.Waiting, s.KVUsage = 0, 0, 0
	for _, l := range loads {
		s.Running += number(l, "num_running_reqs")
		s.Waiting += number(l, "num_waiting_reqs")
		s.KVUsage += number(l, "token_usage") / float64(len(loads))
	}
	if math.IsNaN(s.Running) {
		return Unknowns(), &Error{Kind: BadAnswer, Status: a.status, Message: a.address + " does not tell num_running_reqs"}
	}
	return s, nil
}

// Abort ends the request that was sent with this rid. SGLang frees a slot about
// two seconds after its client left, and sometimes never; this is at once.
func Abort(ctx context.Context, t *Target, rid string) error {
	c := t.open()
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, introspectionWait)
	defer cancel()
	a, err := c.post(ctx, "/abort_request", []byte(`{"rid":`+quote(rid)+`}`))
	if err != nil {
		return err
	}
	if a.status == http.StatusOK {
		return nil
	}
	if f := c.fault(a); f != nil {
		return f
	}
	return nil
}
