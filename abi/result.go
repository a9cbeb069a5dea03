package abi

import "encoding/json"

// Status is the outcome of a call.
type Status string

// Statuses of a result.
const (
	StatusSuccess Status = "success"
	StatusError   Status = "error"
)

// Result is the single outcome of a call. A success has a model and no error; an
// error has a model and an error and no data. Model is what the model reads
// (a string as it is, anything else as JSON text), Data is for the calling
// program and is never cut, Display is for a person only.
type Result struct {
	Status   Status          `json:"status"`
	Model    json.RawMessage `json:"model"`
	Display  *Display        `json:"display,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Error    *Error          `json:"error,omitempty"`
	Metadata map[string]any  `json:"metadata,omitempty"`
}

// Explicit is what a guest hands to ret with status RetResult.
type Explicit struct {
	Model    json.RawMessage            `json:"model"`
	Display  *Display                   `json:"display,omitempty"`
	Data     json.RawMessage            `json:"data,omitempty"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
}

// Success makes the result of a tool that returned data: model and data are
// the same bytes. Nil data is JSON null.
func Success(data json.RawMessage) *Result {
	if data == nil {
		data = json.RawMessage("null")
	}
	return &Result{Status: StatusSuccess, Model: data, Data: data}
}

// Text makes a success whose model is a string, without data.
func Text(s string) *Result { return &Result{Status: StatusSuccess, Model: String(s)} }

// Failure makes the error result for e; the model reads its message.
func Failure(e *Error) *Result {
	return &Result{Status: StatusError, Model: String(e.Message), Error: e}
}

// String is s as JSON. Invalid UTF-8 becomes U+FFFD; HTML characters stay as
// they are.
func String(s string) json.RawMessage {
	b, err := marshal(s)
	if err != nil { // a string always has a JSON form
		return json.RawMessage(`""`)
	}
	return b
}

// Valid reports why r is not a result that may be published, or "".
func (r *Result) Valid() string {
	switch {
	case r == nil:
		return "there is no result"
	case r.Status == StatusSuccess && r.Error != nil:
		return "a success has an error"
	case r.Status == StatusError && r.Error == nil:
		return "an error result has no error"
	case r.Status == StatusError && r.Data != nil:
		return "an error result has data"
	case r.Status != StatusSuccess && r.Status != StatusError:
		return "the status is neither success nor error"
	case r.Error != nil && !r.Error.Type.Valid():
		return "the error's type is not one of the six"
	}
	return ""
}

// IsError reports whether the call failed.
func (r *Result) IsError() bool { return r.Status == StatusError }

// SetMeta sets one key of the metadata.
func (r *Result) SetMeta(key string, value any) {
	if r.Metadata == nil {
		r.Metadata = make(map[string]any)
	}
	r.Metadata[key] = value
}

// ModelText is the text that is sent to a model: a string as it is, objects and
// arrays indented by two spaces, other scalars as JSON.
func (r *Result) ModelText() string {
	var s string
	if len(r.Model) > 0 && r.Model[0] == '"' && json.Unmarshal(r.Model, &s) == nil {
		return s
	}
	return indent(r.Model)
}
