package proxy

import (
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/sim"
)

// drains shuts the proxy down and reports how long that took.
func (w *world) drains() time.Duration {
	w.t.Helper()
	begun := time.Now()
	w.close()
	return time.Since(begun)
}

// TestDrainOfWhatALoopGivesBack: a response that is not for a loop, and comes while
// the proxy drains, is the last one on its client's connection, which the client does
// not close.
func TestDrainOfWhatALoopGivesBack(t *testing.T) { onBothPaths(t, testDrainOfWhatALoopGivesBack) }

func testDrainOfWhatALoopGivesBack(t *testing.T, on path) {
	for _, c := range []struct {
		name string
		sc   sim.Script
		want int
	}{
		{"it ends with the connection", sim.Script{Framing: sim.ByItself, End: sim.Drop, Writes: []sim.Write{{At: 200 * time.Millisecond, Bytes: []byte("HTTP/1.1 200 OK\r\n\r\nok")}}}, 200},
		{"204", sim.Script{Framing: sim.ByItself, Writes: []sim.Write{{At: 200 * time.Millisecond, Bytes: []byte("HTTP/1.1 204 No Content\r\n\r\n")}}}, 204},
		{"there is none", sim.Script{Framing: sim.ByItself, End: sim.Drop, Writes: []sim.Write{{At: 200 * time.Millisecond}}}, 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sockets(t, on(Config{ClientIdle: time.Minute, ClientRead: time.Minute}), sim.Always(c.sc))
			k := w.keep()
			defer k.Close()
			k.say(get("/x"))
			eventually(t, "it is asked", func() bool { return len(w.up.Played()) == 1 })
			took := make(chan time.Duration, 1)
			go func() { took <- w.drains() }()
			if status, _, closed := k.hear("GET"); status != c.want || !closed {
				t.Errorf("got %d, closed %v, want %d and the connection's end", status, closed, c.want)
			}
			if d := <-took; d > 5*time.Second {
				t.Errorf("the shutdown took %v", d)
			}
		})
	}
}

// TestDrainOfHalfABody: a client that does not send the rest of its body is told so
// when the drain period is over.
func TestDrainOfHalfABody(t *testing.T) { onBothPaths(t, testDrainOfHalfABody) }

func testDrainOfHalfABody(t *testing.T, on path) {
	for _, size := range []string{"10", "100000000"} { // read whole before it is sent, and streamed
		w := sockets(t, on(Config{ClientRead: time.Minute, Drain: 50 * time.Millisecond, MaxBody: 1 << 30}), sim.Always(quick))
		k := w.keep()
		k.say("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: " + size + "\r\n\r\nhello")
		eventually(t, "it is open", func() bool {
			w.p.openMu.Lock()
			defer w.p.openMu.Unlock()
			return len(w.p.open) == 1
		})
		if d := w.drains(); d > 5*time.Second {
			t.Errorf("%s: the shutdown took %v", size, d)
		}
		if status, _, closed := k.hear("POST"); status != 503 || !closed {
			t.Errorf("%s: got %d, closed %v, want 503 and the connection's end", size, status, closed)
		}
		_ = k.Close()
	}
}

// TestDrainOfHalfARequestBehindAnother: so is one whose connection the server has had
// for a while.
func TestDrainOfHalfARequestBehindAnother(t *testing.T) {
	w := sockets(t, Config{ClientRead: time.Minute, ClientIdle: time.Minute, ClientWrite: time.Minute},
		sim.Always(sim.Script{Framing: sim.ByLength, Writes: []sim.Write{{Bytes: []byte("ok")}}}))
	k := w.keep()
	defer k.Close()
	k.say(get("/x", "Te: trailers")) // not for a loop
	k.hear("GET")
	k.say("GE")
	if d := w.drains(); d > 5*time.Second {
		t.Errorf("the shutdown took %v", d)
	}
}

// TestLeavingInPrefillIsRecorded: a client that leaves before the response's head has a
// record that says when its request was sent.
func TestLeavingInPrefillIsRecorded(t *testing.T) { onBothPaths(t, testLeavingInPrefillIsRecorded) }

func testLeavingInPrefillIsRecorded(t *testing.T, on path) {
	w := sockets(t, on(Config{}), sim.Always(sim.Script{Framing: sim.ByItself, End: sim.Hang}))
	defer w.close()
	k := w.keep()
	k.say(chat())
	eventually(t, "it is asked", func() bool { return len(w.up.Played()) == 1 })
	_ = k.Close()
	r := w.record()
	if !r.SentMonoNS.OK || !r.EndNS.OK || r.End != "client_gone" {
		t.Errorf("got %+v, want client_gone, sent and ended", r)
	}
}
