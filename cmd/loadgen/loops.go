package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/detect"
	"github.com/streamgauge/streamgauge/wire"
)

func newLoops(s streams) *cobra.Command {
	var asJSON bool
	var as string
	cmd := &cobra.Command{
		Use:   "loops [FILE…|-]",
		Short: "judge whether a text, or the text of a captured stream, repeats itself",
		Long: "Judges text files or captured streams (SSE or JSON bytes as an OpenAI-compatible server sent them, channels\n" +
			"kept apart) and prints each verdict with its onset, period and cycles in characters. Without a file, or with -,\n" +
			"it reads stdin. Memory is bounded whatever the size. A verdict is no error: the exit code is 0 unless an\n" +
			"input could not be read.",
		Example: "  loadgen loops answer.txt\n  curl -sN … | loadgen loops --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := configs.LoadLoadgen(cmd.Flags())
			if err != nil {
				return program.Usage(err)
			}
			if !slices.Contains([]string{"auto", "text", "stream"}, as) {
				return program.Usage(fmt.Errorf("--as: %q is none of auto, text, stream", as))
			}
			if len(args) == 0 {
				args = []string{"-"}
			}
			var errs []error
			for _, path := range args {
				errs = append(errs, s.judgeFile(cmd.Context().Done(), path, as, c.Limits(), asJSON))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object an input")
	cmd.Flags().StringVar(&as, "as", "auto", "what the input is: auto, text, stream")
	configs.Register(cmd.Flags(), configs.LoadgenKeys().Only("detect-cycles", "detect-chars", "detect-whitespace", "detect-period-bytes", "detect-period-chars"))
	return cmd
}

// judgeFile judges one input and prints its verdicts.
func (s streams) judgeFile(stop <-chan struct{}, path, as string, limits detect.Limits, asJSON bool) error {
	in, name, size := s.in, "stdin", int64(0)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if st.IsDir() {
			return fmt.Errorf("%s is a folder", path)
		}
		in, name, size = f, path, st.Size()
	}
	j := &judge{limits: limits, loops: map[channelKey]*detect.Loop{}}
	p := &progress{w: s.err, name: name, size: size}
	err := j.read(stop, in, as, p)
	p.finish()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return j.print(s.out, name, asJSON)
}

// readSize is how much of an input is held at once.
const readSize = 256 << 10

// judge holds a detector for each choice and channel of one input.
type judge struct {
	limits detect.Limits
	loops  map[channelKey]*detect.Loop
	order  []channelKey
	stream *wire.Decoder // nil: plain text
	bad    int           // payloads of a stream that are no JSON
}

// maxChannels bounds the memory of a stream that invents choices.
const maxChannels = 256

type channelKey struct {
	choice  int
	channel wire.Channel
}

func (j *judge) read(stop <-chan struct{}, in io.Reader, as string, p *progress) error {
	buf := make([]byte, readSize)
	for first := true; ; first = false {
		n, err := io.ReadFull(in, buf)
		if first {
			if berr := j.sniff(buf[:n], as); berr != nil {
				return berr
			}
		}
		if ferr := j.feed(buf[:n]); ferr != nil {
			return ferr
		}
		p.add(n)
		select {
		case <-stop:
			return errors.New("interrupted")
		default:
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return j.finish()
		}
		if err != nil {
			return err
		}
	}
}

// sniff decides what the input is by its beginning.
func (j *judge) sniff(head []byte, as string) error {
	if bytes.IndexByte(head, 0) >= 0 {
		return errors.New("this is neither text nor a captured stream: it has NUL bytes")
	}
	start := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	looksLike := bytes.HasPrefix(start, []byte("{")) && bytes.Contains(head, []byte(`"choices"`))
	for _, field := range []string{"data:", "event:", "id:", "retry:", ": ", ":\n"} {
		looksLike = looksLike || bytes.HasPrefix(start, []byte(field)) && bytes.Contains(head, []byte("data:"))
	}
	if as == "stream" || as == "auto" && looksLike {
		j.stream = wire.NewDecoder(wire.Chat, 0)
	}
	return nil
}

func (j *judge) feed(p []byte) error {
	if j.stream == nil {
		return j.text(channelKey{}, p)
	}
	j.stream.Push(p)
	for ev := j.stream.Next(); ev != nil; ev = j.stream.Next() {
		if err := j.event(ev); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) event(ev *wire.Event) error {
	if ev.Kind == wire.Malformed {
		j.bad++
	}
	for _, c := range ev.Choices {
		for _, part := range c.Parts {
			if err := j.text(channelKey{c.Index, part.Channel}, part.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *judge) text(k channelKey, p []byte) error {
	l := j.loops[k]
	if l == nil {
		if len(j.loops) == maxChannels {
			return fmt.Errorf("the stream has more than %d channels", maxChannels)
		}
		var err error
		if l, err = detect.New(j.limits); err != nil {
			return err
		}
		j.loops[k] = l
		j.order = append(j.order, k)
	}
	l.Feed(p)
	return nil
}

func (j *judge) finish() error {
	if j.stream != nil {
		if ev := j.stream.Close(); ev != nil {
			if err := j.event(ev); err != nil {
				return err
			}
		}
		if len(j.order) == 0 && j.bad > 0 {
			return fmt.Errorf("no text of an OpenAI-compatible stream in it, and %d payloads that are no JSON", j.bad)
		}
	}
	for _, l := range j.loops {
		l.Finish()
	}
	return nil
}

// finding is one verdict as --json prints it; offsets in characters, and in
// bytes where the name says so.
type finding struct {
	Verdict      string `json:"verdict"`
	Channel      string `json:"channel"`
	Choice       int    `json:"choice"`
	Onset        int64  `json:"onset"`
	Period       *int64 `json:"period"`
	Cycles       *int64 `json:"cycles"`
	Length       int64  `json:"length"`
	ConfirmedAt  int64  `json:"confirmed_at"`
	OnsetBytes   int64  `json:"onset_bytes"`
	PeriodBytes  *int64 `json:"period_bytes"`
	RunsToTheEnd bool   `json:"runs_to_the_end"`
	SHA256       string `json:"sha256"`
	Excerpt      string `json:"excerpt"`
}

func (j *judge) findings() []finding {
	out := []finding{}
	for _, k := range j.order {
		for _, v := range j.loops[k].Verdicts() {
			f := finding{
				Verdict: v.Kind.String(), Channel: k.channel.String(), Choice: k.choice,
				Onset: v.Onset.Chars, Length: v.Length.Chars, ConfirmedAt: v.ConfirmedAt.Chars,
				OnsetBytes: v.Onset.Bytes, RunsToTheEnd: v.Running, Excerpt: v.Excerpt,
			}
			if v.Period.Chars > 0 {
				f.Period, f.PeriodBytes, f.Cycles = &v.Period.Chars, &v.Period.Bytes, &v.Cycles
			}
			if v.SHA256 != [32]byte{} {
				f.SHA256 = hex.EncodeToString(v.SHA256[:])
			}
			out = append(out, f)
		}
	}
	return out
}

func (j *judge) print(w io.Writer, name string, asJSON bool) error {
	var chars int64
	for _, l := range j.loops {
		chars += l.Fed().Chars
	}
	found := j.findings()
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			File      string    `json:"file"`
			Stream    bool      `json:"stream"`
			Chars     int64     `json:"chars"`
			Malformed int       `json:"malformed"`
			Loops     []finding `json:"loops"`
		}{name, j.stream != nil, chars, j.bad, found})
	}
	if len(found) == 0 {
		_, err := fmt.Fprintf(w, "%s: nothing repeats in %d characters\n", name, chars)
		return err
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(w, "%s: %s\n", name, f.sentence(j.stream != nil)); err != nil {
			return err
		}
	}
	return nil
}

// sentence says what was found, for people.
func (f finding) sentence(stream bool) string {
	var b strings.Builder
	b.WriteString(f.Verdict)
	if stream {
		fmt.Fprintf(&b, " in %s of choice %d", f.Channel, f.Choice)
	}
	fmt.Fprintf(&b, ": onset %d", f.Onset)
	if f.Period != nil {
		fmt.Fprintf(&b, ", period %d, cycles %d", *f.Period, *f.Cycles)
	}
	fmt.Fprintf(&b, ", length %d, rule held at %d", f.Length, f.ConfirmedAt)
	if f.RunsToTheEnd {
		b.WriteString(", runs to the end")
	} else {
		fmt.Fprintf(&b, ", recovered after %d", f.Length)
	}
	if f.Excerpt != "" {
		fmt.Fprintf(&b, ", cycle %q", f.Excerpt)
	}
	return b.String()
}

// progress tells how far a big input is, once per further tenth of it (or per
// quarter GiB where the size is not known).
type progress struct {
	w           io.Writer
	name        string
	size        int64
	done, shown int64
}

// bigInput is the size from which progress is told.
const bigInput = 64 << 20

func (p *progress) add(n int) {
	p.done += int64(n)
	step := max(p.size/10, bigInput)
	if p.size == 0 {
		step = 256 << 20
	}
	if p.done-p.shown < step {
		return
	}
	p.shown = p.done
	if p.size > 0 {
		fmt.Fprintf(p.w, "%s: %d of %d MiB\n", p.name, p.done>>20, p.size>>20)
		return
	}
	fmt.Fprintf(p.w, "%s: %d MiB\n", p.name, p.done>>20)
}

func (p *progress) finish() {
	if p.shown > 0 {
		fmt.Fprintf(p.w, "%s: %d MiB read\n", p.name, p.done>>20)
	}
}
