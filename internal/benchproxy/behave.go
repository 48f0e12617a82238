package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// The yard's upstream of scripted behaviour, and our proxies before it: as it
// comes, before one that closes connections idle for 5 s (uvicorn's limit), and
// before one that answers no second request on a connection.
var scripted = []struct {
	addr, data string
	flags      []string
}{
	{"127.0.0.1:9600", "127.0.0.1:9640", nil},
	{"127.0.0.1:9601", "127.0.0.1:9641", []string{"-idle", "5s"}},
	{"127.0.0.1:9602", "127.0.0.1:9642", []string{"-stale"}},
}

// expectation is what the yard's row about ours must say.
type expectation struct {
	row  string // its name's first word
	want *regexp.Regexp
	ok   func(match []string) bool // nil: matching is enough
	why  string
}

// abort is the time within which an upstream is to know that the client left.
const abort = 50 // ms

func within(match []string) bool {
	ms, err := strconv.ParseFloat(match[1], 64)
	return err == nil && ms <= abort
}

// near says whether each of the arrivals is at most 100 ms off its sending, 300
// ms apart from the first on: an event that waited for its other half, or a
// comment for the next event, is 300 ms late.
func near(match []string) bool {
	for i, s := range match[1:] {
		ms, err := strconv.ParseFloat(s, 64)
		if err != nil || ms < float64(300*i-100) || ms > float64(300*i+100) {
			return false
		}
	}
	return true
}

var expected = []expectation{
	{"a1", regexp.MustCompile(`^aborted after (-?[0-9.]+) ms$`), within, "client gone while tokens flow"},
	{"a2", regexp.MustCompile(`^aborted after (-?[0-9.]+) ms$`), within, "client gone in a silence"},
	{"a3", regexp.MustCompile(`^aborted after (-?[0-9.]+) ms$`), within, "client gone before the first byte"},
	{"b1", regexp.MustCompile(`^truncated \((eof|rst)\); tokens seen 5/5; $`), nil, "a body that was cut stays cut"},
	{"b2", regexp.MustCompile(`^truncated \((eof|rst)\); tokens seen [0-5]/5; $`), nil, "a reset may overtake tokens, but is no end"},
	{"c", regexp.MustCompile(`^arrivals ms partial=(\d+) rest=(\d+) ping=(\d+) done=(\d+) tail=(\d+) `), near, "halves of events and comments pass at once"},
	{"d1", regexp.MustCompile(`^identical `), nil, "bytes of an odd stream"},
	{"d2", regexp.MustCompile(`^identical `), nil, "bytes of a plain stream"},
	{"e1", regexp.MustCompile(`^429 Too Many Requests; retry-after=7; body b?'\{"error":\{"message":"slow down"`), nil, "the engine's own refusal"},
	{"e2", regexp.MustCompile(`^503 Service Unavailable; retry-after=9; body b?'\{"error":\{"message":"busy"`), nil, "the engine's own refusal"},
	{"e3", regexp.MustCompile(`^1 upstream request\(s\)$`), nil, "no breaker, no retry"},
	{"f1", regexp.MustCompile(`^200 OK; upstream got (\d+) of (\d+); hash same$`), func(m []string) bool { return m[1] == m[2] }, "20 MB up"},
	{"f2", regexp.MustCompile(`^200 OK; body \d+ bytes, complete=True, x's 1024 KiB$`), nil, "an event of 1 MB"},
	{"h1", regexp.MustCompile(`^HTTP/1\.[01] 200 OK te=None cl=None ended=eof bytes=\d+$`), nil, "no chunks to HTTP/1.0"},
	{"h2", regexp.MustCompile(`^interim: HTTP/1\.1 100 Continue after [0-9.]+ ms; final: HTTP/1\.1 200 OK; upstream saw Expect: no$`), nil, "the proxy says Continue itself"},
	{"h3", regexp.MustCompile(`^200 OK cl=[1-9]\d* body=0 ended=eof$`), nil, "a HEAD has its length and no body"},
	{"i", regexp.MustCompile(`^upstream saw x-request-id=\['my-id-9'\] traceparent=yes x-custom=\['c1'\] xff=None auth=no; client saw x-request-id=up-id-1 x-up=1$`), nil, "headers as they came, none added"},
}

// behave runs the yard's behave.py and kar on ours; wrong is how many rows are
// not as expected.
func (b *bench) behave(ctx context.Context, w io.Writer) (wrong int, err error) {
	if err := b.build(ctx); err != nil {
		return 0, err
	}
	var addrs []string
	for _, s := range scripted {
		addrs = append(addrs, s.addr, s.data)
	}
	unlock, err := b.alone(addrs...)
	if err != nil {
		return 0, err
	}
	defer unlock()
	for _, s := range scripted {
		engine, err := b.launch(ctx, s.addr, b.command(ctx, filepath.Join(b.work, "beh"), append([]string{"-addr", s.addr}, s.flags...)...))
		if err != nil {
			return 0, err
		}
		defer engine.Stop(syscall.SIGTERM)
		proxy, err := b.start(ctx, "http://"+s.addr, s.data)
		if err != nil {
			return 0, err
		}
		defer proxy.Stop(syscall.SIGTERM)
	}
	fmt.Fprint(w, "| row | ours | |\n|---|---|---|\n")
	text, err := b.output(ctx, "python3", filepath.Join(b.scripts, "scripts", "behave.py"), ours, port(scripted[0].data))
	if err != nil {
		return 0, fmt.Errorf("behave.py: %w", err)
	}
	wrong = judgeRows(w, text)
	for _, race := range []struct {
		what string
		lost int // of these requests
		args []string
	}{
		{"idle race: 7 rounds of 30 POSTs about 5 s after the last", 210, []string{"-m", "30", "-rounds", "8", ours + "=" + port(scripted[1].data)}},
		{"stale connection: 20 POSTs", 20, []string{"-m", "1", "-rounds", "21", "-gap", "20ms", ours + "=" + port(scripted[2].data)}},
	} {
		text, err := b.output(ctx, filepath.Join(b.work, "kar"), race.args...)
		if err != nil {
			return wrong, fmt.Errorf("kar: %w", err)
		}
		wrong += printRow(w, race.what, strings.TrimSpace(text), strings.Join(strings.Fields(text), " ") == fmt.Sprintf("%s 200 x%d", ours, race.lost), "")
	}
	fmt.Fprintf(w, "\n%d rows wrong\n", wrong)
	return wrong, nil
}

func (b *bench) output(ctx context.Context, name string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := b.command(ctx, name, args...)
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out.Bytes())
	}
	return out.String(), nil
}

// judgeRows prints the rows of behave.py and says how many are wrong; a row that
// is missing is.
func judgeRows(w io.Writer, text string) (wrong int) {
	rows := map[string][2]string{}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		if len(f) == 3 && f[0] == ours {
			id, _, _ := strings.Cut(f[1], " ")
			rows[id] = [2]string{f[1], f[2]}
		}
	}
	for _, e := range expected {
		r, ok := rows[e.row]
		if !ok {
			r = [2]string{e.row, "no such row"}
		}
		m := e.want.FindStringSubmatch(r[1])
		wrong += printRow(w, r[0], r[1], ok && m != nil && (e.ok == nil || e.ok(m)), e.why)
	}
	return wrong
}

func printRow(w io.Writer, what, got string, ok bool, why string) int {
	if ok {
		fmt.Fprintf(w, "| %s | %s | right |\n", what, got)
		return 0
	}
	fmt.Fprintf(w, "| %s | %s | WRONG: %s |\n", what, got, why)
	return 1
}

// port is that of an address.
func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
