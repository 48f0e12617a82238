package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/enginetest"
	"github.com/streamgauge/streamgauge/enginetest/tinymodel"
)

// shot is one request whose response is kept.
type shot struct {
	name string
	path string
	body string // {S}, {U} and {C} stand for the streaming fields below
	what string // why it is here, for the README
	// prompt, when set, replaces {PROMPT}: too long to print in the README.
	prompt int
	// during runs once the first bytes of the body have arrived.
	during func(ctx context.Context, s *enginetest.Server) error
	// beside is the number of further streams of the same request.
	beside int
}

var streamFields = strings.NewReplacer(
	"{S}", `"model":"tiny","stream":true`,
	"{U}", `"model":"tiny","stream":true,"stream_options":{"include_usage":true}`,
	"{C}", `"model":"tiny","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`,
)

func (sh shot) json() string { return streamFields.Replace(sh.body) }

// album is a server and what is captured from it. One that a shot breaks is the
// last of its album.
type album struct {
	opts  enginetest.Options
	shots []shot
}

const chat, completions = "/v1/chat/completions", "/v1/completions"

func says(word, more string) string {
	return `{"messages":[{"role":"user","content":"please ` + word + `"}],` + more + `}`
}

// errorShots are the same for every engine: how they differ is the point.
var errorShots = []shot{
	{name: "30-error-context-overflow", path: chat, body: says("{PROMPT}", `{U},"max_tokens":4`), prompt: 9000, what: "prompt longer than the context, with stream:true"},
	{name: "31-error-bad-json", path: chat, body: `{"model":"tiny","messages":[`, what: "truncated request"},
	{name: "32-error-wrong-model", path: chat, body: `{"model":"no-such-model","stream":true,"max_tokens":2,"messages":[{"role":"user","content":"please loop"}]}`, what: "a model that is not served"},
	{name: "33-error-unknown-path", path: "/v1/nope", body: `{}`, what: "unknown path"},
	{name: "34-error-no-messages", path: chat, body: `{{U}}`, what: "required field missing"},
	{name: "35-error-bad-type", path: chat, body: `{"messages":"hi",{U}}`, what: "field of the wrong type"},
}

