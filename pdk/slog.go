package pdk

import (
	"context"
	"log/slog"
	"slices"

	"strings"

	"github.com/bladehost/bladehost/abi"
)

// Logger is a logger of the call that ctx belongs to, as slog has it.
func Logger(ctx context.Context) *slog.Logger { return slog.New(&logHandler{call: ctx}) }

// logHandler writes records as text into the host's log.
type logHandler struct {
	call   context.Context
	attrs  []slog.Attr
	prefix string
}

var _ slog.Handler = (*logHandler)(nil)

func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	for _, a := range h.attrs {
		writeAttr(&b, "", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, h.prefix, a)
		return true
	})
	Log(h.call, logLevel(r.Level), b.String())
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		a.Key = h.prefix + a.Key
		next.attrs = append(next.attrs, a)
	}
	return &next
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.prefix = h.prefix + name + "."
	return &next
}

func writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, g := range v.Group() {
			writeAttr(b, prefix, g)
		}
		return
	}
	if a.Key == "" {
		return
	}
	b.WriteByte(' ')
	b.WriteString(prefix + a.Key)
	b.WriteByte('=')
	b.WriteString(v.String())
}

func logLevel(l slog.Level) abi.LogLevel {
	switch {
	case l < slog.LevelDebug:
		return abi.LogTrace
	case l < slog.LevelInfo:
		return abi.LogDebug
	case l < slog.LevelWarn:
		return abi.LogInfo
	case l < slog.LevelError:
		return abi.LogWarn
	}
	return abi.LogError
}
