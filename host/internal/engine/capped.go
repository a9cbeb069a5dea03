package engine

import (
	"context"
	"log/slog"
)

// capped takes a guest's standard output or error: it keeps the last bytes for
// error details and logs lines, up to a budget. Used by one guest at a time.
type capped struct {
	log    *slog.Logger
	stream string
	left   int
	tail   []byte
	line   []byte
}

// tailSize is how much of standard error goes into the details of a trap.
const tailSize = 4 << 10

// lineSize cuts endless lines for the log.
const lineSize = 2 << 10

func (c *capped) reset(budget int) {
	c.left, c.tail, c.line = budget, c.tail[:0], c.line[:0]
}

// Write never fails: a guest must not stop because its log is full.
func (c *capped) Write(p []byte) (int, error) {
	n := len(p)
	if c.left <= 0 {
		return n, nil
	}
	if len(p) > c.left {
		p = p[:c.left]
	}
	c.left -= len(p)
	c.tail = append(c.tail, p...)
	if over := len(c.tail) - tailSize; over > 0 {
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
	if c.log.Enabled(context.Background(), slog.LevelDebug) {
		c.lines(p)
	}
	if c.left <= 0 {
		c.log.Debug("output is cut: the limit is reached", "stream", c.stream)
	}
	return n, nil
}

func (c *capped) lines(p []byte) {
	for _, b := range p {
		if b != '\n' && len(c.line) < lineSize {
			c.line = append(c.line, b)
			continue
		}
		c.log.Debug(string(c.line), "stream", c.stream)
		c.line = c.line[:0]
		if b != '\n' {
			c.line = append(c.line, b)
		}
	}
}
