package sim

import "container/list"

// cache is the KV memory: blocks that hold prompt text, found again by the hash
// of their prefix, and blocks private to one sequence. Blocks in use are never
// taken away; computed prompt blocks nobody uses stay until their room is
// needed, least recently used first.
type cache struct {
	capacity int // blocks
	private  int
	shared   map[uint64]*block
	idle     *list.List // of uint64: shared blocks without users, oldest first
}

type block struct {
	users int
	idle  *list.Element // nil while used
}

// lease is what one request holds.
type lease struct {
	shared  []uint64
	private int
}

func newCache(blocks int) *cache {
	return &cache{capacity: blocks, shared: map[uint64]*block{}, idle: list.New()}
}

// used counts the blocks that cannot be taken away.
func (c *cache) used() int { return len(c.shared) - c.idle.Len() + c.private }

// hits returns how many of the leading prefixes are in memory.
func (c *cache) hits(prefixes []uint64) int {
	for i, h := range prefixes {
		if c.shared[h] == nil {
			return i
		}
	}
	return len(prefixes)
}

// admit takes the blocks of a prompt: the cached ones shared, the others
// private until they are computed. It reports false, and takes nothing, when
// they do not fit beside the blocks in use.
func (c *cache) admit(cached []uint64, private int) (*lease, bool) {
	fresh := private
	for _, h := range cached {
		if c.shared[h].idle != nil {
			fresh++
		}
	}
	if c.used()+fresh > c.capacity {
		return nil, false
	}
	for _, h := range cached {
		c.use(h)
	}
	l := &lease{shared: append([]uint64(nil), cached...)}
	c.take(l, private)
	return l, true
}

// grow takes one more private block, or reports that all are in use.
func (c *cache) grow(l *lease) bool {
	if c.used()+1 > c.capacity {
		return false
	}
	c.take(l, 1)
	return true
}

func (c *cache) take(l *lease, n int) {
	for len(c.shared)+c.private+n > c.capacity {
		oldest := c.idle.Remove(c.idle.Front()).(uint64)
		delete(c.shared, oldest)
	}
	c.private += n
	l.private += n
}

// computed turns private blocks into shared ones, findable by their prefixes.
func (c *cache) computed(l *lease, prefixes []uint64) {
	for _, h := range prefixes {
		if c.shared[h] == nil {
			c.shared[h] = &block{}
		}
		// Where another request computed the same text meanwhile, its block
		// is used and ours falls free.
		c.use(h)
		c.private--
		l.private--
	}
	l.shared = append(l.shared, prefixes...)
}

func (c *cache) use(h uint64) {
	b := c.shared[h]
	b.users++
	if b.idle != nil {
		c.idle.Remove(b.idle)
		b.idle = nil
	}
}

// release gives everything back.
func (c *cache) release(l *lease) {
	c.private -= l.private
	// The tail of a prefix goes idle first, so that it is evicted first: a
	// prefix without its head is of no use.
	for i := len(l.shared) - 1; i >= 0; i-- {
		b := c.shared[l.shared[i]]
		if b.users--; b.users == 0 {
			b.idle = c.idle.PushBack(l.shared[i])
		}
	}
	*l = lease{}
}

// flush forgets the prompt blocks nobody uses.
func (c *cache) flush() {
	for e := c.idle.Front(); e != nil; e = c.idle.Front() {
		delete(c.shared, c.idle.Remove(e).(uint64))
	}
}
