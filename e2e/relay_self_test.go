package e2e

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// TestRelayPassesBytesAndEnds: what the tests compare with is only as good as the
// relay, and an abort that it softened would hide a slot that stays busy.
func TestRelayPassesBytesAndEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*net.TCPConn)
		want error // at the engine
	}{
		{"a reset stays a reset", func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }, syscall.ECONNRESET},
		{"a close stays a close", func(c *net.TCPConn) { c.Close() }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			ended := make(chan error, 1)
			go func() {
				conn, err := ln.Accept()
				if err != nil {
					ended <- err
					return
				}
				defer conn.Close()
				if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
					ended <- err
					return
				}
				if _, err := io.WriteString(conn, "said"); err != nil {
					ended <- err
					return
				}
				_, err = io.Copy(io.Discard, conn)
				ended <- err
			}()
			r := startRelay(t, ln.Addr().String())
			begin := time.Now()
			conn, err := net.Dial("tcp", r.ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "asked"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 4)
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "said" {
				t.Errorf("through the relay came %q, %v; want said", got, err)
			}
			c.end(conn.(*net.TCPConn))
			if err := <-ended; !errors.Is(err, c.want) {
				t.Errorf("the engine saw the connection end with %v, want %v", err, c.want)
			}
			r.ln.Close()
			r.wg.Wait()
			asked, said, marks, over := r.tapes[0].read()
			if string(asked) != "asked" || string(said) != "said" || !over {
				t.Errorf("kept %q and %q, over %v; want asked, said, true", asked, said, over)
			}
			if len(marks) != 1 || marks[0].end != 4 || marks[0].before.Before(begin) || marks[0].after.Before(marks[0].before) {
				t.Errorf("marks %+v: want one, of 4 bytes", marks)
			}
		})
	}
}