var albums = map[enginetest.Kind][]album{
	enginetest.LlamaCPP: {
		{shots: append([]shot{
			{name: "01-chat-usage", path: chat, body: says("loop", `{U},"max_tokens":12`), what: "usage on the last chunk"},
			{name: "02-chat-no-usage", path: chat, body: says("loop", `{S},"max_tokens":4`), what: "no usage asked for"},
			{name: "03-chat-timings", path: chat, body: says("loop", `{U},"max_tokens":8,"timings_per_token":true`), what: "cumulative counts on every chunk"},
			{name: "04-chat-progress", path: chat, body: says("{PROMPT}", `{U},"max_tokens":4,"return_progress":true,"timings_per_token":true,"cache_prompt":false`), prompt: 5000, what: "prompt progress chunks before the first token"},
			{name: "05-completions-usage", path: completions, body: `{"prompt":"please loop",{U},"max_tokens":8}`, what: "usage on the finish chunk, choices not empty"},
			{name: "06-completions-timings", path: completions, body: `{"prompt":"please loop",{U},"max_tokens":8,"timings_per_token":true}`, what: "timings on text completions"},
			{name: "07-chat-logprobs", path: chat, body: says("loop", `{U},"max_tokens":5,"logprobs":true,"top_logprobs":2`), what: "logprobs"},
			{name: "08-completions-logprobs", path: completions, body: `{"prompt":"please loop",{U},"max_tokens":5,"logprobs":2}`, what: "logprobs, shaped like chat's"},
			{name: "10-chat-story", path: chat, body: says("story", `{U},"max_tokens":200`), what: "ends by itself: finish_reason stop"},
			{name: "11-chat-emoji", path: chat, body: says("emoji", `{U},"max_tokens":25,"timings_per_token":true`), what: "characters split over tokens are held back: no event for the first parts"},
			{name: "12-chat-drift", path: chat, body: says("drift", `{U},"max_tokens":150,"seed":3`), what: "random words, then a loop of period 8"},
			{name: "13-chat-longloop", path: chat, body: says("longloop", `{U},"max_tokens":130`), what: "a loop of period 60"},
			{name: "14-chat-stutter", path: chat, body: says("stutter", `{U},"max_tokens":12`), what: "a loop of period 1"},
			{name: "15-chat-endless", path: chat, body: says("ramble", `{U},"max_tokens":60,"seed":1`), what: "random words, no loop"},
			{name: "16-chat-stop-string", path: chat, body: says("loop", `{U},"max_tokens":40,"stop":["over lazy"],"timings_per_token":true`), what: "text held back while it may be the stop string"},
			{name: "17-chat-n2", path: chat, body: says("loop", `{U},"max_tokens":4,"n":2`), what: "two choices, one usage chunk each"},
			{name: "20-native-completion", path: "/completion", body: `{"prompt":"please loop","stream":true,"n_predict":5}`, what: "llama.cpp's own endpoint"},
			{name: "21-native-completion-probs", path: "/completion", body: `{"prompt":"please loop","stream":true,"n_predict":3,"n_probs":2,"return_tokens":true}`, what: "the same with probabilities and token ids"},
			{name: "22-chat-not-streamed", path: chat, body: says("loop", `"model":"tiny","max_tokens":4`), what: "one JSON object"},
			{name: "23-messages", path: "/v1/messages", body: says("loop", `{S},"max_tokens":4`), what: "Anthropic dialect"},
			{name: "24-responses", path: "/v1/responses", body: `{"input":"please loop",{S},"max_output_tokens":4}`, what: "OpenAI responses dialect"},
		}, errorShots...)},
		{opts: enginetest.Options{Slots: 4, ContextTotal: 256, Args: []string{"--kv-unified"}}, shots: []shot{
			{name: "40-in-band-error", path: chat, body: says("loop", `{U},"max_tokens":200`), beside: 3, what: "four streams fill a shared KV cache of 256 tokens: an error event in the stream"},
		}},
		{shots: []shot{
			{name: "41-killed", path: chat, body: says("loop", `{U},"max_tokens":7000`), during: kill, what: "SIGKILL in mid-stream: the body ends without a last chunk"},
		}},
	},
	enginetest.VLLM: {
		{shots: append([]shot{
			{name: "01-chat-usage", path: chat, body: says("loop", `{U},"max_tokens":12`), what: "usage on a chunk of its own"},
			{name: "02-chat-no-usage", path: chat, body: says("loop", `{S},"max_tokens":4`), what: "no usage asked for"},
			{name: "03-chat-continuous-usage-token-ids", path: chat, body: says("loop", `{C},"max_tokens":8,"return_token_ids":true,"ignore_eos":true,"min_tokens":8`), what: "what loadgen asks for: exact counts on every chunk"},
			{name: "04-chat-continuous-usage", path: chat, body: says("loop", `{C},"max_tokens":8`), what: "the same without token ids"},
			{name: "05-completions-usage", path: completions, body: `{"prompt":"please loop",{U},"max_tokens":8}`, what: "usage on text completions"},
			{name: "06-completions-continuous-usage-token-ids", path: completions, body: `{"prompt":"please loop",{C},"max_tokens":8,"return_token_ids":true}`, what: "exact counts on text completions"},
			{name: "07-chat-logprobs", path: chat, body: says("loop", `{U},"max_tokens":5,"logprobs":true,"top_logprobs":2`), what: "logprobs"},
			{name: "08-completions-logprobs", path: completions, body: `{"prompt":"please loop",{U},"max_tokens":5,"logprobs":2}`, what: "logprobs, in the old shape"},
			{name: "10-chat-story", path: chat, body: says("story", `{C},"max_tokens":200`), what: "ends by itself: finish_reason stop"},
			{name: "11-chat-emoji", path: chat, body: says("emoji", `{C},"max_tokens":25,"return_token_ids":true`), what: "characters split over tokens: chunks with empty content"},
			{name: "12-chat-drift", path: chat, body: says("drift", `{U},"max_tokens":150,"seed":3`), what: "random words, then a loop of period 8"},
			{name: "13-chat-longloop", path: chat, body: says("longloop", `{U},"max_tokens":130`), what: "a loop of period 60"},
			{name: "14-chat-stutter", path: chat, body: says("stutter", `{U},"max_tokens":12`), what: "a loop of period 1"},
			{name: "15-chat-endless", path: chat, body: says("ramble", `{U},"max_tokens":60,"seed":1`), what: "random words, no loop"},
			{name: "16-chat-stop-string", path: chat, body: says("loop", `{C},"max_tokens":40,"stop":["over lazy"]`), what: "text held back while it may be the stop string, cut in mid-word"},
			{name: "17-chat-n2", path: chat, body: says("loop", `{C},"max_tokens":4,"n":2`), what: "two choices, usage per choice and then summed"},
			{name: "18-chat-stream-interval", path: chat, body: says("loop", `{C},"max_tokens":14,"stream_interval":4,"return_token_ids":true`), what: "several tokens a chunk"},
			{name: "22-chat-not-streamed", path: chat, body: says("loop", `"model":"tiny","max_tokens":4`), what: "one JSON object"},
			{name: "23-messages", path: "/v1/messages", body: says("loop", `{S},"max_tokens":4`), what: "Anthropic dialect"},
			{name: "24-responses", path: "/v1/responses", body: `{"input":"please loop",{S},"max_output_tokens":4}`, what: "OpenAI responses dialect"},
		}, append(errorShots[:len(errorShots):len(errorShots)],
			// The last of its server: the engine goes down.
			shot{name: "40-in-band-error", path: chat, body: says("loop", `{C},"max_tokens":7000`), during: killWorker("VLLM::EngineCor"), what: "the EngineCore process killed in mid-stream: an error event, then [DONE]"},
		)...)},
	},
	enginetest.SGLang: {
		{shots: append([]shot{
			{name: "01-chat-usage", path: chat, body: says("loop", `{U},"max_tokens":12`), what: "usage on a chunk of its own"},
			{name: "02-chat-no-usage", path: chat, body: says("loop", `{S},"max_tokens":4`), what: "no usage asked for"},
			{name: "04-chat-continuous-usage", path: chat, body: says("loop", `{C},"max_tokens":8`), what: "counts on every chunk but the first"},
			{name: "05-completions-usage", path: completions, body: `{"prompt":"please loop",{U},"max_tokens":8}`, what: "usage on text completions"},
			{name: "06-completions-continuous-usage", path: completions, body: `{"prompt":"please loop",{C},"max_tokens":8}`, what: "counts on text completions"},
			{name: "07-chat-logprobs", path: chat, body: says("loop", `{U},"max_tokens":5,"logprobs":true,"top_logprobs":2`), what: "logprobs"},
			{name: "08-completions-logprobs", path: completions, body: `{"prompt":"please loop",{U},"max_tokens":5,"logprobs":2}`, what: "logprobs, in the old shape"},
			{name: "10-chat-story", path: chat, body: says("story", `{C},"max_tokens":200`), what: "ends by itself: finish_reason stop"},
			{name: "11-chat-emoji", path: chat, body: says("emoji", `{C},"max_tokens":25`), what: "characters split over tokens are held back"},
			{name: "12-chat-drift", path: chat, body: says("drift", `{U},"max_tokens":150`), what: "random words, then a loop of period 8"},
			{name: "13-chat-longloop", path: chat, body: says("longloop", `{U},"max_tokens":130`), what: "a loop of period 60"},
			{name: "14-chat-stutter", path: chat, body: says("stutter", `{U},"max_tokens":12`), what: "a loop of period 1"},
			{name: "15-chat-endless", path: chat, body: says("ramble", `{U},"max_tokens":60`), what: "random words, no loop"},
			{name: "16-chat-stop-string", path: chat, body: says("loop", `{C},"max_tokens":40,"stop":["over lazy"]`), what: "a stop string"},
			{name: "17-chat-n2", path: chat, body: says("loop", `{C},"max_tokens":4,"n":2`), what: "two choices"},
			{name: "20-native-generate", path: "/generate", body: `{"text":"please loop","stream":true,"sampling_params":{"max_new_tokens":5}}`, what: "SGLang's own endpoint: each event repeats the text so far"},
			{name: "22-chat-not-streamed", path: chat, body: says("loop", `"model":"tiny","max_tokens":4`), what: "one JSON object"},
			{name: "23-messages", path: "/v1/messages", body: says("loop", `{S},"max_tokens":4`), what: "Anthropic dialect"},
			{name: "24-responses", path: "/v1/responses", body: `{"input":"please loop",{S},"max_output_tokens":4}`, what: "OpenAI responses dialect"},
			{name: "36-error-token-ids", path: chat, body: says("loop", `{C},"max_tokens":4,"return_token_ids":true`), what: "a switch that vLLM knows and SGLang refuses"},
		}, append(errorShots[:len(errorShots):len(errorShots)],
			shot{name: "41-killed", path: chat, body: says("loop", `{C},"max_tokens":7000`), during: killWorker("sglang::schedul"), what: "the scheduler process killed in mid-stream: silence for seconds, then the body ends without a last chunk"},
		)...)},
	},
}

