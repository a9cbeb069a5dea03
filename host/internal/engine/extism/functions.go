package extism

import (
	"context"
	"log/slog"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// maxVars bounds the variables of a call, which end with it.
const maxVars = 1 << 20

// function is a host function: it is called with the arguments in stack and puts
// its result there.
type function func(r *run, stack []uint64)

// redirected is an import of another module that is answered here.
type redirected struct {
	from string
	typ  wasm.FuncType
	f    function
}

// answered are the functions of other modules that are answered here and not by
// the SDK: it would lend the network and settings, use a log level that all of
// the process shares, and let a guest write over what holds the kernel together.
func answered() map[string]redirected {
	env := func(p, r string, f function) redirected { return redirected{envModule, signature(p, r), f} }
	none := func(_ *run, stack []uint64) { clear(stack) }
	return map[string]redirected{
		"alloc": env("I", "I", (*run).alloc), "free": env("I", "", (*run).free), "reset": env("", "", none),
		"length": env("I", "I", (*run).length), "length_unsafe": env("I", "I", (*run).length),
		"load_u8": env("I", "i", (*run).load8), "load_u64": env("I", "I", (*run).load64),
		"store_u8": env("Ii", "", (*run).store8), "store_u64": env("II", "", (*run).store64),
		"input_load_u8": env("I", "i", (*run).input8), "input_load_u64": env("I", "I", (*run).input64),
		"config_get": env("I", "I", none), "http_status_code": env("", "i", none), "http_headers": env("", "I", none),
		"http_request": env("II", "I", (*run).noNetwork),
		"var_get":      env("I", "I", (*run).varGet), "var_set": env("II", "", (*run).varSet),
		"get_log_level": env("", "i", (*run).logLevel),
		"log_trace":     env("I", "", logAt(abi.LogTrace)), "log_debug": env("I", "", logAt(abi.LogDebug)),
		"log_info": env("I", "", logAt(abi.LogInfo)), "log_warn": env("I", "", logAt(abi.LogWarn)), "log_error": env("I", "", logAt(abi.LogError)),
		"proc_exit": {abi.WASIModule, signature("i", ""), (*run).exit},
	}
}

// hostFunctions are the functions that a module imports and that are answered
// here, and the one that refills its fuel.
func hostFunctions(info *wasm.Info) []sdk.HostFunction {
	out := []sdk.HostFunction{hostFunction(wasm.MeterModule, wasm.RefillName, wasm.FuncType{}, (*run).refill)}
	seen := map[[2]string]bool{}
	own := answered()
	for _, im := range info.Imports {
		f, module := function(nil), im.Module
		switch r, ok := own[im.Name]; {
		case ok && r.from == im.Module:
			f, module = r.f, ownModule
		case im.Module != userModule:
			continue
		case im.Name == yieldName:
			f = (*run).yield
		case im.Name == callName:
			f = (*run).serve
		default: // a notification
			f = func(_ *run, stack []uint64) { clear(stack) }
		}
		if id := [2]string{module, im.Name}; !seen[id] {
			seen[id] = true
			out = append(out, hostFunction(module, im.Name, im.Type, f))
		}
	}
	return out
}

func hostFunction(module, name string, t wasm.FuncType, f function) sdk.HostFunction {
	h := sdk.NewHostFunctionWithStack(name, func(ctx context.Context, p *sdk.CurrentPlugin, stack []uint64) {
		r, _ := ctx.Value(runKey{}).(*run)
		if r.function, r.plugin = name, p; r.meter.calls == 0 {
			r.own(ctx)
		}
		r.tick()
		f(r, stack)
	}, types(t.Params), types(t.Results))
	h.SetNamespace(module)
	return h
}

func types(list []wasm.ValType) []sdk.ValueType {
	out := make([]sdk.ValueType, len(list))
	for i, t := range list {
		out[i] = api.ValueType(t)
	}
	return out
}

// violate ends the guest. It does not return.
func (r *run) violate(code abi.Code, format string, args ...any) {
	r.violation = abi.NewError(code, format, args...)
	panic(r.violation)
}

func (r *run) noNetwork([]uint64) {
	r.violate(abi.CodeNetBlocked, "the plugin used Extism's http_request, which this host does not lend: it would follow redirects to anywhere. A plugin reaches the network through the service http.request, with capabilities.http in its manifest and a grant")
}

func (r *run) exit(stack []uint64) {
	r.violate(abi.CodeGuestExit, "the tool ended its process with exit code %d instead of returning a result", uint32(stack[0]))
}

func (r *run) varGet(stack []uint64) {
	name, over := r.block(stack[0], maxVars)
	value, ok := r.vars[string(name)]
	if stack[0] = 0; ok && !over {
		stack[0] = r.put(value)
	}
}

func (r *run) varSet(stack []uint64) {
	name, _ := r.block(stack[0], maxVars)
	r.varBytes -= len(r.vars[string(name)])
	if stack[1] == 0 {
		delete(r.vars, string(name))
		return
	}
	value, over := r.block(stack[1], maxVars)
	if r.varBytes += len(value); over || r.varBytes > maxVars || len(r.vars) > 1000 {
		r.violate(abi.CodeGuestProtocol, "the plugin keeps more than %d bytes or 1000 variables in a call", maxVars)
	}
	r.vars[string(name)] = value
}

// logLevel tells the guest what is worth logging.
func (r *run) logLevel(stack []uint64) {
	for l := abi.LogTrace; ; l++ {
		if stack[0] = uint64(l); l == abi.LogError || r.log().Enabled(context.Background(), slogLevel(l)) {
			return
		}
	}
}

func logAt(level abi.LogLevel) function {
	return func(r *run, stack []uint64) {
		if r.logged > abi.MaxLog {
			return
		}
		b, over := r.block(stack[0], abi.MaxLog)
		n := len(b)
		if over {
			n = abi.MaxLog + 1
		}
		if r.mayLog(n) {
			r.log().Log(context.Background(), slogLevel(level), text(b), "tool", r.tool)
		}
	}
}

// mayLog takes n bytes of what the call may log; a line with nothing in it is some, too.
func (r *run) mayLog(n int) bool {
	if r.logged > abi.MaxLog {
		return false
	}
	if n == 0 {
		n = emptyLine
	}
	if r.logged += n; r.logged > abi.MaxLog {
		r.logged = abi.MaxLog + 1
		r.log().Warn("the rest of the tool's log is dropped: its limit is reached", "bytes", abi.MaxLog)
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

func slogLevel(l abi.LogLevel) slog.Level {
	return map[abi.LogLevel]slog.Level{
		abi.LogTrace: slog.LevelDebug - 4, abi.LogDebug: slog.LevelDebug, abi.LogInfo: slog.LevelInfo, abi.LogWarn: slog.LevelWarn, abi.LogError: slog.LevelError,
	}[l]
}

// only ends the guest if no call of a tool runs.
func (r *run) only() {
	if r.call == nil {
		r.violate(abi.CodeGuestPhase, "the module called %s while it described itself", r.function)
	}
}

// yield is blade_yield(offset) -> code.
func (r *run) yield(stack []uint64) {
	r.only()
	b, over := r.block(stack[0], abi.MaxYield)
	switch {
	case over:
		stack[0] = abi.YieldOverLimit
	case r.why() != abi.CancelNone:
		stack[0] = abi.YieldCancelled
	default:
		stack[0] = r.send(b)
	}
}

// serve is blade_call(name, frame) -> the answer's offset in bits 0 to 47, the
// status above it.
func (r *run) serve(stack []uint64) {
	r.only()
	name, long := r.block(stack[0], abi.MaxServiceName)
	frame, over := r.block(stack[1], 4+abi.MaxFrameHead+abi.MaxFrameBody)
	var (
		ans    []byte
		err    *abi.Error
		status abi.CallStatus
	)
	switch {
	case r.why() != abi.CancelNone:
		err, status = abi.NewError(abi.CodeAborted, "the call is cancelled: %s", r.why()), abi.CallCancelled
	case long:
		err, status = abi.NewError(abi.CodeRequest, "the service's name has more than %d bytes", abi.MaxServiceName), abi.CallInvalid
	case over:
		err, status = abi.NewError(abi.CodeServiceLimit, "the request to %q is too large", text(name)), abi.CallOverLimit
	default:
		ans, err, status = r.ask(text(name), frame)
	}
	if err != nil {
		ans = errorFrame(err)
	}
	stack[0] = uint64(status)<<48 | r.put(ans)
}
