//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"bytes"
	"testing"
)

// TestRooms: a request's memory is used again when its response's head has come, once,
// and what is kept is bounded.
func TestRooms(t *testing.T) {
	var rooms [][]byte // the loop's goroutine, until its end
	st, client, engine := pooled(t, Limits{}, func(x *Exchange) { rooms = append(rooms, x.Room) })
	const requests = 3
	for range requests - 1 {
		client.say(request)
		engine.request()
		engine.say(okay)
		client.wants(okay)
		st.turn().whole("ok")
	}
	st.loop.Close()
	for i, room := range rooms {
		if &room[0] != &rooms[0][0] {
			t.Errorf("request %d: another room than the first one's", i)
		}
	}
	if len(rooms) != requests || len(st.loop.rooms) != 1 {
		t.Errorf("%d rooms for %d requests, %d are kept, want one", len(rooms), requests, len(st.loop.rooms))
	}
	st.loop.putRoom(bytes.Repeat([]byte{0}, keepRoom+1))
	st.loop.putRoom(nil)
	if n := len(st.loop.rooms); n != 1 {
		t.Errorf("a large room, or none, is kept: %d, want 1", n)
	}
	for range 2 * keepRooms {
		st.loop.putRoom(make([]byte, 1))
	}
	if n := len(st.loop.rooms); n != keepRooms {
		t.Errorf("%d rooms are kept, want %d", n, keepRooms)
	}
	if room := st.loop.room(); len(room) != 0 {
		t.Errorf("a room holds %q", room)
	}
}

// TestRoomOfOthers: a request that is not for the loop leaves the room where it was.
func TestRoomOfOthers(t *testing.T) {
	st, client, _ := pooled(t, Limits{})
	client.say("odd")
	_ = st.front.serve().raw.Close()
	st.loop.Close()
	if n := len(st.loop.rooms); n != 1 {
		t.Errorf("%d rooms are kept, want 1", n)
	}
}
