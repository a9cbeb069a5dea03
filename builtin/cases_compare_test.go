package builtin_test

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

var printDifferences = flag.Bool("differences", false, "print the differences that are not listed, as rows, instead of failing")

// difference is one field that is not as recorded.
type difference struct{ field, text string }

type differences struct {
	w    *world
	list []difference
}

func (d *differences) add(field, format string, args ...any) {
	d.list = append(d.list, difference{field, fmt.Sprintf(format, args...)})
}

// compare runs a line and says what differs from what was recorded.
func (w *world) compare(l *caseLine) []difference {
	w.confirms = nil
	r, yields := w.call(l)
	d := &differences{w: w}
	d.behavior(l)
	d.confirmations(l)
	if l.Thrown != nil {
		d.thrown(l, r)
		return d.list
	}
	d.yields(l, yields)
	if string(r.Status) != l.Result.Status {
		why := ""
		if r.Error != nil {
			why = ": " + string(r.Error.Code) + ": " + r.Error.Message
		}
		d.add("status", "%s, not %s%s", r.Status, l.Result.Status, why)
		d.files(l)
		return d.list
	}
	if l.Result.Error != nil && string(r.Error.Type) != l.Result.Error.Type {
		d.add("error.type", "%s (%s: %s), not %s", r.Error.Type, r.Error.Code, r.Error.Message, l.Result.Error.Type)
	}
	d.model(l, r)
	d.metadata(l, r)
	d.files(l)
	return d.list
}

func (d *differences) behavior(l *caseLine) {
	if l.Behavior == nil {
		return
	}
	input := json.RawMessage(d.w.expand(string(l.Input)))
	i := slices.IndexFunc(d.w.tools(), func(t tool.Tool) bool { return t.Spec().Name == l.Tool })
	b, _ := tool.Resolve(d.w.tools()[i], input)
	raw, err := abi.Marshal(b)
	var have map[string]any
	if err != nil || json.Unmarshal(raw, &have) != nil {
		d.add("behavior", "%v", err)
		return
	}
	for k, want := range l.Behavior {
		if !reflect.DeepEqual(have[k], want) {
			d.add("behavior."+k, "%v, not %v", have[k], want)
		}
	}
}

// thrown: the arguments are refused, and the right ones are named.
func (d *differences) thrown(l *caseLine, r *abi.Result) {
	if r.Error == nil || r.Error.Type != abi.TypeValidation {
		d.add("thrown", "ended with %s (%+v), not with refused arguments", r.Status, r.Error)
		return
	}
	var details abi.IssueDetails
	_ = json.Unmarshal(r.Error.Details, &details) // none are a difference
	have := map[string]bool{}
	for _, i := range details.Issues {
		have[i.Pointer] = true
		// The pointer of a missing member is its parent: the message has the name.
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(i.Message, -1) {
			have[strings.TrimSuffix(i.Pointer, "/")+"/"+word] = true
		}
	}
	for _, i := range l.Thrown.Issues {
		if p := "/" + strings.ReplaceAll(i.Field, ".", "/"); i.Field != "root" && !have[p] {
			d.add("thrown", "%s is not among the issues of %s: %s", p, r.Error.Code, r.Error.Message)
			return
		}
	}
}

// confirmations: as often as recorded, about the same.
func (d *differences) confirmations(l *caseLine) {
	if l.Layer != "pipeline" {
		return // recorded without a pipeline, which is what asks
	}
	if len(d.w.confirms) != len(l.Confirms) {
		d.add("confirmations", "%d, not %d", len(d.w.confirms), len(l.Confirms))
		return
	}
	for i, want := range l.Confirms {
		raw, err := abi.Marshal(d.w.confirms[i])
		var got map[string]any
		if err != nil || json.Unmarshal(raw, &got) != nil {
			d.add("confirmations", "%v", err)
			return
		}
		for k, v := range want {
			if list, ok := v.([]any); ok && len(list) == 0 && got[k] == nil {
				continue
			}
			if why := d.w.differ(v, got[k], false); why != "" {
				d.add("confirmations", "%s: %s", k, why)
				return
			}
		}
	}
}

