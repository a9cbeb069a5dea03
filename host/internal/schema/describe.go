package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/bladehost/bladehost/abi"
)

const (
	// maxIssues bounds the list for one value; a last issue says how many more there are.
	maxIssues = 100
	// maxMessage and maxValue bound the text of one issue.
	maxMessage = 2048
	maxValue   = 200
)

var secretName = regexp.MustCompile(`(?i)(secret|token|passw|api[-_]?key|credential|authorization|private[-_]?key)`)

// describe turns the library's tree of failures into a flat list, sorted by place.
func describe(err error, doc any) ([]abi.Issue, error) {
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return nil, fail("%s", tidy(err))
	}
	d := describer{doc: doc, printer: message.NewPrinter(language.English)}
	d.walk(ve)
	sort.SliceStable(d.issues, func(i, j int) bool { return d.issues[i].Pointer < d.issues[j].Pointer })
	if n := len(d.issues); n > maxIssues {
		d.issues = append(d.issues[:maxIssues:maxIssues], abi.Issue{Message: fmt.Sprintf("and %d more", n-maxIssues)})
	}
	return d.issues, nil
}

type describer struct {
	doc     any
	printer *message.Printer
	issues  []abi.Issue
}

func (d *describer) walk(e *jsonschema.ValidationError) {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			d.add(append(e.InstanceLocation[:len(e.InstanceLocation):len(e.InstanceLocation)], name), "is required")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			d.add(append(e.InstanceLocation[:len(e.InstanceLocation):len(e.InstanceLocation)], name), "is not a known field")
		}
	case *kind.AnyOf:
		d.add(e.InstanceLocation, "fits none of the allowed forms: "+d.alternatives(e))
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			d.add(e.InstanceLocation, fmt.Sprintf("fits several forms (number %d and %d) of which only one is allowed", k.Subschemas[0]+1, k.Subschemas[1]+1))
		} else {
			d.add(e.InstanceLocation, "fits none of the allowed forms: "+d.alternatives(e))
		}
	default:
		if len(e.Causes) == 0 {
			d.add(e.InstanceLocation, d.text(e))
			return
		}
		for _, c := range e.Causes {
			d.walk(c)
		}
	}
}

// alternatives is what kept each form from fitting, a clause a form.
func (d *describer) alternatives(e *jsonschema.ValidationError) string {
	const most = 8
	var parts []string
	for i, c := range e.Causes {
		if i == most {
			parts = append(parts, "…")
			break
		}
		inner := describer{doc: d.doc, printer: d.printer}
		inner.walk(c)
		if len(inner.issues) == 0 {
			continue
		}
		first := inner.issues[0]
		at := ""
		if first.Pointer != pointer(e.InstanceLocation) {
			at = first.Pointer + " "
		}
		parts = append(parts, at+first.Message)
	}
	return strings.Join(parts, "; or ")
}

func (d *describer) text(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, got %s", orList(k.Want), k.Got)
	case *kind.Enum:
		return "must be one of " + values(k.Want)
	case *kind.Const:
		return "must be " + values([]any{k.Want})
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Not:
		return "has a form that is excluded"
	case *kind.Pattern:
		return fmt.Sprintf("does not match the pattern %s", k.Want)
	case *kind.Format:
		return fmt.Sprintf("is not a valid %s", k.Want)
	}
	return e.ErrorKind.LocalizedString(d.printer)
}

func orList(types []string) string {
	if len(types) == 0 {
		return "nothing"
	}
	if len(types) == 1 {
		return types[0]
	}
	return strings.Join(types[:len(types)-1], ", ") + " or " + types[len(types)-1]
}

func values(list []any) string {
	const most = 20
	var parts []string
	for i, v := range list {
		if i == most {
			parts = append(parts, fmt.Sprintf("… (%d in all)", len(list)))
			break
		}
		b, err := abi.Marshal(v)
		if err != nil {
			continue
		}
		parts = append(parts, clip(string(b), maxValue))
	}
	return strings.Join(parts, ", ")
}

func (d *describer) add(loc []string, text string) {
	issue := abi.Issue{Pointer: pointer(loc), Message: clip(text, maxMessage)}
	if v, ok := lookup(d.doc, loc); ok && !secretPath(loc) {
		issue.Value = excerpt(v)
	}
	d.issues = append(d.issues, issue)
}

func secretPath(loc []string) bool {
	for _, part := range loc {
		if secretName.MatchString(part) {
			return true
		}
	}
	return false
}

// excerpt is v as JSON where it is short, else its first characters as a string.
// An object or array is left out: it may hold secrets deeper down.
func excerpt(v any) json.RawMessage {
	switch v := v.(type) {
	case map[string]any, []any:
		return nil
	case string:
		if len(v) > maxValue {
			v = clip(v, maxValue)
		}
		return abi.String(v)
	}
	b, err := abi.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

func lookup(doc any, loc []string) (any, bool) {
	for _, part := range loc {
		switch v := doc.(type) {
		case map[string]any:
			x, ok := v[part]
			if !ok {
				return nil, false
			}
			doc = x
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(loc []string) string {
	var b strings.Builder
	for _, part := range loc {
		b.WriteByte('/')
		b.WriteString(pointerEscape.Replace(part))
	}
	return b.String()
}