// capture runs an engine and keeps its raw responses, with a README, in a folder.
func capture(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("engines capture", flag.ContinueOnError)
	fs.SetOutput(stderr)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 2 {
		return errors.New(usage)
	}
	kind, err := enginetest.ParseKind(fs.Arg(0))
	if err != nil {
		return err
	}
	dir := fs.Arg(1)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	e, err := enginetest.Install(ctx, kind, stderr)
	if err != nil {
		return err
	}
	readme := readmeHead(e)
	for _, a := range albums[kind] {
		lines, err := a.take(ctx, e, dir, stderr)
		if err != nil {
			return err
		}
		readme = append(readme, lines...)
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), readme, 0o644)
}

func (a album) take(ctx context.Context, e enginetest.Engine, dir string, stderr io.Writer) (readme []byte, err error) {
	s, err := e.Start(ctx, a.opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	for _, sh := range a.shots {
		raw, body, sse, err := sh.take(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sh.name, err)
		}
		ext := ".json"
		if sse {
			ext = ".sse"
		}
		if err := os.WriteFile(filepath.Join(dir, sh.name+".http"), raw, 0o644); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, sh.name+ext), body, 0o644); err != nil {
			return nil, err
		}
		fmt.Fprintf(stderr, "%s: %d bytes\n", sh.name+ext, len(body))
		readme = append(readme, sh.readme(a, ext)...)
	}
	return readme, nil
}

