package host

import (
	"context"
	"log/slog"

	"github.com/bladehost/bladehost/host/tool"
)

// auditMessage is the message of every audit record in the log, at level Info: a
// call was denied something, or used what it was lent.
const auditMessage = "audit"

// audit records one use or denial. Target is ready to be logged: without
// credentials, queries and secrets.
func (r *run) audit(op, target, outcome string) {
	attrs := []slog.Attr{
		slog.String("session", r.s.opt.ID), slog.String("call", r.call.ID), slog.String("tool", r.canonical()),
		slog.String("op", op), slog.String("target", target), slog.String("outcome", outcome),
	}
	if r.entry != nil && r.entry.guest != nil {
		attrs = append(attrs, slog.String("plugin", r.entry.guest.manifest.Name), slog.String("sha256", r.entry.guest.digest))
	}
	r.s.h.log.LogAttrs(context.WithoutCancel(r.ctx), slog.LevelInfo, auditMessage, attrs...)
}

// auditEffect records what a call did outside.
func (r *run) auditEffect(e tool.HostEffect) {
	outcome := e.Status
	if outcome == "" {
		outcome = "done"
	}
	r.audit(e.Op, e.Target, outcome)
}
