package loadgen

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// TestLive looks at a run from outside, as a screen does.
func TestLive(t *testing.T) {
	p := profile(t, "plain")
	p.Chunks = []int{4}
	bubble(t, p, sim.Options{}, func(r *rig) {
		live := &Live{}
		r.deps.Live = live
		if s := live.Snapshot(); s.Stage != Probing || s.Active != 0 {
			t.Errorf("before the run: %+v", s)
		}
		var stages []string
		shots := make(chan Snapshot, 2)
		r.deps.Progress = func(e Event) {
			stages = append(stages, string(e.Stage))
			if e.Cell != nil {
				stages[len(stages)-1] = "cell " + string(e.Cell.Status)
			}
			if e.Stage == Measuring && e.Cell == nil {
				for i := range 2 {
					time.AfterFunc(time.Duration(i+2)*time.Second, func() { shots <- live.Snapshot() })
				}
			}
		}
		r.run(oneCell(3))
		want := "probing draining priming connecting starting settling measuring closing draining cell valid finished"
		if d := cmp.Diff(strings.Join(stages, " "), want); d != "" {
			t.Errorf("stages (got -, want +):\n%s", d)
		}
		if len(shots) != 2 {
			t.Fatalf("%d snapshots, want 2", len(shots))
		}
		<-shots // the rate is that since the snapshot before
		s := <-shots
		if s.N != 1 || s.Of != 1 || s.Stage != Measuring || s.Active != 3 || s.Decoding != 3 || s.Loops != 0 || s.Failed != 0 {
			t.Errorf("snapshot %+v, want 3 active and decoding of step 1 of 1", s)
		}
		// 4 tokens every 40 ms a stream; an event of each may lie on the edge.
		if s.TokS < 288 || s.TokS > 312 || s.Left != 7*time.Second {
			t.Errorf("%.1f tok/s and %v left, want 300 and 7s", s.TokS, s.Left)
		}
	})
}

// TestHonesty: what makes the generator the bottleneck.
func TestHonesty(t *testing.T) {
	for _, c := range []struct {
		name   string
		stamps string
		lag    time.Duration // of every read
		merged int           // events in each of 100 reads
		cpu    float64       // share
		reason string
	}{
		{"quick, user stamps", "user", time.Millisecond, 1, .2, ""},
		{"user stamps that are late by over half a gap", "user", 6 * time.Millisecond, 1, .2, "lag"},
		{"late reads do not move kernel stamps", "kernel", 6 * time.Millisecond, 1, .2, ""},
		{"late reads that merge events do", "kernel", 6 * time.Millisecond, 2, .2, "late_reads"},
		{"events merged by the server are not our doing", "kernel", time.Millisecond, 2, .2, ""},
		{"no processor left", "kernel", time.Millisecond, 1, .95, "cpu"},
		{"the proxy's stamps stand whatever we did", "proxy:kernel", 6 * time.Millisecond, 2, .95, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var own lags
			notes := lagNotes{to: &own}
			for range 100 {
				notes.add(second(1), second(1).Add(c.lag), c.merged)
			}
			notes.flush()
			cell := matrix.Cell{Status: matrix.Valid, Stamps: c.stamps, TotalTokS: stream.Some(100.0)}
			cell.Gaps = matrix.Quantiles{N: 99, P50: stream.Some(10.0)}
			from := usage{at: second(1), known: true}
			to := usage{at: second(11), known: true, cpu: time.Duration(c.cpu * 10 * float64(time.Second) * float64(runtime.GOMAXPROCS(0))), gcPause: 3 * time.Millisecond}
			own.judge(&cell, from, to, 100*c.merged)
			status := matrix.Limited
			if c.reason == "" {
				status = matrix.Valid
			}
			if cell.Status != status || cell.Reason != c.reason {
				t.Errorf("%s (%s): %s, want %s (%s)", cell.Status, cell.Reason, cell.Message, status, c.reason)
			}
			if got, want := cell.Lag.P50.V, float64(c.lag)/1e6; got < want*.99 || got > want*1.01 || cell.GCPauseMS.V != 3 {
				t.Errorf("lag %.3f ms and GC %.1f ms, want %.3f and 3", got, cell.GCPauseMS.V, want)
			}
		})
	}
}

// TestLagNotesNeverWait: a lane that finds the histograms taken keeps its reads,
// and files them all later.
func TestLagNotesNeverWait(t *testing.T) {
	var own lags
	n := lagNotes{to: &own}
	own.mu.Lock() // another lane is at it
	for range 3 * lagBatch {
		n.add(second(1), second(2), 3)
	}
	if got := own.all.Count(); got != 0 || len(n.batch) != 3*lagBatch {
		t.Fatalf("%d reads filed and %d kept while the histograms were taken, want none and all", got, len(n.batch))
	}
	own.mu.Unlock()
	n.add(second(1), second(2), 1)
	if got := own.all.Count(); got != 3*lagBatch+1 || len(n.batch) != 0 {
		t.Errorf("%d reads filed and %d kept, want all %d filed", got, len(n.batch), 3*lagBatch+1)
	}
	n.add(second(1), second(2), 1)
	n.flush()
	if reads, merged := own.all.Count(), own.merged.Count(); reads != 3*lagBatch+2 || merged != 2*3*lagBatch {
		t.Errorf("%d reads and %d merged events at the end, want %d and %d", reads, merged, 3*lagBatch+2, 2*3*lagBatch)
	}
}

func TestRetryAfter(t *testing.T) {
	for v, want := range map[string]time.Duration{"2": 2 * time.Second, " 7 ": 7 * time.Second, "": 0, "-1": 0, "86400": maxRetryAfter, "Wed, 21 Oct 2015 07:28:00 GMT": 0} {
		if got := retryAfter(v); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", v, got, want)
		}
	}
}

// TestNoRoomForTheFile: a run that cannot be written ends at once and says so.
func TestNoRoomForTheFile(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		w, err := matrix.Create(r.path + ".closed")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r.deps.Writer = w
		begin := stamp.Now()
		if _, err = r.start(context.Background(), oneCell(1)); err == nil || !strings.Contains(err.Error(), "run file: ") {
			t.Errorf("error %v, want one about the run file", err)
		}
		if d := stamp.Now().Sub(begin); d > 2*time.Second {
			t.Errorf("the run went on for %v", d)
		}
	})
}
