//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
)

// randomBody is a body in random chunks, and the data in it.
func randomBody(r *rand.Rand, most int) (body, data []byte) {
	for range r.IntN(most) {
		n := 1 + r.IntN(400)
		if r.IntN(20) == 0 {
			n = 1 + r.IntN(200_000)
		}
		chunk := bytes.Repeat(fmt.Appendf(nil, "%d.", r.Uint64()), n/8+1)[:n]
		chunk[r.IntN(n)] = byte(r.Uint32())
		ext := ""
		if r.IntN(4) == 0 {
			ext = ";x=1"
		}
		body = fmt.Appendf(body, "%x%s\r\n%s\r\n", n, ext, chunk)
		data = append(data, chunk...)
	}
	body = append(body, "0\r\n"...)
	if r.IntN(2) == 0 {
		body = append(body, "X-Sum: 1\r\n"...)
	}
	return append(body, "\r\n"...), data
}

// TestCrowd: hundreds of streams at once, cut at random, some to clients that
// read slowly: each byte arrives, and only at its own client.
func TestCrowd(t *testing.T) {
	st := newStand(t, Limits{Idle: time.Minute, Write: time.Minute})
	const n = 300
	var wait sync.WaitGroup
	for i := range n {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		body, data := randomBody(r, 40)
		l := st.open("")
		if i%60 == 0 {
			_ = l.client.SetReadBuffer(4 << 10)
		}
		l.wants(When(i % 2))
		wait.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(i)))
			for rest := body; len(rest) > 0; {
				k := min(len(rest), 1+r.IntN(1000))
				if r.IntN(8) == 0 {
					k = len(rest)
				}
				if _, err := l.engine.Write(rest[:k]); err != nil {
					t.Errorf("stream %d, the engine: %v", i, err)
					return
				}
				rest = rest[k:]
			}
		})
		wait.Go(func() {
			got, err := io.ReadAll(l.client)
			if want := append([]byte(head), body...); err != nil || !bytes.Equal(got, want) {
				t.Errorf("stream %d: got %d bytes, %v, want the %d sent", i, len(got), err, len(want))
			}
			if e := l.end(); !e.Whole {
				t.Errorf("stream %d: got %+v, want a whole body", i, e)
			}
			if s := l.pool.Stats(); s.Idle != 1 {
				t.Errorf("stream %d: got %d idle, want the connection kept", i, s.Idle)
			}
			if !bytes.Equal(l.observed(), data) {
				t.Errorf("stream %d: observed %d bytes, want the %d sent", i, len(l.observed()), len(data))
			}
		})
	}
	wait.Wait()
	if open := st.loop.Open(); open != 0 {
		t.Errorf("got %d open, want none", open)
	}
}

// TestACrowdWaits: what may wait is forwarded at once and observed a while later,
// though nothing else comes.
func TestACrowdWaits(t *testing.T) {
	st := newStand(t, Limits{})
	lines := make([]*line, crowd)
	for i := range lines {
		lines[i] = st.open("")
		lines[i].wants(Later)
	}
	l := lines[0]
	say := func(text string) {
		chunk := fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
		if _, err := io.WriteString(l.engine, chunk); err != nil {
			t.Fatal(err)
		}
		if got := l.read(len(chunk)); got != chunk {
			t.Fatalf("client: got %q, want %q", got, chunk)
		}
	}
	l.read(len(head))
	say("one")
	eventually(t, "the first is observed", func() bool { return string(l.observed()) == "one" })
	said := stamp.Now()
	say("two")
	say("three")
	if got := string(l.observed()); got != "one" && stamp.Now().Sub(said) < patience {
		t.Errorf("observed %q at once", got)
	}
	eventually(t, "the others are observed", func() bool { return string(l.observed()) == "onetwothree" })
	if late := stamp.Now().Sub(said); late < patience {
		t.Errorf("the others were observed after %v, want %v", late, patience)
	}
}

