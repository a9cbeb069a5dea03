package extism

import (
	"bytes"
	"context"
	"log/slog"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// output takes a guest's standard output or error: lines go to the log, up to the
// limit of a call, and the last bytes are kept for the details of a crash.
type output struct {
	log    *slog.Logger
	stream string
	used   int
	line   []byte
	tail   []byte
}

// tailSize is how much of standard error goes into the details of a crash,
// lineSize cuts endless lines.
const (
	tailSize = 4 << 10
	lineSize = 2 << 10
)

// Write never fails: a guest must not stop because its log is full.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	p = p[:min(n, abi.MaxOutput-o.used)]
	o.used += len(p)
	o.tail = append(o.tail, p...)
	if over := len(o.tail) - tailSize; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	if !o.log.Enabled(context.Background(), slog.LevelDebug) {
		return n, nil
	}
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		if keep := lineSize - len(o.line); len(line) > keep {
			rest, line, ended = p[keep:], line[:keep], true
		}
		o.line = append(o.line, line...)
		if ended {
			o.flush()
		}
		p = rest
	}
	return n, nil
}

// flush writes the line that was begun.
func (o *output) flush() {
	if len(o.line) > 0 {
		o.log.Debug(text(o.line), "stream", o.stream)
	}
	o.line = o.line[:0]
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }
