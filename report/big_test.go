package report

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/hist"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// big makes a run of contexts × 8 cells with that many records in all, as full
// as loadgen writes them: histograms, rates of 30 seconds, a loop here and there.
func big(contexts, records int) *matrix.Run {
	r := rand.New(rand.NewPCG(1, 2))
	run := &matrix.Run{Header: warned().Header, End: &matrix.Footer{Outcome: "done"}}
	run.Header.Type, run.Header.V = "header", matrix.Version
	each := records / (contexts * 8)
	for l := range contexts {
		run.Cells = append(run.Cells, matrix.Cell{
			Type: "cell", V: 1, Phase: matrix.Prefill, Context: 4096 * (l + 1), Concurrency: 1, Status: matrix.Valid,
			TotalTokS: stream.Some(5e4 / float64(l+4)), TTFTMS: stream.Some(80 * float64(l+1)), Completed: stream.Some(3), PromptTokens: stream.Some(4096*(l+1) - 3),
		})
		for level := range 8 {
			open := int64(len(run.Cells)) * 40e9
			c := bigCell(r, 4096*(l+1), 1<<level, open)
			for i := range each {
				run.Records = append(run.Records, bigRecord(r, &c, i, each, open))
			}
			c.Streams = each
			run.Cells = append(run.Cells, c)
		}
	}
	return run
}

func bigCell(r *rand.Rand, context, c int, open int64) matrix.Cell {
	var gaps, ttft hist.H
	for range 20000 {
		gaps.Record(int64(1e7 * r.ExpFloat64()))
	}
	for range c {
		ttft.Record(int64(5e7 * (1 + r.Float64())))
	}
	total := 200 * float64(c) * (0.5 + r.Float64())
	out := matrix.Cell{
		Type: "cell", V: 1, Phase: matrix.Decode, Context: context, Concurrency: c, Status: matrix.Valid,
		TotalTokS: stream.Some(total), RequestTokS: stream.Some(total / float64(c)), TTFTMS: stream.Some(71.123456), TBTMS: stream.Some(9.87654321),
		AvgActive: stream.Some(float64(c) - 0.0123), Completed: stream.Some(12), OutputTokens: stream.Some(30 * total), MeasuredS: stream.Some(30.0),
		TTFT: matrix.QuantilesOf(&ttft), TBT: matrix.QuantilesOf(&gaps), Gaps: matrix.QuantilesOf(&gaps), Hist: matrix.Hists{TTFT: &ttft, TBT: &gaps, Gaps: &gaps},
		CleanShare: stream.Some(0.987654), CoalescedShare: stream.Some(0.0123456), TokensPerEvent: stream.Some(1.23456), TokensFrom: stream.FromTokenIDs,
		Stamps: "kernel", CI95: stream.Some(total / 50), OpenNS: stream.Some(open),
		Warnings: []matrix.Warning{{Code: "salvaged", Message: fmt.Sprintf("%d of %d streams looped; 98 %% of the stream-time is clean", c, 4*c)}},
	}
	for range 30 {
		out.PerSecond = append(out.PerSecond, total*(0.95+0.1*r.Float64()))
	}
	return out
}

func bigRecord(r *rand.Rand, c *matrix.Cell, i, of int, open int64) stream.Record {
	sent := open - 3e9 + int64(33e9*float64(i)/float64(of))
	rec := stream.Record{
		Type: "record", V: 1, ID: fmt.Sprintf("sg-0123abcd-c%d-s%d", len(c.PerSecond), i), Context: c.Context, Concurrency: c.Concurrency,
		Slot: i % c.Concurrency, Seq: i / c.Concurrency, Phase: stream.InWin, Model: "tiny", Dialect: "chat", Status: 200,
		SentNS: stream.Some(sent), SentMonoNS: stream.Some(sent), SentRealNS: stream.Some(sent), TTFTNS: stream.Some(int64(5e7)), LastTokenNS: stream.Some(int64(3e9 * r.Float64())),
		EndNS: stream.Some(int64(3e9)), TBTNS: stream.Some(9.9e6), Tokens: 300, FirstTokens: stream.Some(1), TokensFrom: stream.FromTokenIDs,
		PromptTokens: stream.Some(c.Context), Events: 302, GeneratedEvents: 300, Window: &stream.Window{Tokens: 300, FirstNS: stream.Some(int64(5)), LastNS: stream.Some(int64(3e9)), Events: 300},
		Finish: "stop", End: stream.Completed, Stamps: "kernel", Flags: []string{}, Loops: []stream.Loop{},
	}
	if i%50 == 0 {
		rec.End, rec.Finish = stream.Looped, ""
		rec.Loops = []stream.Loop{{Verdict: "confirmed", Channel: "content", OnsetNS: stream.Some(int64(1e9))}}
	}
	return rec
}

// The child of TestBigRunFitsTheBudget, which measures it as a process.
const childOf = "STREAMGAUGE_REPORT_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childOf); path != "" {
		run, err := ReadFile(path)
		if err == nil {
			err = WriteSources(io.Discard, "html", run)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		// Not the parent's view of it: that counts what the parent had at the fork.
		status, err := os.ReadFile("/proc/self/status")
		if err == nil {
			fmt.Println(string(status))
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func writeRun(t testing.TB, path string, run *matrix.Run) {
	t.Helper()
	w, err := matrix.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := []any{run.Header}
	for _, r := range run.Records {
		lines = append(lines, r)
	}
	for _, c := range run.Cells {
		lines = append(lines, c)
	}
	for _, line := range append(lines, matrix.Footer{Type: "end", V: 1, Outcome: "done"}) {
		if err := w.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBigRunFitsTheBudget holds a run of 64 × 8 cells and 100,000 records, read
// from its file by a process of its own, to 3 s, 200 MB and a page of 2 MB.
func TestBigRunFitsTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and reads a hundred megabytes")
	}
	if raceEnabled {
		t.Skip("the race detector's memory and time are not ours")
	}
	run := big(64, 100_000)
	var page bytes.Buffer
	if err := Write(&page, "html", run); err != nil {
		t.Fatal(err)
	}
	if page.Len() > 2_000_000 {
		t.Errorf("the page has %d bytes, want at most 2,000,000", page.Len())
	}
	path := filepath.Join(t.TempDir(), "run.ndjson")
	writeRun(t, path, run)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childOf+"="+path)
	begun := time.Now()
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := time.Since(begun)
	var peakKB int64
	for line := range strings.Lines(string(out)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &peakKB); err == nil {
			break
		}
	}
	if peakKB == 0 {
		t.Skip("the peak of a process's memory is read on Linux")
	}
	rss := peakKB * 1024
	cpu := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	t.Logf("%d bytes of HTML; %v (%v of CPU), %d MB", page.Len(), took, cpu, rss/1e6)
	if rss > 200e6 {
		t.Errorf("%d MB at its peak, want at most 200", rss/1e6)
	}
	if took > 3*time.Second && cpu > 3*time.Second {
		t.Errorf("took %v, %v of it CPU, want at most 3 s", took, cpu)
	}
}

func TestFullMatrixIsUnderAMegabyte(t *testing.T) {
	var page bytes.Buffer
	if err := Write(&page, "html", big(8, 20_000)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", page.Len())
	if page.Len() >= 1_000_000 {
		t.Errorf("8 × 8 cells and 20,000 streams make a page of %d bytes, want under 1,000,000", page.Len())
	}
}

func BenchmarkHTML(b *testing.B) {
	run := big(64, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		if err := Write(io.Discard, "html", run); err != nil {
			b.Fatal(err)
		}
	}
}
