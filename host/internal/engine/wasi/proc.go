package wasi

import (
	"io"
	"runtime"
	"time"
)

func argsGet(c *call) Errno         { return c.stringList(c.s.args) }
func argsSizesGet(c *call) Errno    { return c.stringSizes(c.s.args) }
func environGet(c *call) Errno      { return c.stringList(c.s.env) }
func environSizesGet(c *call) Errno { return c.stringSizes(c.s.env) }

// stringList writes pointers to parameter 0 and NUL-terminated strings to parameter 1.
func (c *call) stringList(list []string) Errno {
	total := 0
	for _, s := range list {
		total += len(s) + 1
	}
	ptrs, e := c.out(0, uint32(4*len(list)))
	if e != 0 {
		return e
	}
	buf, e := c.out(1, uint32(total))
	if e != 0 {
		return e
	}
	at := c.u32(1)
	for i, s := range list {
		put32(ptrs[4*i:], at)
		n := copy(buf, s)
		buf[n] = 0
		buf = buf[n+1:]
		at += uint32(n + 1)
	}
	return ErrnoSuccess
}

func (c *call) stringSizes(list []string) Errno {
	total := 0
	for _, s := range list {
		total += len(s) + 1
	}
	n, e := c.out(0, 4)
	if e != 0 {
		return e
	}
	size, e := c.out(1, 4)
	if e != 0 {
		return e
	}
	put32(n, uint32(len(list)))
	put32(size, uint32(total))
	return ErrnoSuccess
}

const (
	clockRealtime  = 0
	clockMonotonic = 1
)

// clock reads a clock in steps of its resolution.
func (s *State) clock(id uint32) (int64, Errno) {
	var t int64
	switch id {
	case clockRealtime:
		t = s.walltime()
	case clockMonotonic:
		t = s.Monotonic()
	default:
		return 0, ErrnoInval
	}
	return t - t%s.clockStep(), ErrnoSuccess
}

func clockResGet(c *call) Errno {
	if c.u32(0) > clockMonotonic {
		return ErrnoInval
	}
	b, e := c.out(1, 8)
	if e != 0 {
		return e
	}
	put64(b, uint64(c.s.clockStep()))
	return ErrnoSuccess
}

func clockTimeGet(c *call) Errno {
	t, e := c.s.clock(c.u32(0))
	if e != 0 {
		return e
	}
	b, e := c.out(2, 8)
	if e != 0 {
		return e
	}
	put64(b, uint64(t))
	return ErrnoSuccess
}

// randomChunk is how many random bytes are made between two looks at the context.
const randomChunk = 64 << 10

func randomGet(c *call) Errno {
	b, e := c.out(0, c.u32(1))
	if e != 0 {
		return e
	}
	for len(b) > 0 {
		if c.ctx.Err() != nil {
			return ErrnoCanceled
		}
		n := min(len(b), randomChunk)
		if _, err := io.ReadFull(c.s.cfg.Random, b[:n]); err != nil {
			return ErrnoIo
		}
		b = b[n:]
	}
	return ErrnoSuccess
}

func schedYield(*call) Errno {
	runtime.Gosched()
	return ErrnoSuccess
}

func procExit(c *call) Errno { panic(&ExitError{Code: c.u32(0)}) }

func procRaise(*call) Errno { return ErrnoNosys }

// sockAny answers the socket functions: there are no sockets.
func sockAny(c *call) Errno {
	if _, e := c.s.get(c.u32(0)); e != 0 {
		return e
	}
	return ErrnoNotsock
}

// cancelSlice is how long a sleep lasts at least after the context has ended, so that
// a guest cannot spin through its sleeps.
const cancelSlice = time.Millisecond

// blocking gives the guest's place back until the function it returns is called.
func (c *call) blocking() (resume func()) {
	if b := c.s.cfg.Blocking; b != nil {
		if resume = b(); resume != nil {
			return resume
		}
	}
	return func() {}
}

// sleep waits for d or until the context ends, with the guest's place given back.
func (c *call) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	defer c.blocking()()
	if c.ctx.Err() != nil {
		time.Sleep(min(d, cancelSlice))
		return
	}
	if f := c.s.cfg.Sleep; f != nil {
		f(c.ctx, d)
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}