func (d *differences) yields(l *caseLine, have []abi.Yield) {
	var kinds, want []string
	for _, y := range have {
		kinds = append(kinds, string(y.Kind))
	}
	for _, y := range l.Yields {
		want = append(want, fmt.Sprint(y["kind"]))
	}
	if !slices.Equal(kinds, want) {
		d.add("yields", "%v, not %v", kinds, want)
		return
	}
	for i, y := range l.Yields {
		raw, err := abi.Marshal(have[i])
		var got map[string]any
		if err != nil || json.Unmarshal(raw, &got) != nil {
			d.add("yields", "%d: %v", i, err)
			return
		}
		for k, v := range y {
			if why := d.w.differ(v, got[k], false); why != "" {
				d.add("yields", "%d: %s: %s", i, k, why)
				return
			}
		}
	}
}

func (d *differences) model(l *caseLine, r *abi.Result) {
	var got any
	if err := json.Unmarshal(r.Model, &got); err != nil {
		d.add("model", "%v", err)
		return
	}
	switch {
	case l.Result.ModelPaths != nil:
		if text, _ := got.(string); !slices.Equal(listedPaths(text, d.w.root), l.Result.ModelPaths) && !(l.Unstable && sameSet(listedPaths(text, d.w.root), l.Result.ModelPaths)) {
			d.add("model", "the paths are %q, not %q", listedPaths(text, d.w.root), l.Result.ModelPaths)
		}
	case l.Result.ModelIsText:
		if text, ok := got.(string); !ok || text == "" {
			d.add("model", "%.100s is no text", r.Model)
		}
	case l.Result.Model != nil:
		var want any
		if err := json.Unmarshal(l.Result.Model, &want); err != nil {
			d.add("model", "%v", err)
			return
		}
		if why := d.w.differ(want, got, l.Unstable); why != "" {
			d.add("model", "%s", why)
		}
	}
}

// listedPaths are the lines of a list, relative to the workspace.
func listedPaths(text, root string) []string {
	out := []string{}
	for line := range strings.Lines(text) {
		if p, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "- "); ok {
			out = append(out, strings.TrimPrefix(p, filepath.Join(root, "ws")+"/"))
		}
	}
	return out
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// metadata: what was recorded is there; more is allowed.
func (d *differences) metadata(l *caseLine, r *abi.Result) {
	raw, err := abi.Marshal(r.Metadata)
	var got map[string]any
	if err != nil || json.Unmarshal(raw, &got) != nil {
		d.add("metadata", "%v", err)
		return
	}
	for k, want := range l.Result.Metadata {
		if k == "executionId" { // the recorded one is the session's id, by mistake
			want = "<executionId>"
		}
		have, ok := got[k]
		if !ok {
			d.add("metadata."+k, "is missing, not %.200v", want)
		} else if why := d.w.differ(want, have, l.Unstable); why != "" {
			d.add("metadata."+k, "%s", why)
		}
	}
}

