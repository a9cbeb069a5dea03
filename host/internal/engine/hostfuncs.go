package engine

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/abi"
)

// hostModule puts these functions of abi.ImportModule into a runtime.
func hostModule(ctx context.Context, rt wazero.Runtime, names []string) error {
	b := rt.NewHostModuleBuilder(abi.ImportModule)
	funcs := map[string]func(*instance, []uint64){
		abi.FuncTake: (*instance).take, abi.FuncCall: (*instance).serve, abi.FuncYield: (*instance).yield,
		abi.FuncRet: (*instance).done, abi.FuncLog: (*instance).logLine, abi.FuncCancelled: (*instance).cancelled,
		abi.FuncDeadline: (*instance).deadline,
	}
	for name, sig := range abi.Imports() {
		if !slices.Contains(names, name) {
			continue
		}
		f := funcs[name]
		// A guest that asks now learns that it should stop before it is stopped, and
		// one that hands over its result at the last moment keeps it.
		asks := name == abi.FuncCancelled || name == abi.FuncYield || name == abi.FuncCall
		hands := name == abi.FuncRet
		b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) {
			i := instanceOf(ctx)
			if asks && i.phase >= phaseRun {
				i.why()
			}
			if !hands {
				i.tick()
			}
			f(i, stack)
		}), valueTypes(sig.Params), valueTypes(sig.Results)).Export(name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

func valueTypes(list []abi.ValueType) []api.ValueType {
	out := make([]api.ValueType, len(list))
	for i, t := range list {
		out[i] = api.ValueType(t)
	}
	return out
}

// only ends the call if the guest is not in a phase that allows the function.
func (i *instance) only(name string, allowed ...phase) {
	for _, p := range allowed {
		if i.phase == p {
			return
		}
	}
	if i.phase == phaseReturned {
		i.violate(abi.CodeGuestAfterRet, "the tool called %s after it had handed over its result", name)
	}
	i.violate(abi.CodeGuestPhase, "the module called %s in %s, where only log, cancelled and deadline are allowed", name, phaseNames[i.phase])
}

// view is guest memory, valid until the guest runs on.
func (i *instance) view(name string, ptr, n uint32) []byte {
	b, ok := i.mem.Read(ptr, n)
	if !ok {
		i.violate(abi.CodeGuestPointer, "the tool passed %d bytes at %#x to %s; its memory has %d bytes", n, ptr, name, i.mem.Size())
	}
	return b
}

// copied is a copy of guest memory.
func (i *instance) copied(name string, ptr, n uint32) []byte {
	return bytes.Clone(i.view(name, ptr, n))
}

// take(slot, ptr, cap) -> count.
func (i *instance) take(stack []uint64) {
	i.only(abi.FuncTake, phaseRun)
	slot, ptr, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	dst := i.view(abi.FuncTake, ptr, n)
	if n >= largeCopy {
		i.memory.populate(uint64(ptr), uint64(ptr)+uint64(n))
	}
	count := 0
	switch {
	case slot == 0:
		count = copy(dst, i.input)
		i.input = i.input[count:]
	case slot <= 0xffff:
		count = i.answers.take(uint16(slot), dst)
	}
	stack[0] = uint64(count)
}

// largeCopy is from how many bytes on it pays to ask for all pages of the guest's
// memory at once: a page fault each takes five times as long as the copy.
const largeCopy = 256 << 10

// done is ret(status, ptr, len).
func (i *instance) done(stack []uint64) {
	if i.phase == phaseReturned {
		i.violate(abi.CodeGuestTwice, "the tool called %s twice", abi.FuncRet)
	}
	i.only(abi.FuncRet, phaseRun, phaseDescribe)
	status, ptr, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	if status > abi.RetError {
		i.violate(abi.CodeGuestProtocol, "the tool called %s with status %d; 0, 1 and 2 are known", abi.FuncRet, status)
	}
	b := i.view(abi.FuncRet, ptr, n)
	i.ret = returned{set: true, status: status}
	if n > abi.MaxResult {
		i.ret.big = true
	} else {
		i.ret.bytes = bytes.Clone(b)
	}
	if i.phase == phaseRun {
		i.phase = phaseReturned
		i.retAt = time.Now()
	}
}

// logLine is log(level, ptr, len).
func (i *instance) logLine(stack []uint64) {
	level, ptr, n := abi.LogLevel(int32(stack[0])), uint32(stack[1]), uint32(stack[2])
	view := i.view(abi.FuncLog, ptr, n)
	log := i.plugin.e.log
	if lv := slogLevel(level); i.mayLog(len(view)) && log.Enabled(context.Background(), lv) {
		log.Log(context.Background(), lv, strings.ToValidUTF8(string(view), "\ufffd"), "tool", i.name())
	}
}

// mayLog takes n bytes of what the call may log; a line with nothing in it is some, too.
func (i *instance) mayLog(n int) bool {
	if i.logged > abi.MaxLog {
		return false
	}
	if n == 0 {
		n = emptyLine
	}
	if i.logged += n; i.logged > abi.MaxLog {
		i.logged = abi.MaxLog + 1
		i.plugin.e.log.Warn("the rest of the tool's log is dropped: its limit is reached", "bytes", abi.MaxLog)
		return false
	}
	return true
}

// What lines take of what a call may log that are not the guest's words: about their
// length.
const (
	rejectedYield = 256
	emptyLine     = 64
)

func (i *instance) name() string {
	if i.spec != nil {
		return i.spec.Name
	}
	return i.plugin.name()
}

func (p *Plugin) name() string {
	if p.mod.Manifest != nil {
		return p.mod.Manifest.Name
	}
	return "plugin"
}

func slogLevel(l abi.LogLevel) slog.Level {
	switch l {
	case abi.LogTrace:
		return slog.LevelDebug - 4
	case abi.LogDebug:
		return slog.LevelDebug
	case abi.LogWarn:
		return slog.LevelWarn
	case abi.LogError:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// cancelled() -> reason.
func (i *instance) cancelled(stack []uint64) {
	if stack[0] = 0; i.phase >= phaseRun {
		stack[0] = uint64(uint32(i.why()))
	}
}

// deadline() -> milliseconds left, -1 for none.
func (i *instance) deadline(stack []uint64) {
	none := int64(-1)
	stack[0] = uint64(none)
	if i.phase < phaseRun {
		return
	}
	if t, ok := i.ctx.Deadline(); ok {
		stack[0] = uint64(max(0, time.Until(t).Milliseconds()))
	}
}

// serve is call(name_ptr, name_len, ptr, len) -> status, slot, length.
func (i *instance) serve(stack []uint64) {
	i.only(abi.FuncCall, phaseRun)
	namePtr, nameLen, ptr, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	if i.answers.full() {
		stack[0] = abi.PackCall(abi.CallOverLimit, 0, 0)
		return
	}
	if i.why() != abi.CancelNone {
		i.answer(stack, nil, abi.NewError(abi.CodeAborted, "the call is cancelled: %s", i.why()), abi.CallCancelled)
		return
	}
	if nameLen > abi.MaxServiceName {
		i.answer(stack, nil, abi.NewError(abi.CodeRequest, "the service's name has %d bytes, at most %d are allowed", nameLen, abi.MaxServiceName), abi.CallInvalid)
		return
	}
	name := string(i.view(abi.FuncCall, namePtr, nameLen))
	if n > 4+abi.MaxFrameHead+abi.MaxFrameBody {
		i.answer(stack, nil, abi.NewError(abi.CodeServiceLimit, "the request to %q has %d bytes", name, n), abi.CallOverLimit)
		return
	}
	frame := i.copied(abi.FuncCall, ptr, n)
	if !utf8.ValidString(name) {
		i.answer(stack, nil, abi.NewError(abi.CodeRequest, "the service's name is not UTF-8"), abi.CallInvalid)
		return
	}
	ans, err, status := i.service(name, frame)
	i.answer(stack, ans, err, status)
}

// answer puts an answer into a slot and packs it for the guest.
func (i *instance) answer(stack []uint64, ans *answer, err *abi.Error, status abi.CallStatus) {
	if status == abi.CallCancelled {
		i.noticed = true
	}
	if err != nil {
		head, e := abi.Marshal(err)
		if e != nil || len(head) > abi.MaxFrameHead {
			head, _ = abi.Marshal(abi.Error{Message: clipText(err.Message), Type: err.Type, Code: err.Code}) // plain fields always have a JSON form
		}
		ans = newAnswer(head, nil, nil)
	}
	slot := i.answers.put(ans)
	stack[0] = abi.PackCall(status, slot, uint32(ans.len()))
}

// why is the cancel reason as the guest learns it.
func (i *instance) why() abi.Cancel {
	i.polled = true
	if i.ctx.Err() == nil {
		return abi.CancelNone
	}
	i.noticed = true
	return reason(i.ctx)
}
