package todos

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/args"
	"github.com/bladehost/bladehost/host/tool"
)

const writeSchema = `{"type":"object","properties":{"todos":{"type":"array","minItems":1,"description":"The whole list; it replaces the one before.","items":{"type":"object","properties":{` +
	`"id":{"type":"string","description":"The id of an item that is on the list already."},` +
	`"content":{"type":"string","minLength":1,"description":"What is to be done, such as: Run the tests."},` +
	`"status":{"type":"string","enum":["pending","in_progress","completed"]},` +
	`"activeForm":{"type":"string","minLength":1,"description":"What is said while it is being done, such as: Running the tests."},` +
	`"priority":{"type":"string","enum":["high","medium","low"],"default":"medium"}},` +
	`"required":["content","status","activeForm"],"additionalProperties":false}}},"required":["todos"],"additionalProperties":false}`

// status is how far an item is.
type status string

const (
	pending    status = "pending"
	inProgress status = "in_progress"
	completed  status = "completed"
)

func (s status) valid() bool { return s == pending || s == inProgress || s == completed }

// rank is the place in the order that is shown: what is done first.
func (s status) rank() int { return slices.Index([]status{completed, inProgress, pending}, s) }

// priority is how urgent an item is.
type priority string

const (
	high   priority = "high"
	medium priority = "medium"
	low    priority = "low"
)

func (p priority) valid() bool { return p == high || p == medium || p == low }

func (p priority) rank() int { return slices.Index([]priority{high, medium, low}, p) }

// item is one todo. The times are ISO 8601 in UTC with milliseconds.
type item struct {
	ID         string   `json:"id"`
	Content    string   `json:"content"`
	Status     status   `json:"status"`
	ActiveForm string   `json:"activeForm"`
	Priority   priority `json:"priority"`
	Created    string   `json:"createdAt"`
	Started    string   `json:"startedAt,omitempty"`
	Completed  string   `json:"completedAt,omitempty"`
}

type writeIn struct {
	Todos []item `json:"todos"`
}

// stats counts a list.
type stats struct {
	Total      int `json:"total"`
	Completed  int `json:"completed"`
	InProgress int `json:"inProgress"`
	Pending    int `json:"pending"`
}

type writeOut struct {
	Todos []item `json:"todos"`
	Stats stats  `json:"stats"`
}

// write is the tool TodoWrite.
type write struct {
	*lists
	spec *abi.ToolSpec
	now  func() time.Time
}

func newWrite(l *lists) *write {
	no := false
	return &write{l, &abi.ToolSpec{
		Name: "TodoWrite", DisplayName: "Todo Write", Group: abi.GroupTodos,
		Description: abi.Description{
			Short: "Writes the list of what is to be done in this session.",
			UsageNotes: []string{
				"Give the whole list each time. Items keep their identity by their id, or by the same content.",
				"At most one item is in_progress. Set it before you begin, and completed as soon as it is done.",
			},
		},
		Parameters: json.RawMessage(writeSchema), Kind: abi.KindReadOnly, SideEffect: abi.SideEffectIdempotent, ConcurrencySafe: &no,
	}, time.Now}
}

func (w *write) Spec() *abi.ToolSpec { return w.spec }

// NormalizeInput drops what the tool does not know, in the items too.
func (w *write) NormalizeInput(input json.RawMessage) (json.RawMessage, error) {
	out, err := args.Shape{Known: []string{"todos"}}.Normalize(input)
	if err != nil {
		return nil, err
	}
	var in struct {
		Todos []json.RawMessage `json:"todos"`
	}
	if json.Unmarshal(out, &in) != nil || in.Todos == nil {
		return out, nil
	}
	changed := false
	for i, raw := range in.Todos {
		it, err := args.Shape{Known: []string{"id", "content", "status", "activeForm", "priority"}}.Normalize(raw)
		if err != nil {
			return nil, err
		}
		changed = changed || string(it) != string(raw)
		in.Todos[i] = it
	}
	if !changed {
		return out, nil
	}
	return abi.Marshal(in)
}

func (w *write) read(input json.RawMessage) (writeIn, error) {
	var in writeIn
	if err := json.Unmarshal(input, &in); err != nil {
		return in, abi.NewError(abi.CodeValidation, "the input of TodoWrite is not what its schema says: %v", err)
	}
	active := 0
	for i, it := range in.Todos {
		if it.Priority == "" {
			in.Todos[i].Priority = medium
		}
		if it.Content == "" || it.ActiveForm == "" || !it.Status.valid() || !in.Todos[i].Priority.valid() {
			return in, tool.InvalidIssues(abi.CodeValidation, "the input of TodoWrite does not fit:", []abi.Issue{{Pointer: fmt.Sprintf("/todos/%d", i), Message: "content, activeForm, status or priority is missing or not one of the known"}})
		}
		if it.Status == inProgress {
			active++
		}
	}
	if active > 1 {
		return in, &abi.Error{Type: abi.TypeValidation, Code: codeSeveral, Message: fmt.Sprintf("%d items are in_progress; at most one can be, so the list stays as it was. Set the others to pending", active)}
	}
	if len(in.Todos) == 0 {
		return in, tool.InvalidIssues(abi.CodeValidation, "the input of TodoWrite does not fit:", []abi.Issue{{Pointer: "/todos", Message: "the list is empty"}})
	}
	return in, nil
}

