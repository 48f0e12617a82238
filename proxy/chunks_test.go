package proxy

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/sim"
)

func TestEnclose(t *testing.T) {
	for _, n := range []int{1, 9, 15, 16, 255, 256, 4095, 4096, 16<<10 - before - after} {
		b := make([]byte, before+n+after)
		data := bytes.Repeat([]byte("x"), n)
		copy(b[before:], data)
		if got, want := string(enclose(b, n)), fmt.Sprintf("%x\r\n%s\r\n", n, data); got != want {
			t.Errorf("%d bytes: got %.20q…, want %.20q…", n, got, want)
		}
	}
}

// Bodies of all sizes come through whichever buffer a read finds, and what fits
// into one read is one chunk.
func TestChunkSizes(t *testing.T) { onBothPaths(t, testChunkSizes) }

func testChunkSizes(t *testing.T, on path) {
	var sc sim.Script
	var want []byte
	sizes := []int{10, 300, 1000, 1100, 5000, 40, 40_000, 200, 2000, 3000, 3000, 10, 300_000, 1}
	for i, n := range sizes {
		b := bytes.Repeat([]byte{byte('a' + i)}, n)
		want = append(want, b...)
		sc.Writes = append(sc.Writes, sim.Write{At: time.Duration(i+1) * 10 * time.Millisecond, Bytes: b})
	}
	for _, user := range []bool{false, true} {
		w := sockets(t, on(Config{UserStamps: user}), sim.Always(sc))
		a := w.say(get("/x"))
		w.close()
		if !bytes.Equal(a.body, want) || a.err != nil {
			t.Errorf("user stamps %v: got %d bytes (%v), want %d, the same", user, len(a.body), a.err, len(want))
		}
	}
}

// TestShortAnswerIsOneWrite: a body with a length that came with its header leaves
// with it; one that trickles does not hold the header back.
func TestShortAnswerIsOneWrite(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n"
	for _, c := range []struct {
		name   string
		writes []sim.Write
		want   time.Duration // when the client has the header
		pieces int           // it reads, at least; 1 is exact
	}{
		{"at once", []sim.Write{{Bytes: []byte(head + `{"ok":true}`)}}, 0, 1},
		{"in two", []sim.Write{{Bytes: []byte(head + `{"ok"`)}, {At: 50 * time.Millisecond, Bytes: []byte(`:true}`)}}, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Config{}, sim.Always(sim.Script{Framing: sim.ByItself, Writes: c.writes}), func(t *testing.T, w *world) {
				conn, err := w.dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := conn.Write([]byte(post("/v1/embeddings", `{}`))); err != nil {
					t.Fatal(err)
				}
				var got []byte
				pieces := 0
				begun := time.Now()
				buf := make([]byte, 4096)
				for !bytes.HasSuffix(got, []byte("true}")) {
					n, err := conn.Read(buf)
					if err != nil {
						t.Fatalf("after %q: %v", got, err)
					}
					if got == nil && time.Since(begun) != c.want {
						t.Errorf("the header came after %v, want %v", time.Since(begun), c.want)
					}
					got = append(got, buf[:n]...)
					pieces++
				}
				if pieces < c.pieces || c.pieces == 1 && pieces > 1 {
					t.Errorf("got %d writes, want %d: %q", pieces, c.pieces, got)
				}
			})
		})
	}
}
