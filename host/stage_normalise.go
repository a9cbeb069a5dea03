package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

// completed stands for a result without content: a model must not read an empty
// message.
const completed = "Execution completed"

// normalise checks the result against what the contract promises its readers.
func (r *run) normalise() {
	r.checkResult()
	r.scrub()
	r.limit()
	r.stamp()
}

func (r *run) checkResult() {
	res := r.result
	if len(res.Model)+len(res.Data) > 2*abi.MaxResult {
		r.fail(abi.NewError(abi.CodeResultTooBig, "the result has %d bytes, at most %d are allowed", len(res.Model)+len(res.Data), 2*abi.MaxResult))
		return
	}
	if err := strictResult(res, r.entry == nil || r.entry.guest == nil); err != nil {
		r.fail(abi.NewError(abi.CodeResultNotJSON, "the tool's result is %v", err))
		return
	}
	if r.entry == nil || r.entry.output == nil || res.IsError() {
		return
	}
	data := res.Data
	if data == nil {
		r.fail(abi.NewError(abi.CodeOutputSchema, "%s declares an output schema, but its result has no data", r.canonical()))
		return
	}
	issues, err := r.entry.output.Validate(data)
	if err != nil {
		r.fail(abi.NewError(abi.CodeOutputSchema, "the data of %s cannot be checked: %v", r.canonical(), err))
	} else if len(issues) > 0 {
		r.fail(tool.InvalidIssues(abi.CodeOutputSchema, fmt.Sprintf("the data of %s does not fit its output schema:", r.canonical()), issues))
	}
}

// strictResult checks the parts that were written by hand. The metadata of a guest
// was checked by the engine.
func strictResult(r *abi.Result, metadata bool) error {
	parts := []json.RawMessage{r.Model, r.Data}
	if r.Display != nil {
		parts = append(parts, r.Display.Detail)
	}
	if r.Error != nil {
		parts = append(parts, r.Error.Details)
	}
	for i, p := range parts {
		if p == nil || (i == 1 && len(r.Model) > 0 && len(p) == len(r.Model) && &p[0] == &r.Model[0]) {
			continue // absent, or data that is the same bytes as model
		}
		if err := strictjson.Check(p); err != nil {
			return err
		}
	}
	if !metadata {
		return nil
	}
	for k, v := range r.Metadata {
		if _, err := strictjson.Encode(v); err != nil {
			return fmt.Errorf("not JSON in its metadata %q: %w", clip(k), err)
		}
	}
	return nil
}

// limit keeps what is too long for a model as an artifact and leaves a preview
// with a handle. Data stays whole.
func (r *run) limit() {
	res := r.result
	if r.cut != nil && bytes.Equal(res.Model, r.cut) {
		return // what an earlier limit left stands, even where its note is long
	}
	if m := strings.TrimSpace(string(res.Model)); m == "" || m == "null" || m == `""` {
		r.leave(completed)
		return
	}
	if r.entry == nil || r.entry.spec.MaxResultSize <= 0 {
		return
	}
	most := r.entry.spec.MaxResultSize
	if len(res.Model) <= most {
		return
	}
	text := modelText(res.Model)
	n := utf16Len(text)
	if n <= most {
		return
	}
	if r.kept == nil {
		res.SetMeta("resultSizeLimit", most)
		res.SetMeta("modelContentOriginalLength", n)
	}
	art, err := r.s.h.artifacts.resultArtifact(r.s.opt.ID, r.canonical(), res.Model)
	if err != nil {
		r.s.h.log.Error("a large result could not be kept; it is cut", "tool", r.canonical(), "err", err)
		res.SetMeta("resultTruncated", true)
		r.leave(truncate(text, n, most))
		return
	}
	if r.kept == nil { // of what a hook made large again, only the text tells
		r.kept = &art
		res.SetMeta("resultExternalized", true)
		res.SetMeta("resultArtifactPath", art.Path)
		res.SetMeta("resultArtifactHandle", art.Handle)
		res.SetMeta("sha256", art.SHA256)
		res.SetMeta("bytes", art.Bytes)
	}
	r.leave(preview(text, n, most, art))
}

// leave makes a text the model content that the limit does not touch again.
func (r *run) leave(text string) {
	r.cut = abi.String(text)
	r.result.Model = r.cut
}

// modelText is what is counted: the letters of a string, of anything else the
// compact JSON.
func modelText(model json.RawMessage) string {
	var text string
	if model[0] == '"' && json.Unmarshal(model, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, model) != nil { // it was checked
		return string(model)
	}
	return b.String()
}

// previewSize is how much of a large result the model still reads, in UTF-16
// units, or the tool's own limit where that is smaller.
const previewSize = 2000

func preview(text string, n, most int, art Artifact) string {
	note := fmt.Sprintf("\n\n…[%d characters in all; the whole result is the artifact %s, also at %s]", n, art.Handle, art.Path)
	return cutUTF16(text, max(0, min(previewSize, most-utf16Len(note)))) + note
}

func truncate(text string, n, most int) string {
	suffix := fmt.Sprintf("\n\n...[truncated %d chars]", n-most)
	room := most - len(utf16.Encode([]rune(suffix)))
	if room <= 0 {
		return cutUTF16(text, most)
	}
	return cutUTF16(text, room) + suffix
}

func (r *run) stamp() {
	r.result.SetMeta("executionId", r.executionID)
	r.result.SetMeta("toolName", r.canonical())
	r.result.SetMeta("timestamp", now().UnixMilli())
	r.out.Lock()
	defer r.out.Unlock()
	if len(r.hostEffects) > 0 {
		r.result.SetMeta("hostEffects", append([]tool.HostEffect(nil), r.hostEffects...))
	}
}

// postHooks let hooks look at the result and change what the model reads. They
// cannot hide a failure, and none run once the call was cancelled.
func (r *run) postHooks() {
	if r.entry == nil || !r.started || r.ctx.Err() != nil {
		return
	}
	in := HookInput{Event: HookPostToolUse, ToolCallID: r.call.ID, ToolName: r.canonical(), ToolInput: r.input, ToolOutput: r.result.Model}
	if r.result.IsError() {
		in.Event, in.Error = HookPostToolFailure, r.result.Error
	}
	m, err := r.s.fire(r.ctx, in, r.s.opt.HookTimeout)
	switch {
	case r.result.IsError():
		if err == nil && m.ModifiedOutput != nil && strictjson.Check(m.ModifiedOutput) == nil {
			r.result.Model = m.ModifiedOutput
		}
	case err != nil:
		r.replace(abi.AsError(err))
	case m.Action == HookAbort:
		r.replace(abi.NewError(abi.CodeDeniedHook, "%s", orText(m.Reason, "a hook stopped the call after it ran")))
	case m.ModifiedOutput != nil:
		if err := strictjson.Check(m.ModifiedOutput); err != nil {
			r.replace(abi.NewError(abi.CodeHookFailed, "the output that a hook changed is %v", err))
			return
		}
		r.result.Model = m.ModifiedOutput
	}
}

// replace makes an error result that keeps the metadata of the one it replaces.
func (r *run) replace(e *abi.Error) {
	meta := r.result.Metadata
	r.fail(e)
	for k, v := range meta {
		r.result.SetMeta(k, v)
	}
}
