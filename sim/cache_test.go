package sim

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCacheKeepsItsBooks plays random admissions, growth, completion and
// release against a cache and recounts everything after each move.
func TestCacheKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 24).Draw(t, "capacity")
		c := newCache(capacity)
		type holder struct {
			l        *lease
			prefixes []uint64
			hits     int
			computed bool
		}
		var held []*holder
		check := func() {
			private, users := 0, map[uint64]int{}
			for _, h := range held {
				private += h.l.private
				for _, p := range h.l.shared {
					users[p]++
				}
			}
			if c.private != private {
				t.Fatalf("%d private blocks, the leases hold %d", c.private, private)
			}
			if got := len(users) + private; c.used() != got {
				t.Fatalf("%d blocks in use, the leases hold %d", c.used(), got)
			}
			if len(c.shared)+c.private > capacity {
				t.Fatalf("%d blocks of %d", len(c.shared)+c.private, capacity)
			}
			for h, b := range c.shared {
				if b.users != users[h] || (b.idle != nil) != (b.users == 0) {
					t.Fatalf("block %d: %d users, idle %t; leases: %d", h, b.users, b.idle != nil, users[h])
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			move := rapid.IntRange(0, 3).Draw(t, "move")
			if move == 0 || len(held) == 0 {
				// A family of prompts that share their beginnings.
				n := rapid.IntRange(0, 8).Draw(t, "blocks")
				fork := rapid.IntRange(0, 8).Draw(t, "fork")
				family := rapid.IntRange(1, 3).Draw(t, "family")
				h := &holder{}
				for i := range n {
					id := uint64(i + 1)
					if i >= fork {
						id = uint64(1000*family + i)
					}
					h.prefixes = append(h.prefixes, id)
				}
				h.hits = c.hits(h.prefixes)
				fresh := n - h.hits + 1
				for _, p := range h.prefixes[:h.hits] {
					if c.shared[p].users == 0 {
						fresh++
					}
				}
				fits := c.used()+fresh <= capacity
				l, ok := c.admit(h.prefixes[:h.hits], n-h.hits+1)
				if ok != fits {
					t.Fatalf("admit: %t, want %t: %d fresh blocks beside %d in use", ok, fits, fresh, c.used())
				}
				if ok {
					h.l = l
					held = append(held, h)
				}
				check()
				continue
			}
			i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
			h := held[i]
			switch {
			case move == 1:
				before := c.used()
				if ok := c.grow(h.l); ok != (before < capacity) {
					t.Fatalf("grow: %t with %d of %d in use", ok, before, capacity)
				}
			case move == 2 && !h.computed:
				c.computed(h.l, h.prefixes[h.hits:])
				h.computed = true
			default:
				c.release(h.l)
				held = slices.Delete(held, i, i+1)
			}
			check()
		}
		for _, h := range held {
			c.release(h.l)
		}
		held = nil
		check()
		c.flush()
		if len(c.shared) != 0 || c.used() != 0 {
			t.Fatalf("%d blocks after a flush", len(c.shared))
		}
	})
}

// TestCacheEvictsOldestTailFirst: a prefix whose head is gone is of no use.
func TestCacheEvictsOldestTailFirst(t *testing.T) {
	c := newCache(6)
	fill := func(prefixes ...uint64) {
		l, ok := c.admit(nil, len(prefixes))
		if !ok {
			t.Fatal("no room")
		}
		c.computed(l, prefixes)
		c.release(l)
	}
	fill(1, 2, 3)
	fill(11, 12)
	fill(21, 22) // needs one more than is free: 3, the tail of the oldest
	for _, want := range []struct {
		prefixes []uint64
		hits     int
	}{{[]uint64{1, 2, 3}, 2}, {[]uint64{11, 12}, 2}, {[]uint64{21, 22}, 2}} {
		if got := c.hits(want.prefixes); got != want.hits {
			t.Errorf("%d of %v found, want %d", got, want.prefixes, want.hits)
		}
	}
}