func (d *differences) files(l *caseLine) {
	for name, want := range l.FSAfter {
		path := filepath.Join(d.w.root, filepath.FromSlash(name))
		fi, err := os.Lstat(path)
		have := fsEntry{Type: "missing"}
		switch {
		case err != nil:
		case fi.IsDir():
			have.Type = "dir"
		case fi.Mode()&os.ModeSymlink != 0:
			have.Type = "symlink"
		default:
			have.Type = "file"
		}
		if want.Type == "directory" {
			want.Type = "dir"
		}
		if have.Type != want.Type {
			d.add("fs."+name, "is %s, not %s", have.Type, want.Type)
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil && want.Type != "missing" && want.Type != "dir" {
			d.add("fs."+name, "%v", err)
			continue
		}
		switch {
		case want.Base64 != "":
			if s := base64.StdEncoding.EncodeToString(b); s != want.Base64 {
				d.add("fs."+name, "holds %s, not %s", s, want.Base64)
			}
		case want.Text != nil:
			text := strings.ToValidUTF8(string(b), "\uFFFD")
			if m, ok := want.Text.(map[string]any); ok { // a long one: its length and its head
				head, _ := m["head"].(string)
				if n, _ := m["length"].(float64); int(n) != utf16Len(text) || !strings.HasPrefix(text, d.w.expand(head)) {
					d.add("fs."+name, "has %d characters, not %v, or another beginning", utf16Len(text), n)
				}
			} else if why := d.w.differ(want.Text, text, false); why != "" {
				d.add("fs."+name, "%s", why)
			}
		}
	}
}

var (
	volatile    = regexp.MustCompile(`<[A-Za-z_]+>`)
	placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// differ is why two JSON values are not the same, or "". Objects may have more
// members than were recorded.
func (w *world) differ(want, have any, set bool) string {
	switch x := want.(type) {
	case string:
		return w.differString(x, have)
	case map[string]any:
		if x["$long_string"] != nil {
			return differLong(w, x, have)
		}
		if x["$long_array"] != nil {
			list, _ := have.([]any)
			if n, _ := x["length"].(float64); len(list) != int(n) {
				return fmt.Sprintf("an array of %d, not of %v", len(list), n)
			}
			return ""
		}
		m, ok := have.(map[string]any)
		if !ok {
			return fmt.Sprintf("%.200v is no object", have)
		}
		for k, v := range x {
			if why := w.differ(v, m[k], set); why != "" {
				return k + ": " + why
			}
		}
		return ""
	case []any:
		list, ok := have.([]any)
		if !ok || len(list) != len(x) {
			return fmt.Sprintf("%.300v, not %.300v", have, want)
		}
		if set {
			return w.differSet(x, list)
		}
		for i := range x {
			if why := w.differ(x[i], list[i], set); why != "" {
				return fmt.Sprintf("[%d]: %s", i, why)
			}
		}
		return ""
	}
	if !reflect.DeepEqual(want, have) {
		return fmt.Sprintf("%.200v, not %.200v", have, want)
	}
	return ""
}

// differSet compares without order.
func (w *world) differSet(want, have []any) string {
	rest := slices.Clone(have)
	for _, x := range want {
		i := slices.IndexFunc(rest, func(y any) bool { return w.differ(x, y, true) == "" })
		if i < 0 {
			return fmt.Sprintf("%.200v is missing in %.300v", x, have)
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return ""
}

func differLong(w *world, x map[string]any, have any) string {
	s, ok := have.(string)
	if !ok {
		return fmt.Sprintf("%.100v is no string", have)
	}
	head, _ := x["head"].(string)
	tail, _ := x["tail"].(string)
	if n, _ := x["length_utf16"].(float64); utf16Len(s) != int(n) {
		return fmt.Sprintf("a string of %d characters, not of %v", utf16Len(s), n)
	}
	if !strings.HasPrefix(s, w.expand(head)) || !strings.HasSuffix(s, w.expand(tail)) {
		return "another beginning or end"
	}
	return ""
}

// differString compares with placeholders; the first use of an unknown one gives it
// its value.
func (w *world) differString(want string, have any) string {
	want = w.expand(want)
	if volatile.MatchString(want) && volatile.FindString(want) == want {
		if have == nil {
			return "is missing, not " + want
		}
		return ""
	}
	s, ok := have.(string)
	if !ok {
		return fmt.Sprintf("%.200v is no string, not %.200q", have, want)
	}
	if s == want {
		return ""
	}
	names := placeholder.FindAllStringSubmatch(want, -1)
	if names == nil && !volatile.MatchString(want) {
		return fmt.Sprintf("%.400q, not %.400q", s, want)
	}
	pattern := regexp.QuoteMeta(want)
	pattern = placeholder.ReplaceAllString(strings.NewReplacer(`\{\{`, "{{", `\}\}`, "}}").Replace(pattern), "(.+?)")
	m := regexp.MustCompile("(?s)^" + volatile.ReplaceAllString(pattern, ".+?") + "$").FindStringSubmatch(s)
	if m == nil {
		return fmt.Sprintf("%.400q, not %.400q", s, want)
	}
	for i, n := range names {
		w.bound[n[1]] = m[i+1]
	}
	return ""
}

func utf16Len(s string) int { return len(utf16.Encode([]rune(s))) }
