package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// Source is a run as reports need it. Its Records are empty: there may be
// hundreds of thousands, and of a stream a page shows only when it was doing
// what, which spans keep in a tenth of the memory.
type Source struct {
	matrix.Run
	spans []span
}

// FromRun makes a source of a run that is in memory; the run is unchanged.
func FromRun(run *matrix.Run) *Source {
	s := &Source{Run: *run}
	s.Records = nil
	for i := range run.Records {
		r := &run.Records[i]
		part := recordPart{
			Context: r.Context, Concurrency: r.Concurrency, Slot: r.Slot, Phase: r.Phase, SentNS: r.SentNS,
			TTFTNS: r.TTFTNS, LastTokenNS: r.LastTokenNS, EndNS: r.EndNS, End: r.End, Loops: r.Loops,
		}
		if r.Window != nil {
			part.Window.Trimmed = r.Window.Trimmed
		}
		if sp, ok := part.span(); ok {
			s.spans = append(s.spans, sp)
		}
	}
	return s
}

// recordPart is what a report reads of a record line.
type recordPart struct {
	Context     int                `json:"context"`
	Concurrency int                `json:"concurrency"`
	Slot        int                `json:"slot"`
	Phase       stream.Phase       `json:"phase"`
	SentNS      stream.Null[int64] `json:"sent_ns"`
	TTFTNS      stream.Null[int64] `json:"ttft_ns"`
	LastTokenNS stream.Null[int64] `json:"last_token_ns"`
	EndNS       stream.Null[int64] `json:"end_ns"`
	End         stream.End         `json:"end"`
	Window      struct {
		Trimmed bool `json:"trimmed"`
	} `json:"window"`
	Loops []stream.Loop `json:"loops"`
}

// How a stream ended, as the script colours it.
const (
	endedDone = iota
	endedCut  // by the close of the window
	endedLoop
	endedFailed
)

// never stands for an instant that never was.
const never = -1 << 62

// span is a stream's course in nanoseconds since the header line.
type span struct {
	context, concurrency, slot, how    int32
	sent, first, last, end, loopsSince int64
}

// span returns the stream's course; not ok for one that is no part of a cell.
func (r *recordPart) span() (span, bool) {
	if r.Phase == stream.Prime || !r.SentNS.OK {
		return span{}, false
	}
	at := func(v stream.Null[int64]) int64 {
		if !v.OK {
			return never
		}
		return r.SentNS.V + v.V
	}
	s := span{
		context: int32(r.Context), concurrency: int32(r.Concurrency), slot: int32(r.Slot), how: ended(r.End),
		sent: r.SentNS.V, first: at(r.TTFTNS), last: at(r.LastTokenNS), loopsSince: never,
	}
	s.end = max(at(r.EndNS), s.last, s.sent)
	for _, l := range r.Loops {
		if !l.Acts() && !r.Window.Trimmed {
			continue
		}
		on := at(l.OnsetNS)
		if on == never {
			on = max(s.first, s.sent) // it repeats from its start, or nobody knows since when
		}
		if s.loopsSince == never || on < s.loopsSince {
			s.loopsSince = on
		}
	}
	return s, true
}

func ended(e stream.End) int32 {
	switch e {
	case stream.Completed:
		return endedDone
	case stream.Looped:
		return endedLoop
	case stream.Cancelled, stream.ClientGone:
		return endedCut
	}
	return endedFailed
}

// readRun reads a run file without holding its records.
func readRun(r io.Reader) (*Source, error) {
	sieve := &recordSieve{in: bufio.NewReaderSize(r, 1<<16)}
	run, err := matrix.Read(sieve)
	if err != nil {
		return nil, err
	}
	s := &Source{Run: *run, spans: sieve.spans}
	// A record that does not begin as we write them was read whole.
	s.spans = append(s.spans, FromRun(run).spans...)
	s.Records = nil
	return s, nil
}

// recordLine is how our record lines begin.
var recordLine = []byte(`{"type":"record","v":` + strconv.Itoa(matrix.Version) + `,`)

// recordSieve takes the record lines out of a run file and leaves an empty line
// for each, so that its reader still counts lines. Whatever it does not
// understand it passes on: damage is for that reader to name.
type recordSieve struct {
	in    *bufio.Reader
	spans []span
	left  []byte // of the current line
	long  []byte // holds a line longer than the buffer
	err   error
}

func (s *recordSieve) Read(p []byte) (int, error) {
	for len(s.left) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

func (s *recordSieve) next() {
	line, err := s.in.ReadSlice('\n')
	for s.long = s.long[:0]; errors.Is(err, bufio.ErrBufferFull); {
		s.long = append(s.long, line...)
		line, err = s.in.ReadSlice('\n')
	}
	if len(s.long) > 0 {
		s.long = append(s.long, line...)
		line = s.long
	}
	s.left, s.err = line, err
	if !bytes.HasPrefix(line, recordLine) {
		return
	}
	var part recordPart
	if json.Unmarshal(line, &part) != nil {
		return
	}
	s.left = s.left[:copy(s.left, "\n")]
	if sp, ok := part.span(); ok {
		s.spans = append(s.spans, sp)
	}
}

// readReport reads the JSON report of one run.
func readReport(r io.Reader) (*Source, error) {
	var d document
	if err := json.NewDecoder(r).Decode(&d); err != nil {
		return nil, fmt.Errorf("JSON report: %w", err)
	}
	return &Source{Run: matrix.Run{Header: d.Header, Cells: d.Cells, End: &matrix.Footer{Outcome: "done"}}}, nil
}
