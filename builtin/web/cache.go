package web

import (
	"container/list"
	"sync"
	"time"
)

// cache keeps what was used last, within a number of entries and bytes.
type cache struct {
	entries int
	bytes   int64

	mu    sync.Mutex
	used  int64
	order *list.List // of *entry, the newest first
	byKey map[string]*list.Element
}

type entry struct {
	key   string
	value any
	size  int64
	until time.Time
}

func newCache(entries int, bytes int64) *cache {
	return &cache{entries: entries, bytes: bytes, order: list.New(), byKey: map[string]*list.Element{}}
}

// get is what is kept under a key, or nil. Use does not make it last longer.
func (c *cache) get(key string, now time.Time) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil
	}
	if !e.Value.(*entry).until.After(now) {
		c.drop(e)
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).value
}

// put keeps a value of a size, in bytes, for a time.
func (c *cache) put(key string, value any, size int64, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.drop(e)
	}
	if size > c.bytes || c.entries <= 0 {
		return
	}
	c.byKey[key] = c.order.PushFront(&entry{key, value, size, until})
	for c.used += size; c.used > c.bytes || len(c.byKey) > c.entries; {
		c.drop(c.order.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	x := c.order.Remove(e).(*entry)
	delete(c.byKey, x.key)
	c.used -= x.size
}
