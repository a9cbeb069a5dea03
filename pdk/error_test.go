package pdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

func TestToWire(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"a plain error", errors.New("boom"), `{"message":"boom","type":"execution_error"}`},
		{"an error without text", errors.New(""), `{"message":"the tool failed without a message","type":"execution_error"}`},
		{"own", Errorf("not_it", "no %d", 5), `{"message":"no 5","type":"execution_error","code":"not_it"}`},
		{"own, wrapped: the whole text", fmt.Errorf("outer: %w", Invalid("bad", "inner").With(map[string]int{"n": 1})), `{"message":"outer: inner","type":"validation_error","code":"bad","details":{"n":1}}`},
		{"own with a type of the host", Errorf("x", "m").WithType(abi.TypePermission), `{"message":"m","type":"execution_error","code":"x"}`},
		{"own with a code that is none", Errorf("Bad-Code", "m"), `{"message":"m","type":"execution_error"}`},
		{"own without a type", &Error{Message: "m"}, `{"message":"m","type":"execution_error"}`},
		{"network", Errorf("x", "m").WithType(abi.TypeNetwork), `{"message":"m","type":"network_error","code":"x"}`},
		{"of a service", &ServiceError{"kv.get", abi.CallNotGranted, abi.NewError(abi.CodeNotGranted, "no")}, `{"message":"kv.get: no","type":"execution_error","code":"not_granted"}`},
		{"of a service, with a type it may keep", &ServiceError{"x", abi.CallInvalid, abi.NewError(abi.CodeRequest, "no").With(1)}, `{"message":"x: no","type":"validation_error","code":"invalid_request","details":1}`},
		{"cancelled", &CancelError{abi.CancelSteering}, `{"message":"cancelled: a new input interrupted it","type":"execution_error","code":"cancelled","details":{"reason":2}}`},
		{"cancelled in a service", &ServiceError{"x", abi.CallCancelled, &CancelError{abi.CancelRequest}}, `{"message":"x: cancelled: the request was cancelled","type":"execution_error","code":"cancelled","details":{"reason":1}}`},
		{"context.Canceled", fmt.Errorf("reading: %w", context.Canceled), `{"message":"reading: context canceled","type":"execution_error","code":"cancelled"}`},
		{"HTML stays", errors.New("<a> & b"), `{"message":"<a> & b","type":"execution_error"}`},
		{"empty raw details", &Error{Message: "m", Details: json.RawMessage(nil)}, `{"message":"m","type":"execution_error"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := abi.Marshal(toWire(c.err))
			if err != nil || string(got) != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

func TestErrorIs(t *testing.T) {
	err := fmt.Errorf("a: %w", Errorf("gone", "b: %w", io.ErrUnexpectedEOF))
	for _, c := range []struct {
		name   string
		target error
		want   bool
	}{
		{"by code", &Error{Code: "gone"}, true},
		{"by another code", &Error{Code: "here"}, false},
		{"without a code", &Error{Message: "b"}, false},
		{"by the cause", io.ErrUnexpectedEOF, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if errors.Is(err, c.target) != c.want {
				t.Errorf("want %v", c.want)
			}
		})
	}
	if !errors.Is(&CancelError{abi.CancelDeadline}, context.DeadlineExceeded) || errors.Is(&CancelError{abi.CancelDeadline}, context.Canceled) {
		t.Error("a deadline is not DeadlineExceeded alone")
	}
	if !errors.Is(&CancelError{abi.CancelShutdown}, context.Canceled) {
		t.Error("a shutdown is not Canceled")
	}
}
