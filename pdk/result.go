package pdk

import "github.com/bladehost/bladehost/abi"

// Result is what a streaming tool returns. Model is what the model reads (a
// string as it is, anything else as JSON), Data is for the calling program and
// Display for a person only. Without Model the model reads Data. Of Metadata a
// host keeps the key "summary" and keys that start with "x-".
type Result struct {
	Model    any
	Display  *abi.Display
	Data     any
	Metadata map[string]any
}

// Data makes a result of data alone, as Define does.
func Data(v any) *Result { return &Result{Data: v} }

// Text makes a result that the model reads and that has no data.
func Text(s string) *Result { return &Result{Model: s} }

// explicit is the wire form of a result that is more than data.
type explicit struct {
	Model    any            `json:"model"`
	Display  *abi.Display   `json:"display,omitempty"`
	Data     any            `json:"data,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// wire is what ret gets: its status and the value to encode.
func (r *Result) wire() (status int32, v any) {
	if r == nil {
		return abi.RetData, nil
	}
	if r.Model == nil && r.Display == nil && len(r.Metadata) == 0 {
		return abi.RetData, r.Data
	}
	e := explicit{Model: r.Model, Display: r.Display, Data: r.Data, Metadata: r.Metadata}
	if e.Model == nil {
		e.Model = r.Data
	}
	return abi.RetResult, e
}