// ValidateInput refuses a list with more than one item in progress.
func (w *write) ValidateInput(_ context.Context, call *tool.Call) error {
	_, err := w.read(call.Input)
	return err
}

// PermissionSignature is how many items there are.
func (w *write) PermissionSignature(input json.RawMessage) (content, rule string) {
	var in writeIn
	_ = json.Unmarshal(input, &in) // what does not fit has no items
	return fmt.Sprintf("%d todos", len(in.Todos)), "*"
}

// Execute replaces the list.
func (w *write) Execute(ctx context.Context, call *tool.Call) (*abi.Result, error) {
	in, err := w.read(call.Input)
	if err != nil {
		return nil, err
	}
	data, err := abi.Marshal(map[string]int{"total": len(in.Todos)})
	if err != nil {
		return nil, err
	}
	if err := call.Yield(abi.Yield{Kind: abi.YieldProgress, Data: data}); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	items, err := w.replace(call.SessionID(), in.Todos)
	if err != nil {
		return nil, err
	}
	n := count(items)
	if err := call.Progress("", float64(n.Completed), float64(n.Total)); err != nil {
		return nil, err
	}
	raw, err := abi.Marshal(writeOut{items, n})
	if err != nil {
		return nil, err
	}
	r := abi.Success(raw)
	summary := fmt.Sprintf("%d of %d done", n.Completed, n.Total)
	r.SetMeta("summary", summary)
	r.SetMeta("stats", n)
	r.Display = &abi.Display{Summary: summary}
	return r, nil
}

// replace makes a new list out of what is asked and what there was. It is kept
// before it counts: what cannot be kept does not change the list.
func (w *write) replace(session string, asked []item) ([]item, error) {
	l := w.of(session)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.read {
		l.items, l.read = w.load(session), true
	}
	items := merge(l.items, asked, w.now().UTC().Format("2006-01-02T15:04:05.000Z"))
	slices.SortStableFunc(items, func(a, b item) int {
		if d := a.Status.rank() - b.Status.rank(); d != 0 {
			return d
		}
		return a.Priority.rank() - b.Priority.rank()
	})
	if err := w.save(session, items); err != nil {
		return nil, (&abi.Error{Type: abi.TypeExecution, Code: codeIO, Message: "the list could not be kept, so it stays as it was: " + err.Error()}).Because(err)
	}
	l.items = items
	return slices.Clone(items), nil
}

// merge gives each asked item the identity and the times of the old one that it is:
// the one of its id, else the first of its content that no other item took.
func merge(old, asked []item, now string) []item {
	taken := make([]bool, len(old))
	byID, byContent := map[string][]int{}, map[string][]int{}
	for i, o := range old {
		byID[o.ID] = append(byID[o.ID], i)
		byContent[o.Content] = append(byContent[o.Content], i)
	}
	given := map[string]bool{}
	for _, it := range asked {
		given[it.ID] = true
	}
	// take gives the first of the old items under a key that is free, and may be taken.
	take := func(index map[string][]int, key string, may func(item) bool) *item {
		list := index[key]
		for len(list) > 0 && taken[list[0]] {
			list = list[1:]
		}
		index[key] = list
		for _, i := range list {
			if !taken[i] && may(old[i]) {
				taken[i] = true
				return &old[i]
			}
		}
		return nil
	}
	was := make([]*item, len(asked))
	for i, it := range asked { // ids first: they are meant
		if it.ID != "" {
			was[i] = take(byID, it.ID, func(item) bool { return true })
		}
	}
	used := map[string]bool{}
	out := make([]item, len(asked))
	for i, it := range asked {
		if was[i] == nil {
			was[i] = take(byContent, it.Content, func(o item) bool { return it.ID != "" || !given[o.ID] })
		}
		n := item{ID: it.ID, Content: it.Content, Status: it.Status, ActiveForm: it.ActiveForm, Priority: it.Priority, Created: now}
		if o := was[i]; o != nil {
			n.Created, n.Started, n.Completed = o.Created, o.Started, o.Completed
			if n.ID == "" {
				n.ID = o.ID
			}
		}
		if n.ID == "" || used[n.ID] {
			n.ID = newUUID()
		}
		used[n.ID] = true
		n.stamp(now)
		out[i] = n
	}
	return out
}

// stamp notes when an item was first begun and first done, and takes that back
// when it is pending, or not done, again.
func (n *item) stamp(now string) {
	switch n.Status {
	case pending:
		n.Started, n.Completed = "", ""
	case inProgress:
		n.Completed = ""
		if n.Started == "" {
			n.Started = now
		}
	case completed:
		if n.Completed == "" {
			n.Completed = now
		}
	}
}

func count(items []item) stats {
	n := stats{Total: len(items)}
	for _, it := range items {
		switch it.Status {
		case completed:
			n.Completed++
		case inProgress:
			n.InProgress++
		default:
			n.Pending++
		}
	}
	return n
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
