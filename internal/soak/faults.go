package main

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// act is one request of the soak: what is asked for, how the client behaves, and
// what it is counted as.
type act struct {
	kind string
	s    script
	how  conduct
}

// silenceLimit is the proxy's limit for silence, of the header and in the body:
// short, so that a soak meets it often.
const silenceLimit = 3 * time.Second

// draw picks the next request: half of them without a fault.
func draw(rng *rand.Rand, id uint64) act {
	s := script{
		ID:     id,
		Events: 20 + rng.IntN(120),
		Text:   4 + rng.IntN(60),
		Every:  time.Duration(20+rng.IntN(60)) * time.Millisecond,
	}
	length := time.Duration(s.Events) * s.Every
	// An answer without a stream is silent until it comes.
	answer := s
	answer.Whole, answer.Every = true, min(s.Every, silenceLimit/3/time.Duration(s.Events))
	some := func() time.Duration { return 1 + time.Duration(rng.Int64N(int64(length))) }
	switch n := rng.IntN(100); {
	case n < 40:
		return act{"streams", s, conduct{}}
	case n < 50:
		answer.Text = 200 + rng.IntN(4000)
		return act{"answers, no stream", answer, conduct{}}
	case n < 53:
		s.Prompt = 1 << 20
		return act{"prompts of 1 MB", s, conduct{}}
	case n < 55:
		answer.Text = 1 << 20
		return act{"answers of 1 MB", answer, conduct{}}
	case n < 56:
		s.Events, s.Text = 2, 1<<20
		return act{"events of 1 MB", s, conduct{}}
	case n < 62:
		s.Loop = 5 + rng.IntN(30)
		s.Events, s.Every, s.Text = 400, 10*time.Millisecond, 60
		return act{"looping streams", s, conduct{}}
	case n < 67:
		s.Events, s.Text, s.Every = 100, 4<<10, time.Millisecond
		return act{"slow readers", s, conduct{slow: 10 * time.Millisecond}}
	case n < 82:
		return act{"clients that leave", s, conduct{leave: some(), abrupt: rng.IntN(2) == 0}}
	case n < 84:
		return act{"clients that leave, no stream", answer, conduct{leave: 1 + time.Duration(rng.Int64N(int64(silenceLimit/3))), abrupt: rng.IntN(2) == 0}}
	case n < 87:
		s.Fault, s.At = quiet, rng.IntN(s.Events)
		return act{"clients that leave a silence", s, conduct{leave: some(), broken: true}}
	case n < 91:
		s.Fault, s.At = cut, rng.IntN(s.Events)
		return act{"upstreams that close", s, conduct{broken: true}}
	case n < 95:
		s.Fault, s.At = reset, rng.IntN(s.Events)
		return act{"upstreams that reset", s, conduct{broken: true}}
	case n < 98:
		s.Fault, s.At = quiet, rng.IntN(s.Events)
		return act{"upstreams gone silent", s, conduct{broken: true}}
	}
	s.Fault = mute
	return act{"upstreams that never answer", s, conduct{status: http.StatusGatewayTimeout}}
}
