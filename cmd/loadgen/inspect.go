package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

func newInspect(s streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect FILE…",
		Short: "decode a captured response body into events and a record",
		Long: "Decodes the captured body of a response (SSE or JSON bytes, no HTTP header) as the meter sees it: every event,\n" +
			"then the record. A capture has no times, so the record's instants are null and all its events share one.",
		Example: "  curl -sN http://127.0.0.1:8000/v1/chat/completions -d @body.json >reply.sse; loadgen inspect reply.sse",
		Args:    program.SomeFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			for _, path := range args {
				errs = append(errs, s.inspect(path, asJSON))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the record alone, as one line of JSON")
	return cmd
}

func (s streams) inspect(path string, asJSON bool) error {
	body, err := readInput(s.in, path)
	if err != nil {
		return err
	}
	if !asJSON {
		fmt.Fprintf(s.out, "%s\n", path)
		events(s.out, body)
	}
	m := stream.NewMeter(stream.Options{Dialect: wire.Chat, StoreText: true})
	m.Observe(body, stamp.Now())
	rec := m.Finish(stream.Cause{Kind: stream.EOF}, 0)
	if rec.Events == 0 && bytes.HasPrefix(body, []byte("HTTP/")) {
		return fmt.Errorf("%s begins with an HTTP header, as curl -i writes it: a capture is the body alone, so leave -i out", path)
	}
	if rec.Events == 0 && rec.Malformed == 0 {
		return fmt.Errorf("%s: no event of an OpenAI-compatible stream in %d bytes", path, len(body))
	}
	line, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s\n", line)
	return err
}

func readInput(stdin io.Reader, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(path)
}

// events prints one line an event.
func events(w io.Writer, body []byte) {
	d := wire.NewDecoder(wire.Chat, 0)
	d.Push(body)
	n := 0
	show := func(ev *wire.Event) {
		n++
		fmt.Fprintf(w, "%5d  %s\n", n, describe(ev))
	}
	for ev := d.Next(); ev != nil; ev = d.Next() {
		show(ev)
	}
	if ev := d.Close(); ev != nil {
		show(ev)
	}
	if c := d.Comments(); c > 0 {
		fmt.Fprintf(w, "%d comments\n", c)
	}
	if why := d.Blind(); why != "" {
		fmt.Fprintf(w, "a part could not be read: %s\n", why)
	}
}

func describe(ev *wire.Event) string {
	switch ev.Kind {
	case wire.Done:
		return "terminal marker"
	case wire.Failure:
		return fmt.Sprintf("error: %s %s %s", ev.Error.Type, ev.Error.Code, ev.Error.Message)
	case wire.Malformed:
		return fmt.Sprintf("malformed payload of %d bytes", ev.Size)
	}
	var parts []string
	for _, c := range ev.Choices {
		p := []string{"choice " + strconv.Itoa(c.Index)}
		for _, t := range c.Parts {
			p = append(p, fmt.Sprintf("%s %q", t.Channel, t.Text))
		}
		if c.TokenIDs != wire.None {
			p = append(p, fmt.Sprintf("token_ids %d", c.TokenIDs))
		}
		if c.Logprobs != wire.None {
			p = append(p, fmt.Sprintf("logprobs %d", c.Logprobs))
		}
		if c.Finish != nil {
			p = append(p, fmt.Sprintf("finish %s", c.Finish))
		}
		parts = append(parts, strings.Join(p, " "))
	}
	if ev.Usage.Has {
		parts = append(parts, fmt.Sprintf("usage prompt %d completion %d", ev.Usage.PromptTokens, ev.Usage.CompletionTokens))
	}
	if ev.Native.Has {
		parts = append(parts, fmt.Sprintf("native predicted %d", ev.Native.PredictedN))
	}
	if len(parts) == 0 {
		return fmt.Sprintf("%d bytes without choices", ev.Size)
	}
	return strings.Join(parts, "; ")
}
