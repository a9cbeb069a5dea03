package wasi

import (
	"io"
	"math"
	"time"
)

// maxSubscriptions bounds one poll_oneoff.
const maxSubscriptions = 4096

const (
	subscriptionSize = 48
	eventSize        = 32

	eventClock   = 0
	eventFdRead  = 1
	eventFdWrite = 2

	clockAbstime = 1
)

// subscription is one thing to wait for, as laid out in memory.
type subscription []byte

func (s subscription) userdata() uint64 { return get64(s) }
func (s subscription) tag() byte        { return s[8] }
func (s subscription) fd() uint32       { return get32(s[16:]) }

// pollOneoff waits until one subscription is ready. Files and stdio always are; only
// clocks make it wait.
func pollOneoff(c *call) Errno {
	n := c.u32(2)
	if n == 0 || n > maxSubscriptions {
		return ErrnoInval
	}
	in, e := c.out(0, n*subscriptionSize)
	if e != 0 {
		return e
	}
	out, e := c.out(1, n*eventSize)
	if e != 0 {
		return e
	}
	count, e := c.out(3, 4)
	if e != 0 {
		return e
	}
	// The events may be written over the subscriptions.
	in = append([]byte(nil), in...)
	ev := &events{out: out}
	wait, due, e := c.s.scan(in, ev)
	if e != 0 {
		return e
	}
	if ev.n > 0 {
		wait = 0 // something is ready: only clocks that are due come along
	} else {
		c.sleep(time.Duration(wait))
	}
	for i, d := range due {
		if d >= 0 && d <= wait {
			ev.add(subAt(in, i), ErrnoSuccess, 0)
		}
	}
	put32(count, uint32(ev.n))
	return ErrnoSuccess
}

func subAt(in []byte, i int) subscription {
	return subscription(in[i*subscriptionSize : (i+1)*subscriptionSize])
}

// scan answers what is ready or wrong, and returns the shortest wait and each clock's
// own; -1 stands for anything but a clock.
func (s *State) scan(in []byte, ev *events) (wait int64, due []int64, e Errno) {
	wait = math.MaxInt64
	due = make([]int64, len(in)/subscriptionSize)
	for i := range due {
		sub := subAt(in, i)
		due[i] = -1
		switch sub.tag() {
		case eventClock:
			d, e := s.remaining(sub)
			if e != 0 {
				ev.add(sub, e, 0)
				continue
			}
			due[i], wait = d, min(wait, d)
		case eventFdRead, eventFdWrite:
			s.pollFd(ev, sub)
		default:
			return 0, nil, ErrnoInval
		}
	}
	return wait, due, ErrnoSuccess
}

// remaining is how many nanoseconds a clock subscription still has to wait.
func (s *State) remaining(sub subscription) (int64, Errno) {
	now, e := s.clock(get32(sub[16:]))
	if e != 0 {
		return 0, e
	}
	timeout := get64(sub[24:])
	if timeout > math.MaxInt64 {
		timeout = math.MaxInt64
	}
	if get16(sub[40:])&clockAbstime == 0 {
		return int64(timeout), ErrnoSuccess
	}
	return max(int64(timeout)-now, 0), ErrnoSuccess
}

// pollFd answers at once: nothing a guest holds can block.
func (s *State) pollFd(ev *events, sub subscription) {
	d, e := s.get(sub.fd())
	if e != 0 {
		ev.add(sub, e, 0)
		return
	}
	want := rightFdRead
	if sub.tag() == eventFdWrite {
		want = rightFdWrite
	}
	if d.rights&want == 0 {
		ev.add(sub, ErrnoNotcapable, 0)
		return
	}
	ev.add(sub, ErrnoSuccess, s.readable(d, sub.tag()))
}

// readable is how many bytes can be read, where that is known, or 1.
func (s *State) readable(d *desc, tag byte) uint64 {
	if tag == eventFdWrite {
		return 1 << 16
	}
	switch {
	case d.kind == kindStdin:
		if l, ok := s.cfg.Stdin.(interface{ Len() int }); ok {
			return uint64(l.Len())
		}
	case d.file != nil && d.kind == kindFile:
		st, err := d.file.Stat()
		pos, err2 := d.file.Seek(0, io.SeekCurrent)
		if err == nil && err2 == nil && st.Size > pos {
			return uint64(st.Size - pos)
		}
	}
	return 0
}

type events struct {
	out []byte
	n   int
}

func (ev *events) add(s subscription, e Errno, nbytes uint64) {
	b := ev.out[ev.n*eventSize : (ev.n+1)*eventSize]
	clear(b)
	put64(b, s.userdata())
	put16(b[8:], uint16(e))
	b[10] = s.tag()
	put64(b[16:], nbytes)
	ev.n++
}
