package pdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/bladehost/bladehost/abi"
)

// ServiceError is why a service call failed. It unwraps to the host's error
// object, so abi.CodeOf and errors.Is by code work, and to a *CancelError when
// the call should stop.
type ServiceError struct {
	Service string
	Status  abi.CallStatus
	Err     error
}

// Error names the service and the reason.
func (e *ServiceError) Error() string { return e.Service + ": " + e.Err.Error() }

// Unwrap is the host's error.
func (e *ServiceError) Unwrap() error { return e.Err }

// CallService asks a service for something: head is any value whose JSON is an
// object (nil means {}), body the bytes behind it. It returns the head of the
// answer and its bytes. Several goroutines may call at once. A failure is a
// *ServiceError.
func CallService(ctx context.Context, name string, head any, body []byte) (json.RawMessage, []byte, error) {
	s, err := stateOf(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	frame, err := request(head, body)
	if err != nil {
		return nil, nil, &ServiceError{name, abi.CallInvalid, Errorf("invalid_request", "the request has no JSON form: %w", err)}
	}
	status, slot, length := abi.UnpackCall(s.host.Call(name, frame))
	answer := drain(s.host, slot, length)
	if status != abi.CallOK {
		return nil, nil, &ServiceError{name, status, s.failure(status, answer)}
	}
	h, b, err := abi.DecodeFrame(answer)
	if err != nil {
		return nil, nil, &ServiceError{name, abi.CallFailed, fmt.Errorf("the answer of the host: %w", err)}
	}
	return h, b, nil
}

// callJSON asks a service whose answer is its head alone.
func callJSON[A any](ctx context.Context, name string, head any, answer *A) error {
	h, _, err := CallService(ctx, name, head, nil)
	if err != nil {
		return err
	}
	return decodeHead(name, h, answer)
}

// callOnly asks a service whose answer says nothing.
func callOnly(ctx context.Context, name string, head any) error {
	_, _, err := CallService(ctx, name, head, nil)
	return err
}

// decodeHead reads a head into a zero value.
func decodeHead[A any](name string, head json.RawMessage, into *A) error {
	if err := unmarshal(head, into); err != nil {
		return &ServiceError{name, abi.CallFailed, fmt.Errorf("the answer of the host: %w", err)}
	}
	return nil
}

// request encodes a frame in one buffer.
func request(head any, body []byte) ([]byte, error) {
	if head == nil {
		head = struct{}{}
	}
	var buf bytes.Buffer
	h, err := encode(&buf, head)
	if err != nil {
		return nil, err
	}
	return abi.EncodeFrame(h, body), nil
}

// drain takes an answer out of its slot and frees it. Another goroutine may run
// between call and take: each answer has a slot of its own.
func drain(h Host, slot uint16, length uint32) []byte {
	if slot == 0 {
		return nil
	}
	buf := make([]byte, length)
	got := 0
	for got < len(buf) {
		n := h.Take(uint32(slot), buf[got:])
		if n == 0 {
			return buf[:got] // freed already
		}
		got += n
	}
	h.Take(uint32(slot), nil)
	return buf
}

// failure is the error behind a status that is not ok.
func (s *callState) failure(status abi.CallStatus, answer []byte) error {
	if status == abi.CallCancelled {
		if cause := s.ctx.poll(); cause != nil {
			return cause
		}
		return &CancelError{Reason: abi.CancelRequest}
	}
	e := &abi.Error{Type: abi.TypeExecution, Code: statusCode(status)}
	if head, _, err := abi.DecodeFrame(answer); err == nil {
		var got abi.Error
		if unmarshal(head, &got) == nil && got.Message != "" {
			if got.Code == "" {
				got.Code = e.Code
			}
			if got.Type == "" {
				got.Type = e.Type
			}
			return &got
		}
	}
	e.Message = statusText(status)
	return e
}

func statusCode(s abi.CallStatus) abi.Code {
	switch s {
	case abi.CallUnknown:
		return abi.CodeUnknownService
	case abi.CallNotDeclared:
		return abi.CodeNotDeclared
	case abi.CallNotGranted:
		return abi.CodeNotGranted
	case abi.CallInvalid:
		return abi.CodeRequest
	case abi.CallOverLimit:
		return abi.CodeServiceLimit
	}
	return abi.CodeServiceFailed
}

func statusText(s abi.CallStatus) string {
	switch s {
	case abi.CallUnknown:
		return "the host knows no service of this name"
	case abi.CallNotDeclared:
		return "the tool did not declare the service"
	case abi.CallNotGranted:
		return "the user did not grant it"
	case abi.CallInvalid:
		return "the request is not well formed"
	case abi.CallOverLimit:
		return fmt.Sprintf("a limit was reached (at most %d answers may wait to be taken)", abi.MaxAnswers)
	}
	return "the service failed"
}
