// Command mcp is a tool plugin in the second MCP style, as one is written for
// hosts of such plugins with Extism's Go kit.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o mcp.wasm ./mcp
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/extism/go-pdk"
)

//go:wasmimport extism:host/user notify_progress
func notifyProgress(uint64)

//go:wasmimport extism:host/user notify_tool_list_changed
func notifyToolListChanged()

type schema struct {
	Type       string         `json:"type"`
	Properties map[string]any `json:"properties"`
	Required   []string       `json:"required"`
}

type description struct {
	Name         string   `json:"name"`
	Title        string   `json:"title,omitempty"`
	Description  string   `json:"description"`
	InputSchema  schema   `json:"inputSchema"`
	OutputSchema *schema  `json:"outputSchema,omitempty"`
	Annotations  struct{} `json:"annotations"`
}

type content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Data     string `json:"data,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
}

type result struct {
	Content    []content `json:"content"`
	Structured any       `json:"structuredContent,omitempty"`
	IsError    bool      `json:"isError,omitempty"`
}

//go:wasmexport list_tools
func listTools() int32 {
	if err := pdk.InputJSON(&struct{ Context map[string]any }{}); err != nil {
		return failed(err)
	}
	text := schema{Type: "object", Properties: map[string]any{"text": map[string]any{"type": "string"}}, Required: []string{"text"}}
	return answer(map[string]any{"tools": []description{
		{Name: "upper", Title: "Upper case", Description: "Makes a text upper case.", InputSchema: text},
		{Name: "count", Description: "Counts letters.", InputSchema: text, OutputSchema: &schema{Type: "object", Properties: map[string]any{"letters": map[string]any{"type": "integer"}}}},
		{Name: "image", Description: "Answers with an image.", InputSchema: schema{Type: "object"}},
		{Name: "refuse", Description: "Answers with an error.", InputSchema: schema{Type: "object"}},
		{Name: "break", Description: "Sets an error.", InputSchema: schema{Type: "object"}},
	}})
}

//go:wasmexport call_tool
func callTool() int32 {
	var call struct {
		Request struct {
			Name      string
			Arguments struct{ Text string }
		}
		Context struct {
			ID   any             `json:"id"`
			Meta json.RawMessage `json:"_meta"`
		}
	}
	if err := pdk.InputJSON(&call); err != nil {
		return failed(err)
	}
	if call.Context.ID == nil || call.Context.Meta == nil {
		return failed(errors.New("the context is missing"))
	}
	m, err := pdk.AllocateJSON(map[string]any{"progress": 1, "progressToken": call.Context.ID})
	if err != nil {
		return failed(err)
	}
	notifyProgress(m.Offset())
	notifyToolListChanged()
	text := call.Request.Arguments.Text
	switch call.Request.Name {
	case "upper":
		return answer(result{Content: []content{{Type: "text", Text: strings.ToUpper(text)}}})
	case "count":
		return answer(result{Content: []content{{Type: "text", Text: fmt.Sprintf("%d letters", len(text))}}, Structured: map[string]int{"letters": len(text)}})
	case "image":
		return answer(result{Content: []content{{Type: "image", Data: "eA==", MimeType: "image/png"}}})
	case "refuse":
		return answer(result{Content: []content{{Type: "text", Text: "that cannot be done"}}, IsError: true})
	}
	return failed(fmt.Errorf("there is no tool %s", call.Request.Name))
}

func answer(v any) int32 {
	if err := pdk.OutputJSON(v); err != nil {
		return failed(err)
	}
	return 0
}

func failed(err error) int32 {
	pdk.SetError(err)
	return -1
}

func main() {}
