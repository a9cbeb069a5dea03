package system

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// discoverSchema is the schema of the parameters of DiscoverTools.
const discoverSchema = `{"type":"object","properties":{` +
	`"query":{"type":"string","minLength":1,"description":"Words to look for in the names, titles and descriptions of tools."},` +
	`"max_results":{"type":"integer","minimum":1,"maximum":10,"default":5,"description":"How many tools to load at most."}},` +
	`"required":["query"],"additionalProperties":false}`

type discoverIn struct {
	Query      string `json:"query"`
	MaxResults int    `json:"max_results"`
}

// defaultResults is the default of max_results.
const defaultResults = 5

// found is one tool of the catalog's answer.
type found struct {
	Name        string           `json:"name"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Exposure    abi.ExposureMode `json:"exposureMode"`
	Hint        string           `json:"discoveryHint,omitempty"`
}

// DiscoverTools finds tools that the session has but the model was not told of, and
// makes them visible for the rest of the session.
func DiscoverTools() tool.Tool {
	return tool.Must(tool.DefineStream("DiscoverTools", "Finds tools that are not loaded yet and loads the best matches.", discover, tool.Options{
		Description: &abi.Description{
			Short:      "Finds tools that are not loaded yet and loads the best matches.",
			UsageNotes: []string{"Use it when none of your tools fits.", "The tools it names can be called from your next turn on."},
		},
		Parameters: json.RawMessage(discoverSchema), Kind: abi.KindReadOnly, SideEffect: abi.SideEffectIdempotent, Group: abi.GroupSystem,
		Services: []string{abi.ServiceDiscoverable}, Effects: []abi.EffectType{abi.EffectRuntimePatch},
	}))
}

func discover(ctx context.Context, in discoverIn, call *tool.Call) (*abi.Result, error) {
	catalog, ok := call.Service(abi.ServiceDiscoverable)
	if !ok {
		return nil, abi.NewError(abi.CodeContextRequired, "the session has no catalog of tools")
	}
	var answer struct {
		Tools []found `json:"tools"`
	}
	ask := map[string]string{"query": in.Query, "permissionMode": call.Mode()}
	if err := tool.Ask(ctx, catalog, "listDiscoverable", ask, &answer); err != nil {
		return nil, err
	}
	most := in.MaxResults
	if most <= 0 { // the schema's default, for who calls the tool without a session
		most = defaultResults
	}
	list := answer.Tools[:min(len(answer.Tools), most)]
	if len(list) == 0 {
		return discovered(list, fmt.Sprintf("No tool that is not loaded yet matches %q. Try other words, or go on with the tools you have.", in.Query))
	}
	if err := activate(call, list); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("These tools can be called from your next turn on:")
	for _, f := range list {
		b.WriteString("\n- " + f.Name + ": " + f.Description)
	}
	return discovered(list, b.String())
}

// activate asks the session to show the tools from now on.
func activate(call *tool.Call, list []found) error {
	patch, err := abi.Marshal(abi.RuntimePatch{Scope: abi.ScopeSession, Source: "tool", ToolDiscovery: &abi.ToolDiscovery{Discover: names(list)}})
	if err != nil {
		return err
	}
	return call.Yield(abi.EffectYield(abi.Effect{Type: abi.EffectRuntimePatch, Patch: patch}))
}

func discovered(list []found, text string) (*abi.Result, error) {
	if list == nil {
		list = []found{}
	}
	data, err := abi.Marshal(map[string]any{"tools": list})
	if err != nil {
		return nil, err
	}
	r := abi.Text(text)
	r.Data = data
	r.Display = &abi.Display{Summary: fmt.Sprintf("%d tools found", len(list))}
	r.SetMeta("discoveredTools", names(list))
	return r, nil
}

func names(list []found) []string {
	out := make([]string, len(list))
	for i, f := range list {
		out[i] = f.Name
	}
	return out
}