// take sends the request on a connection of its own and returns the response as
// it came, its body without the chunk framing, and whether that is an event
// stream.
func (sh shot) take(ctx context.Context, s *enginetest.Server) (raw, body []byte, sse bool, err error) {
	payload := sh.json()
	if sh.prompt > 0 {
		payload = strings.Replace(payload, "{PROMPT}", tinymodel.Prompt(rand.New(rand.NewPCG(1, 1)), sh.prompt, "loop"), 1)
	}
	host := strings.TrimPrefix(s.URL, "http://")
	var beside []net.Conn
	defer func() {
		for _, c := range beside {
			c.Close()
		}
	}()
	for range sh.beside + 1 {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
		if err != nil {
			return nil, nil, false, err
		}
		beside = append(beside, c)
		if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			return nil, nil, false, err
		}
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n%s",
			sh.path, host, len(payload), payload); err != nil {
			return nil, nil, false, err
		}
	}
	// Of several streams the one that was asked for last is kept.
	var wire bytes.Buffer
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(beside[sh.beside], &wire)), nil)
	if err != nil {
		return nil, nil, false, err
	}
	defer resp.Body.Close()
	sse = strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	var got bytes.Buffer
	if sh.during != nil {
		if _, err := io.CopyN(&got, resp.Body, 600); err != nil {
			return nil, nil, false, err
		}
		if err := sh.during(ctx, s); err != nil {
			return nil, nil, false, err
		}
	}
	// A body that breaks off is what some shots are after.
	if _, err := io.Copy(&got, resp.Body); err != nil && sh.during == nil {
		return nil, nil, false, err
	}
	return blot(s, wire.Bytes()), blot(s, got.Bytes()), sse, nil
}

