package host

import (
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
)

// Declaration is one tool as a model is told of it.
type Declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict,omitempty"`
}

// Declarations are the tools a model may call now: those that are eager. The
// parameters are the very schema that inputs are validated against.
func (s *Session) Declarations() []Declaration {
	var out []Declaration
	for _, p := range s.plan() {
		if p.mode == abi.ExposureEager {
			out = append(out, p.e.declare())
		}
	}
	return out
}

func (e *entry) declare() Declaration {
	return Declaration{Name: e.spec.Name, Description: e.spec.Description.Text(), Parameters: cloneRaw(e.spec.Parameters), Strict: e.spec.Strict}
}

// OpenAI is the declaration as a function of the chat completions API.
func (d Declaration) OpenAI() json.RawMessage {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict,omitempty"`
	}
	return mustJSON(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", function(d)})
}

// Anthropic is the declaration as a tool of the messages API.
func (d Declaration) Anthropic() json.RawMessage {
	return mustJSON(struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
		Strict      bool            `json:"strict,omitempty"`
	}{d.Name, d.Description, d.Parameters, d.Strict})
}

// ToolMessage is the text of a result for a model, and the id of the call that
// it answers.
type ToolMessage struct {
	ToolCallID string `json:"tool_call_id"`
	Content    string `json:"content"`
}

// MessageFor makes the message that answers a call. What is for display only is
// not in it.
func MessageFor(callID string, r *abi.Result) ToolMessage {
	return ToolMessage{ToolCallID: callID, Content: r.ModelText()}
}

// mustJSON is for values whose parts are known to have a JSON form: the schema
// was compiled at registration.
func mustJSON(v any) json.RawMessage {
	b, err := abi.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
