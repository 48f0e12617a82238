package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/streamgauge/streamgauge/matrix"
)

// reproduce is the command that runs the same plan again, line by line; empty
// for a file of another tool. Secrets and request bodies are not in a run file,
// so keys, headers and --extra-body are for the reader to add.
func reproduce(h *matrix.Header) string {
	c := &h.Config
	if imported(c) || c.URL == "" {
		return ""
	}
	lines := []string{"loadgen --url " + shellWord(c.URL)}
	add := func(flag, value string) { lines = append(lines, "  --"+flag+" "+shellWord(value)) }
	if h.Engine.Model != "" {
		add("model", h.Engine.Model)
	}
	if c.Endpoint != "" {
		add("endpoint", c.Endpoint)
	}
	if len(c.Contexts) > 0 {
		add("contexts", joinInts(c.Contexts))
	}
	if len(c.Concurrency) > 0 {
		add("concurrency", joinInts(c.Concurrency))
	}
	add("duration", strconv.FormatFloat(c.DurationS, 'g', -1, 64)+"s")
	add("settle", strconv.FormatFloat(c.SettleS, 'g', -1, 64)+"s")
	add("max-tokens", strconv.Itoa(c.MaxTokens))
	if c.ForceLength {
		lines = append(lines, "  --force-length")
	}
	add("on-loop", c.OnLoop)
	add("prefix", c.Prefix)
	add("kv-rule", c.KVRule)
	if h.Engine.Sources["kv_tokens"] == "--kv-tokens" {
		add("kv-tokens", strconv.Itoa(h.Engine.KVTokens))
	}
	if c.Repeat > 1 {
		add("repeat", strconv.Itoa(c.Repeat))
	}
	add("seed", strconv.FormatUint(c.Seed, 10))
	if c.Ask != "" {
		add("ask", c.Ask)
	}
	return strings.Join(lines, " \\\n")
}

// bodyRemark names what the command lacks.
func bodyRemark(c *matrix.Config) string {
	var s string
	if len(c.Extra) > 0 {
		s = "The run also merged these keys into each request (--extra-body): " + strings.Join(c.Extra, ", ") + ". "
	}
	if c.BodySHA256 != "" {
		s += fmt.Sprintf("The first request body of the plan has the SHA-256 %s.", c.BodySHA256)
	}
	return strings.TrimSpace(s)
}

func joinInts(ns []int) string {
	words := make([]string, len(ns))
	for i, n := range ns {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

// shellWord quotes s for a POSIX shell where it needs that.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