// blot overwrites the install folder, which SGLang's validation errors tell the
// client, with as many x: the lengths in the response stay true.
func blot(s *enginetest.Server, b []byte) []byte {
	if s.Engine.Dir == "" {
		return b
	}
	return bytes.ReplaceAll(b, []byte(s.Engine.Dir), bytes.Repeat([]byte("x"), len(s.Engine.Dir)))
}

func kill(_ context.Context, s *enginetest.Server) error { return s.Signal(syscall.SIGKILL) }

// killWorker kills the process of this name (as the kernel has it, 15 bytes at
// most) among those that the server started.
func killWorker(name string) func(context.Context, *enginetest.Server) error {
	return func(_ context.Context, s *enginetest.Server) error {
		stats, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			return err
		}
		for _, path := range stats {
			b, err := os.ReadFile(path)
			if err != nil {
				continue // it ended since the listing
			}
			// pid (name) state ppid pgrp …
			pid, rest, _ := strings.Cut(string(b), " (")
			end := strings.LastIndex(rest, ") ")
			if end < 0 || rest[:end] != name {
				continue
			}
			if f := strings.Fields(rest[end+2:]); len(f) < 3 || f[2] != strconv.Itoa(s.PID) {
				continue
			}
			n, err := strconv.Atoi(pid)
			if err != nil {
				return err
			}
			return syscall.Kill(n, syscall.SIGKILL)
		}
		return fmt.Errorf("the server has no process %q", name)
	}
}

func readmeHead(e enginetest.Engine) []byte {
	return fmt.Appendf(nil, `# Streams of %[1]s %[2]s

Captured with the model tiny-loop (docs/engines.md) by

    go run ./enginetest/cmd/engines capture %[1]s testdata/%[1]s

NAME.http holds the response as it came from the socket: header, chunk framing, body.
NAME.sse (NAME.json, when it is no event stream) holds the body without the framing.
Each request was a POST of the JSON shown, on a connection of its own.
Where a response names the folder of the engine, that is overwritten with x.
`, e.Kind, e.Version)
}

func (sh shot) readme(a album, ext string) []byte {
	b := fmt.Appendf(nil, "\n## %s%s\n\n%s.\n", sh.name, ext, strings.ToUpper(sh.what[:1])+sh.what[1:])
	if len(a.opts.Args) > 0 {
		b = fmt.Appendf(b, "Server: %d slots, %d tokens of context, %s.\n", a.opts.Slots, a.opts.ContextTotal, strings.Join(a.opts.Args, " "))
	}
	if sh.prompt > 0 {
		b = fmt.Appendf(b, "{PROMPT} is %d random words, the last one \"loop\".\n", sh.prompt)
	}
	if sh.beside > 0 {
		b = fmt.Appendf(b, "Sent on %d connections at once; this is the last one's response.\n", sh.beside+1)
	}
	return fmt.Appendf(b, "\n    POST %s\n    %s\n", sh.path, sh.json())
}
