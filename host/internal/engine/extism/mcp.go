package extism

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/engine"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// requestContext is what plugins of the second MCP style get with every request.
const requestContext = `{"_meta":{},"id":1}`

// mcpTool is one tool as an MCP-style plugin lists it.
type mcpTool struct {
	Name         string                     `json:"name"`
	Title        string                     `json:"title"`
	Description  string                     `json:"description"`
	InputSchema  map[string]json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage            `json:"outputSchema"`
}

// manifestOf makes the manifest of an MCP-style plugin from what it lists. What
// its tools do is not known, so the worst is assumed.
func manifestOf(out []byte, name, version string) (json.RawMessage, error) {
	var list struct {
		Tools      []mcpTool `json:"tools"`
		NextCursor string    `json:"nextCursor"`
	}
	if err := strictjson.Check(out); err != nil {
		return nil, abi.NewError(abi.CodeInit, "the plugin's list of tools is %v", err)
	}
	if err := strictjson.Decode(out, &list); err != nil {
		return nil, abi.NewError(abi.CodeInit, "the plugin's list of tools is not the one of MCP: %v", err)
	}
	if list.NextCursor != "" {
		return nil, abi.NewError(abi.CodeInit, "the plugin lists its tools in pages, which this host does not ask for")
	}
	m := abi.Manifest{ABI: abi.Version, Name: name, Version: version}
	names := make([]string, len(list.Tools))
	for i, t := range list.Tools {
		spec, err := t.spec()
		if err != nil {
			return nil, err
		}
		m.Tools = append(m.Tools, *spec)
		names[i] = t.Name
	}
	m.Description = "An Extism plugin with the tools " + strings.Join(names, ", ") + "."
	if len(names) == 1 {
		m.Description = "An Extism plugin with the tool " + names[0] + "."
	}
	raw, err := abi.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	_, err = engine.ParseManifest(raw)
	return raw, err
}

func (t *mcpTool) spec() (*abi.ToolSpec, error) {
	schema := map[string]json.RawMessage{"type": json.RawMessage(`"object"`)}
	for k, v := range t.InputSchema {
		if string(bytes.TrimSpace(v)) != "null" { // Go's encoder writes members that are not there like this
			schema[k] = v
		}
	}
	raw, err := abi.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("write the schema of %s: %w", t.Name, err)
	}
	s := &abi.ToolSpec{
		Name: t.Name, DisplayName: t.Title, Parameters: raw,
		Kind: abi.KindExecute, SideEffect: abi.SideEffectNonIdempotent, Interrupt: abi.InterruptBlock, Yields: &[]abi.YieldKind{},
	}
	if s.Description.Short = strings.TrimSpace(t.Description); s.Description.Short == "" {
		s.Description.Short = t.Name
	}
	if len(t.OutputSchema) > 0 && t.OutputSchema[0] == '{' {
		s.OutputSchema = t.OutputSchema
	}
	return s, nil
}

// resultOf turns an MCP result into one of ours. Text is what the model reads;
// the caller gets the structured content, or all of the content.
func resultOf(out []byte) *abi.Result {
	var r struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
		IsError    bool              `json:"isError"`
	}
	if err := strictjson.Decode(out, &r); err != nil {
		return abi.Failure(abi.NewError(abi.CodeResultShape, "the tool's answer is not a result of MCP: %v", err))
	}
	structured := len(r.Structured) > 0 && string(r.Structured) != "null"
	if r.Content == nil && !structured {
		return abi.Failure(abi.NewError(abi.CodeResultShape, "the tool's answer is not a result of MCP: it has no content"))
	}
	content, err := abi.Marshal(r.Content)
	if err != nil || r.Content == nil {
		content = json.RawMessage("[]")
	}
	words, all := texts(r.Content)
	if r.IsError {
		e := &abi.Error{Message: clipMessage(words), Type: abi.TypeExecution}
		if words == "" {
			e.Message = "the tool failed without a message"
		}
		if !all {
			e.Details = content
		}
		return abi.Failure(e)
	}
	res := abi.Success(json.RawMessage(`{"content":` + string(content) + `}`))
	if structured {
		res = abi.Success(r.Structured)
	}
	switch {
	case all && len(r.Content) > 0:
		res.Model = abi.String(words)
	case !all:
		res.Model = content
	}
	return res
}

// texts are the texts of a content, a line each, and whether it is nothing else.
func texts(content []json.RawMessage) (words string, all bool) {
	var lines []string
	all = true
	for _, raw := range content {
		var c struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		if err := strictjson.Decode(raw, &c); err != nil || c.Type != "text" || c.Text == nil {
			all = false
			continue
		}
		lines = append(lines, *c.Text)
	}
	return strings.Join(lines, "\n"), all
}