// TestSlotsAreReused: many short streams end in every way at the same time, so
// that events come late for slots and descriptors that others have by then.
func TestSlotsAreReused(t *testing.T) {
	st := newStand(t, Limits{})
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	fds := 0
	for round := range rounds {
		var lines []*line
		for i := range 16 {
			if i%4 == 3 {
				lines = append(lines, st.open("", staysOpen))
			} else {
				lines = append(lines, st.open(""))
			}
		}
		var wait sync.WaitGroup
		for i, l := range lines {
			wait.Go(func() {
				r := rand.New(rand.NewPCG(uint64(round), uint64(i)))
				body, data := randomBody(r, 4)
				switch i % 4 {
				case 0: // the client leaves while the engine writes
					go func() { _ = l.client.Close() }()
					_, _ = l.engine.Write(body)
					if e := l.end(); !e.Whole && !e.Gone {
						t.Errorf("a client that left: got %+v", e)
					}
				case 1: // the engine dies
					_, _ = l.engine.Write(body[:len(body)-2])
					_ = l.engine.Close()
					if e := l.end(); e.Err == nil {
						t.Errorf("an engine that died: got %+v", e)
					}
				default:
					if _, err := l.engine.Write(body); err != nil {
						t.Error(err)
					}
					got, err := io.ReadAll(io.LimitReader(l.client, int64(len(head)+len(body))))
					if err != nil || !bytes.Equal(got, append([]byte(head), body...)) {
						t.Errorf("got %d bytes, %v, want %d", len(got), err, len(body)+len(head))
					}
					if e := l.end(); !e.Whole || !bytes.Equal(l.observed(), data) {
						t.Errorf("got %+v and %d bytes observed, want a whole body of %d", e, len(l.observed()), len(data))
					}
				}
				_, _ = l.engine.Close(), l.client.Close()
				l.pool.CloseIdle()
			})
		}
		wait.Wait()
		if n := st.loop.Open(); n != 0 {
			t.Fatalf("round %d: got %d open, want none", round, n)
		}
		eventually(t, "the clients that stayed have left", func() bool { return st.sockets() == 0 })
		if round == 0 {
			fds = openFDs(t)
		}
	}
	if slots := len(st.loop.gens); slots > 32 {
		t.Errorf("got %d slots for 16 streams of two sockets at a time", slots)
	}
	if now := openFDs(t); now > fds {
		t.Errorf("got %d descriptors at the end, %d after the first round", now, fds)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// TestStaleEvents: an event of a slot's earlier socket, of an empty slot or of a
// listener that is gone touches nobody.
func TestStaleEvents(t *testing.T) {
	k := &socket{slot: 1, gen: 7}
	l := &Loop{sockets: []*socket{nil, k}}
	event := func(slot, gen int32) unix.EpollEvent {
		return unix.EpollEvent{Events: unix.EPOLLIN, Fd: slot, Pad: gen}
	}
	l.look([]unix.EpollEvent{event(0, 7), event(1, 6), event(wakeSlot-1, 0), event(1, 8), event(wakeSlot-2, 7), event(1, 7)})
	want := []touched{{k, unix.EPOLLIN}}
	if !slices.Equal(l.touched, want) {
		t.Errorf("got %v, want %v", l.touched, want)
	}
}

// TestNobodyIsLeftInTheSet: sockets leave the loop's set when they leave the loop,
// though they live on: the engine's in the pool, the client's with who got it.
func TestNobodyIsLeftInTheSet(t *testing.T) {
	st := newStand(t, Limits{})
	l := st.open("", staysOpen)
	st.listen()
	client := st.client()
	if got := watched(t, st.loop); got != 5 {
		t.Errorf("got %d sockets in the set, want the loop's own, its listener and three", got)
	}
	l.say("0\r\n\r\n")
	if e := l.end(); !e.Whole || l.pool.Stats().Idle != 1 {
		t.Fatalf("end: got %+v, want a whole body and the connection kept", e)
	}
	for _, c := range []net.Conn{client, l.client} {
		if _, err := io.WriteString(c, "GET"); err != nil {
			t.Fatal(err)
		}
		c, err := st.front.serve().raw.Attach()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if got := watched(t, st.loop); got != 2 {
		t.Errorf("got %d sockets in the set, want the loop's own and its listener", got)
	}
	st.loop.Dismiss()
	eventually(t, "the listener leaves the set", func() bool { return watched(t, st.loop) == 1 })
}

// TestNobodyOfAnExchangeIsLeft: also those sockets leave the set that live on with a
// front that got an exchange back.
func TestNobodyOfAnExchangeIsLeft(t *testing.T) {
	st := newStand(t, Limits{})
	st.take()
	client := st.client()
	client.say(request)
	engine := st.engine()
	engine.request()
	if got := watched(t, st.loop); got != 4 {
		t.Errorf("got %d sockets in the set, want the loop's own, its listener and two", got)
	}
	engine.say("HTTP/1.1 204 No Content\r\n\r\n")
	back := st.front.serve()
	if got := watched(t, st.loop); got != 2 {
		t.Errorf("got %d sockets in the set, want the loop's own and its listener", got)
	}
	back.x.Pending.Drop()
	_ = back.raw.Close()
}

// watched is how many sockets a loop's set has, by the kernel.
func watched(t *testing.T, l *Loop) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", l.epoll))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("tfd:"))
}
