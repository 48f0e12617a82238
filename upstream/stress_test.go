package upstream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// Whatever users do to their responses, at once and in any order, no connection
// is lost or given to two of them, and no body is another's.
func TestManyUsers(t *testing.T) {
	const users, requests = 16, 150
	s := serveRaw(t, echo)
	c := s.client(t)
	var wg sync.WaitGroup
	for u := range users {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(u)))
			for range requests {
				body := strings.Repeat(string(rune('a'+u)), 1+rnd.IntN(5000))
				use(t, c, body, rnd)
			}
		})
	}
	wg.Wait()
	if got := c.Stats(); got.Open != got.Idle || got.Dials == users*requests {
		t.Errorf("got %+v, want the idle connections alone to be open, and some to have been used again", got)
	}
	c.CloseIdle()
	if got := c.Stats(); got.Open != 0 {
		t.Errorf("got %+v after CloseIdle, want none open", got)
	}
}

// use sends body, which is echoed, and ends the response in one of five ways.
func use(t *testing.T, c *Client, body string, rnd *rand.Rand) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	way := rnd.IntN(5)
	left := errors.New("left")
	if way == 0 {
		go cancel(left) // at any moment, also before the dial
	}
	r, err := c.Do(ctx, post(body))
	if err != nil {
		if way != 0 || !errors.Is(err, left) {
			t.Errorf("got %v, want a response", err)
		}
		return
	}
	defer r.Close()
	switch way {
	case 1:
		return // close unread
	case 2:
		go r.Cancel(left) // also while or after it is closed
	case 3:
		r.Read(make([]byte, 10))
		return
	}
	got, err := io.ReadAll(r)
	switch {
	case err == nil && string(got) != body:
		t.Errorf("got %d bytes of %.1q, want %d of %.1q", len(got), got, len(body), body)
	case err != nil && (way == 4 || !errors.Is(err, left)):
		t.Errorf("got %v, want the body", err)
	}
}
