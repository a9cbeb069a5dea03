package filesystem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/tool"
)

const notebookSchema = `{"type":"object","properties":{` +
	`"notebook_path":{"type":"string","minLength":1,"description":"Absolute path of the notebook (.ipynb)."},` +
	`"new_source":{"type":"string","description":"The cell's new source; empty for delete."},` +
	`"cell_id":{"type":"string","description":"The cell's id as Read shows it; cell-0, cell-1, … where cells have none. insert puts the new cell behind it, or in front of all without it."},` +
	`"cell_type":{"type":"string","enum":["code","markdown"],"description":"Type of the cell; needed for insert."},` +
	`"edit_mode":{"type":"string","enum":["replace","insert","delete"],"default":"replace"}},` +
	`"required":["notebook_path","new_source"],"additionalProperties":false}`

type notebookIn struct {
	Path     string  `json:"notebook_path"`
	Source   *string `json:"new_source"`
	CellID   string  `json:"cell_id"`
	CellType string  `json:"cell_type"`
	Mode     string  `json:"edit_mode"`
}

// notebookEdit is the tool NotebookEdit.
func (c *core) notebookEdit() tool.Tool {
	return writer{&native{core: c, key: "notebook_path", wide: byExtension,
		shape: args.Shape{Known: []string{"notebook_path", "new_source", "cell_id", "cell_type", "edit_mode"}},
		spec: must(&abi.ToolSpec{
			Name: "NotebookEdit", DisplayName: "Notebook Edit", Group: abi.GroupFilesystem,
			Description: abi.Description{
				Short: "Replaces, inserts or deletes one cell of a Jupyter notebook.",
				UsageNotes: []string{
					"Read the notebook first: that shows the ids of its cells, and a notebook that was not read cannot be changed.",
					"Replacing the source of a code cell clears its outputs. Everything else in the file stays as it is.",
				},
				Examples: []abi.Example{{Description: "A new markdown cell at the top", Params: json.RawMessage(`{"notebook_path":"/project/a.ipynb","edit_mode":"insert","cell_type":"markdown","new_source":"# Title"}`)}},
			},
			Parameters: json.RawMessage(notebookSchema), Kind: abi.KindWrite, SideEffect: abi.SideEffectNonIdempotent,
			PathParams: []string{"/notebook_path"}, LockPaths: []string{"/notebook_path"}, Yields: &[]abi.YieldKind{},
		}),
		check: func(_ context.Context, a *file.Access, input json.RawMessage) error {
			_, _, err := notebookArgs(a, input)
			return err
		},
		resolve: func(input json.RawMessage) tool.Partial {
			switch mode := member(input, "edit_mode"); mode {
			case "", "replace":
				return tool.Partial{SideEffect: abi.SideEffectIdempotent}
			case "delete":
				return tool.Partial{Destructive: ptr(true)}
			}
			return tool.Partial{}
		},
		run: func(ctx context.Context, a *file.Access, call *tool.Call) (*abi.Result, error) {
			in, t, err := notebookArgs(a, call.Input)
			if err != nil {
				return nil, err
			}
			return c.runNotebook(ctx, in, t, call)
		},
	}}
}

func notebookArgs(a *file.Access, input json.RawMessage) (*notebookIn, *file.Target, error) {
	in := &notebookIn{}
	if err := decode(input, in); err != nil {
		return nil, nil, err
	}
	if in.Mode == "" {
		in.Mode = "replace"
	}
	if in.Source == nil {
		return nil, nil, file.Invalid("/new_source", "new_source is missing; give the cell's new source, empty for delete.")
	}
	for _, err := range []error{oneOf("/cell_type", in.CellType, "code", "markdown"), oneOf("/edit_mode", in.Mode, "replace", "insert", "delete")} {
		if err != nil {
			return nil, nil, err
		}
	}
	t, err := a.File("/notebook_path", in.Path)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case in.Mode != "insert" && in.CellID == "":
		return nil, nil, file.Error(abi.TypeValidation, file.CodeCellIDRequired, "edit_mode %s needs a cell_id; Read the notebook to see the ids of its cells.", in.Mode)
	case in.Mode == "insert" && in.CellType == "":
		return nil, nil, file.Error(abi.TypeValidation, file.CodeCellType, "edit_mode insert needs a cell_type, code or markdown.")
	}
	return in, t, reachable(t)
}

// notebookData is the data of a NotebookEdit.
type notebookData struct {
	Path      string `json:"notebook_path"`
	Mode      string `json:"edit_mode"`
	CellID    string `json:"cell_id"`
	CellIndex int    `json:"cell_index"`
	CellCount int    `json:"cell_count"`
}

func (c *core) runNotebook(ctx context.Context, in *notebookIn, t *file.Target, call *tool.Call) (*abi.Result, error) {
	src, ch, err := c.load(ctx, t, call)
	if err != nil {
		return nil, err
	}
	n, err := parseNotebook(src)
	if err != nil {
		kind := abi.TypeExecution
		if errors.As(err, new(errNoCells)) {
			kind = abi.TypeValidation
		}
		return nil, file.Error(kind, file.CodeNotANotebook, "%s is no notebook: %v. Repair it as a text with Edit, or write it anew.", t.Path, err)
	}
	if err := ch.guard(); err != nil {
		return nil, err
	}
	at := -1
	if in.CellID != "" {
		if at = n.find(in.CellID); at < 0 {
			return nil, file.Error(abi.TypeValidation, file.CodeCellNotFound, "%s has no cell %q. Read the notebook to see the ids of its cells.", t.Path, clip(in.CellID))
		}
		if k := n.named(in.CellID); k > 1 {
			return nil, file.Error(abi.TypeValidation, file.CodeNotUnique, "%s has %d cells with the id %q, so it does not tell which is meant. Give them ids of their own first, with Edit.", t.Path, k, clip(in.CellID))
		}
	}
	d := notebookData{Path: t.Path, Mode: in.Mode, CellIndex: at, CellCount: len(n.cells)}
	var out []byte
	done := "replaced"
	switch in.Mode {
	case "insert":
		done = "inserted"
		var id string
		if out, id = n.insert(at, *in.Source, in.CellType); id == "" {
			id = fmt.Sprintf("cell-%d", at+1)
		}
		d.CellID, d.CellIndex, d.CellCount = id, at+1, len(n.cells)+1
	case "delete":
		done = "deleted"
		d.CellID, d.CellCount = n.label(at), len(n.cells)-1
		out = n.remove(at)
	default:
		d.CellID = n.label(at)
		out = n.replace(at, *in.Source, in.CellType)
	}
	kept, err := ch.store(out, false)
	if err != nil {
		return nil, err
	}
	summary := fmt.Sprintf("Cell %s was %s in %s", d.CellID, done, t.Path)
	meta := map[string]any{"kind": "edit", "notebook_path": t.Path, "edit_mode": in.Mode, "cell_id": d.CellID, "snapshot_created": kept, "last_modified": isoTime(ch.st.Mtim)}
	return result(summary+".", d, summary, meta)
}
