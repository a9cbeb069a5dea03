package policy

import (
	"context"
	"encoding/json"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

// Request is what a permission handler judges. It holds copies.
type Request struct {
	Tool  string          `json:"toolName"`
	Input json.RawMessage `json:"input"`
	Mode  Mode            `json:"permissionMode"`
	// Approved says that the session remembers an approval.
	Approved  bool          `json:"sessionApproved"`
	Paths     []string      `json:"affectedPaths"`
	Behavior  tool.Behavior `json:"toolMeta"`
	Signature string        `json:"signature"`
	Source    tool.Source   `json:"source"`
	// Description is the tool's own, for a person.
	Description string `json:"description"`
}

// Handler is the embedder's own judgement. It may wait as long as it likes but
// stops when ctx ends. Allow does not override plan mode, deny rules or what
// another layer asks about.
type Handler interface {
	HandlePermission(ctx context.Context, r Request) (tool.Permission, error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, r Request) (tool.Permission, error)

// HandlePermission calls f.
func (f HandlerFunc) HandlePermission(ctx context.Context, r Request) (tool.Permission, error) {
	return f(ctx, r)
}

// FirstWins asks handlers in order. The first deny or ask ends the chain; allows
// are merged: later inputs over earlier ones, updates one after another.
func FirstWins(handlers ...Handler) Handler { return chain{handlers, true} }

// DenyWins asks all handlers in order until one denies; the first ask counts
// otherwise. Allows are merged as in FirstWins.
func DenyWins(handlers ...Handler) Handler { return chain{handlers, false} }

type chain struct {
	list  []Handler
	first bool
}

func (c chain) HandlePermission(ctx context.Context, r Request) (tool.Permission, error) {
	out := tool.Permission{Behavior: tool.PermissionAllow}
	var asked *tool.Permission
	for _, h := range c.list {
		p, err := h.HandlePermission(ctx, r)
		if err != nil {
			return tool.Permission{}, err
		}
		switch p.Behavior {
		case tool.PermissionDeny:
			return p, nil
		case tool.PermissionAsk:
			if c.first {
				return p, nil
			}
			if asked == nil {
				asked = &p
			}
		case tool.PermissionAllow:
			if p.UpdatedInput != nil {
				if r.Input, err = MergeInput(r.Input, p.UpdatedInput); err != nil {
					return tool.Permission{}, err
				}
				out.UpdatedInput = r.Input
			}
			out.Updates = append(out.Updates, p.Updates...)
		default:
			return tool.Permission{}, abi.NewError(abi.CodeHandlerFailed, "a permission handler answered with the behaviour %q; allow, deny and ask are known", p.Behavior)
		}
	}
	if asked != nil {
		return *asked, nil
	}
	return out, nil
}

// MergeInput lays the members of update over those of input. Both are objects.
func MergeInput(input, update json.RawMessage) (json.RawMessage, error) {
	var a, b map[string]json.RawMessage
	if err := strictjson.CheckObject(update); err != nil {
		return nil, abi.NewError(abi.CodeHandlerFailed, "the updated input: %v", err)
	}
	if err := strictjson.CheckObject(input); err != nil {
		return nil, abi.NewError(abi.CodeHandlerFailed, "the input that is updated: %v", err)
	}
	if err := strictjson.Decode(input, &a); err != nil {
		return nil, err
	}
	if err := strictjson.Decode(update, &b); err != nil {
		return nil, err
	}
	for k, v := range b {
		a[k] = v
	}
	return abi.Marshal(a)
}
