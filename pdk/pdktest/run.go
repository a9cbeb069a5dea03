package pdktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

type phase int

const (
	phaseDescribe phase = iota
	phaseWarm
	phaseExecute
	phaseAfterRet
	phaseOver
)

// run is the host's side of one call.
type run struct {
	host *Host
	spec *abi.ToolSpec
	ctx  context.Context

	mu         sync.Mutex
	phase      phase
	input      []byte
	slots      map[uint16][]byte
	nextSlot   uint16
	yields     []abi.Yield
	yieldBytes int
	counted    int
	logs       []Line
	cancel     abi.Cancel
	polls      int
	deadline   time.Time
	rets       int
	status     int32
	result     []byte
	violations []string
}

var _ pdk.Host = (*run)(nil)

func newRun(h *Host, spec *abi.ToolSpec, input []byte) *run {
	r := &run{host: h, spec: spec, ctx: context.Background(), phase: phaseExecute, input: input, slots: map[uint16][]byte{}}
	if h.Timeout > 0 {
		r.deadline = time.Now().Add(h.Timeout)
	}
	return r
}

// allowed notes a violation where fn may not be called in this phase.
func (r *run) allowed(fn string) bool {
	if r.phase == phaseExecute {
		return true
	}
	where := map[phase]string{phaseDescribe: "in blade_describe", phaseWarm: "in blade_warm", phaseAfterRet: "after ret", phaseOver: "after the call ended"}
	r.violations = append(r.violations, fn+" was called "+where[r.phase])
	if r.phase < phaseExecute {
		panic("pdktest: " + fn + " was called " + where[r.phase])
	}
	return false
}

// Take copies bytes of a slot; an answer's slot is freed by a take of nothing.
func (r *run) Take(slot uint32, buf []byte) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.allowed("take") {
		return 0
	}
	if slot == 0 {
		n := copy(buf, r.input)
		r.input = r.input[n:]
		return n
	}
	rest, ok := r.slots[uint16(slot)]
	if !ok || slot > 0xffff {
		return 0
	}
	n := copy(buf, rest)
	if n == 0 {
		delete(r.slots, uint16(slot))
		return 0
	}
	r.slots[uint16(slot)] = rest[n:]
	return n
}

// Call asks a service of the test.
func (r *run) Call(name string, frame []byte) uint64 {
	r.mu.Lock()
	if !r.allowed("call") {
		r.mu.Unlock()
		return abi.PackCall(abi.CallFailed, 0, 0)
	}
	if r.cancelled() != abi.CancelNone {
		r.mu.Unlock()
		return abi.PackCall(abi.CallCancelled, 0, 0)
	}
	if len(r.slots) >= abi.MaxAnswers {
		r.mu.Unlock()
		return abi.PackCall(abi.CallOverLimit, 0, 0)
	}
	r.mu.Unlock()
	status, answer := r.ask(name, frame)
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.nextSlot++; r.nextSlot == 0 || r.slots[r.nextSlot] != nil; r.nextSlot++ {
	}
	r.slots[r.nextSlot] = answer
	return abi.PackCall(status, r.nextSlot, uint32(len(answer)))
}

func (r *run) ask(name string, frame []byte) (abi.CallStatus, []byte) {
	head, body, err := r.serve(name, frame)
	if err != nil {
		status, e := statusOf(err)
		raw, _ := abi.Marshal(e)
		return status, abi.EncodeFrame(raw, nil)
	}
	return abi.CallOK, abi.EncodeFrame(head, body)
}

func (r *run) serve(name string, frame []byte) (json.RawMessage, []byte, error) {
	if err := r.declared(name); err != nil {
		return nil, nil, err
	}
	s, ok := r.host.services[name]
	if !ok {
		return nil, nil, abi.NewError(abi.CodeUnknownService, "the test set no service %q", name)
	}
	head, body, err := abi.DecodeFrame(append([]byte(nil), frame...))
	if err == nil {
		err = strict(head)
	}
	if err == nil && bytes.TrimLeft(head, " \t\r\n")[0] != '{' {
		err = errors.New("the head is no object")
	}
	if err != nil {
		return nil, nil, abi.NewError(abi.CodeRequest, "the request to %s: %v", name, err)
	}
	answer, rest, err := s(r.ctx, head, body)
	if err != nil {
		return nil, nil, err
	}
	if answer == nil {
		answer = struct{}{}
	}
	raw, err := abi.Marshal(answer)
	return raw, rest, err
}

