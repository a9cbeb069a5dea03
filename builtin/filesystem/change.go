package filesystem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// maxEdit is the largest file that Edit and NotebookEdit change, in bytes.
const maxEdit = 64 << 20

// change is a change of one file by one call.
type change struct {
	c    *core
	ctx  context.Context
	t    *file.Target
	call *tool.Call
	// st is the file as it was opened and, after store, as it is now. old is nil for a file
	// that does not exist yet.
	st  fs.Info
	old *fs.Info
	src []byte
}

// load reads the file that is to be changed.
func (c *core) load(ctx context.Context, t *file.Target, call *tool.Call) ([]byte, *change, error) {
	if err := file.Aborted(ctx); err != nil {
		return nil, nil, err
	}
	f, st, err := t.Open()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // read only
	b, err := file.ReadAll(ctx, t, f, st, maxEdit)
	if err != nil {
		return nil, nil, err
	}
	return b, &change{c: c, ctx: ctx, t: t, call: call, st: st, old: &st, src: b}, nil
}

// guard is nil if the session has read the file as it is.
func (ch *change) guard() error {
	return ch.c.state.Guard(ch.call.SessionID(), ch.t, ch.st, func() (file.Hash, error) { return file.Hash(sha256.Sum256(ch.src)), nil })
}

// store keeps a copy of the old bytes and puts new ones in their place. kept says whether there
// is a copy: one is kept for a message of a session, and failing to never stops a change.
func (ch *change) store(out []byte, mkdir bool) (kept bool, err error) {
	if err := file.Aborted(ch.ctx); err != nil {
		return false, err
	}
	session, message := ch.call.SessionID(), ch.call.MessageID()
	op := "create"
	if ch.old != nil {
		op = "write"
		if session != "" && message != "" {
			kept = ch.keep(session, message)
		}
	}
	st, err := ch.t.Replace(ch.ctx, ch.old, out, mkdir)
	if err != nil {
		return kept, err
	}
	ch.call.Note(tool.HostEffect{Op: op, Target: ch.t.Path})
	ch.st = st
	h := file.Hash(sha256.Sum256(out))
	ch.c.state.Saw(session, ch.t, st, &h)
	return kept, nil
}

// readOnly is a word about a file whose mode lets nobody write: replacing it goes without.
func (ch *change) readOnly() string {
	if ch.old == nil || ch.old.Perm&0o222 != 0 {
		return ""
	}
	return fmt.Sprintf("The file is marked read-only (mode %04o); it was changed all the same, and keeps its mode.", ch.old.Perm)
}

// keep keeps a copy, and says whether it could.
func (ch *change) keep(session, message string) bool {
	if ch.src != nil {
		return ch.c.history.Keep(session, message, ch.t, bytes.NewReader(ch.src)) == nil
	}
	f, _, err := ch.t.Open() // too large to have been read
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // read only
	return ch.c.history.Keep(session, message, ch.t, stopReader{ch.ctx, f}) == nil
}

// maxContent is how much old and new content goes into the metadata, in bytes; more is given
// by its hash only.
const maxContent = 256 << 10

// contents puts the old and the new content into metadata.
func contents(meta map[string]any, before, after string) {
	if len(before) <= maxContent && len(after) <= maxContent {
		meta["oldContent"], meta["newContent"] = before, after
		return
	}
	meta["oldSha256"], meta["newSha256"] = hexHash(before), hexHash(after)
}

// identity puts the ids of the call into metadata, where it has some.
func identity(meta map[string]any, call *tool.Call) {
	if s := call.SessionID(); s != "" {
		meta["session_id"] = s
	}
	if m := call.MessageID(); m != "" {
		meta["message_id"] = m
	}
}

// sensitivePath warns where a change is of a file that usually holds secrets.
func sensitivePath(input []byte) tool.Partial {
	if file.Sensitive(member(input, "file_path")) {
		return tool.Partial{Destructive: ptr(true)}
	}
	return tool.Partial{}
}

// writer is a tool that changes a file.
type writer struct{ *native }

// CheckPermissions has a person asked about files that others obey, also in a mode that lets changes pass.
func (w writer) CheckPermissions(_ context.Context, call *tool.Call) (tool.Permission, error) {
	p := member(call.Input, w.key)
	if policy.Mode(call.Mode()) == policy.ModeYolo {
		return tool.Permission{Behavior: tool.PermissionAllow}, nil
	}
	for _, name := range []string{filepath.Clean(p), file.RealPath(p)} {
		if why := file.Obeyed(name); why != "" {
			return tool.Permission{Behavior: tool.PermissionAsk, Message: clip(p) + ": " + why}, nil
		}
	}
	return tool.Permission{Behavior: tool.PermissionAllow}, nil
}

// PermissionSignature is as of other tools, but suggests no wider rule for a file that others obey.
func (w writer) PermissionSignature(input json.RawMessage) (content, rule string) {
	content, rule = w.native.PermissionSignature(input)
	if file.Obeyed(content) != "" || file.Obeyed(file.RealPath(content)) != "" {
		rule = content
	}
	return content, rule
}

var _ tool.PermissionChecker = writer{}