// declared checks what the manifest must hold for a service to be lent.
func (r *run) declared(name string) error {
	need := ""
	for _, s := range abi.HostServices() {
		if s.Name == name {
			need = s.Declare
		}
	}
	m, c := r.host.manifest, r.host.manifest.Requested()
	ok := false
	switch need {
	case "always":
		ok = true
	case "config":
		ok = m.Config != nil
	case "requiresRuntime":
		ok = r.spec.RequiresRuntime
	case "capabilities.http":
		ok = c.HTTP != nil
	case "capabilities.kv":
		ok = c.KV != nil
	case "capabilities.secrets":
		ok = len(c.Secrets) > 0
	default:
		service, _, _ := strings.Cut(name, ".")
		if !abi.KnownService(service) {
			return abi.NewError(abi.CodeUnknownService, "there is no service %q", name)
		}
		need = "services: [" + service + "]"
		for _, s := range r.spec.Services {
			ok = ok || s == service
		}
	}
	if !ok {
		return abi.NewError(abi.CodeNotDeclared, "%s did not declare %s (%s)", r.spec.Name, name, need)
	}
	return nil
}

// Yield judges and records a yield.
func (r *run) Yield(b []byte) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.allowed("yield") {
		return abi.YieldRejected
	}
	if r.cancelled() != abi.CancelNone {
		return abi.YieldCancelled
	}
	y, answer := Judge(r.spec, b)
	if answer != abi.YieldOK {
		return answer
	}
	if y.Kind != abi.YieldProgress {
		if r.counted >= abi.MaxYields || r.yieldBytes+len(b) > abi.MaxYieldBytes {
			return abi.YieldOverLimit
		}
		r.counted++
		r.yieldBytes += len(b)
	}
	r.yields = append(r.yields, *y)
	if r.host.OnYield != nil {
		if reason := r.host.OnYield(*y); reason != abi.CancelNone && r.cancel == abi.CancelNone {
			r.cancel = reason
		}
	}
	return abi.YieldOK
}

// Judge is what a host answers to one yield of a tool, before it counts it.
func Judge(spec *abi.ToolSpec, b []byte) (*abi.Yield, int32) {
	if len(b) > abi.MaxYield {
		return nil, abi.YieldOverLimit
	}
	if strict(b) != nil {
		return nil, abi.YieldRejected
	}
	y, issues := abi.ParseYield(b)
	if issues != nil || !spec.MayYield(y.Kind) || (y.Kind == abi.YieldEffect && !spec.MayEffect(y.Effect.Type)) {
		return nil, abi.YieldRejected
	}
	y.Data = append(json.RawMessage(nil), y.Data...)
	return y, abi.YieldOK
}

// Ret records the result.
func (r *run) Ret(status int32, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == phaseDescribe {
		r.status, r.result = status, append([]byte(nil), b...)
		return
	}
	if r.rets++; r.rets > 1 {
		r.violations = append(r.violations, "ret was called twice")
		return
	}
	if r.allowed("ret") {
		r.status, r.result = status, append([]byte(nil), b...)
		r.phase = phaseAfterRet
	}
}

// publish is the result that a host makes of what ret got.
func (r *run) publish() *abi.Result {
	if r.rets == 0 {
		return abi.Failure(abi.NewError(abi.CodeGuestNoResult, "the tool returned without a result"))
	}
	if len(r.result) <= abi.MaxResult {
		if err := strict(r.result); err != nil {
			return abi.Failure(abi.NewError(abi.CodeResultNotJSON, "the tool's answer is not strict JSON: %v", err))
		}
	}
	return abi.Publish(r.status, r.result)
}

// Log records a line.
func (r *run) Log(level int32, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if level < int32(abi.LogTrace) || level > int32(abi.LogError) {
		level = int32(abi.LogInfo)
	}
	r.logs = append(r.logs, Line{abi.LogLevel(level), text})
}

// Cancelled is the reason, once there is one.
func (r *run) Cancelled() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != phaseExecute && r.phase != phaseAfterRet {
		return 0
	}
	r.polls++
	return int32(r.cancelled())
}

func (r *run) cancelled() abi.Cancel {
	switch {
	case r.cancel != abi.CancelNone:
	case !r.deadline.IsZero() && !time.Now().Before(r.deadline):
		r.cancel = abi.CancelDeadline
	case r.host.CancelAfter > 0 && r.polls >= r.host.CancelAfter:
		if r.cancel = r.host.CancelReason; r.cancel == abi.CancelNone {
			r.cancel = abi.CancelRequest
		}
	}
	return r.cancel
}

// Deadline is the milliseconds left.
func (r *run) Deadline() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deadline.IsZero() {
		return -1
	}
	return max(0, time.Until(r.deadline).Milliseconds())
}
