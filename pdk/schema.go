package pdk

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// Schemer is implemented by a type that writes its own JSON Schema.
type Schemer interface {
	JSONSchema() json.RawMessage
}

// SchemaOf infers a JSON Schema (draft 2020-12) from a Go type, by the rules of
// encoding/json: names from json tags, embedded structs flattened. A field is
// required unless it is a pointer or its tag says omitempty or omitzero. Structs
// allow no other properties. Further tags of a field:
//
//	jsonschema:"text"       its description
//	enum:"a,b,c"            the values allowed
//	default:"a"             what the host fills in; also makes it optional
//	minimum maximum minLength maxLength minItems maxItems pattern format
//
// Values in enum and default are JSON of the field's type; for strings the
// quotes are left out. The enum of a list is that of its items. Recursive types and channels, functions and complex
// numbers have no schema.
func SchemaOf[T any]() (json.RawMessage, error) {
	t := reflect.TypeFor[T]()
	s, err := inferSchema(t, nil)
	if err != nil {
		return nil, err
	}
	return abi.Marshal(s)
}

// MustSchema is SchemaOf for package initialisation: it panics on a type that
// has no schema.
func MustSchema[T any]() json.RawMessage {
	s, err := SchemaOf[T]()
	if err != nil {
		panic("pdk: " + err.Error())
	}
	return s
}

// schema has the keywords in the order they are written.
type schema struct {
	Type        string            `json:"type,omitempty"`
	Description string            `json:"description,omitempty"`
	Enum        []json.RawMessage `json:"enum,omitempty"`
	Default     json.RawMessage   `json:"default,omitempty"`
	Minimum     *json.Number      `json:"minimum,omitempty"`
	Maximum     *json.Number      `json:"maximum,omitempty"`
	MinLength   *json.Number      `json:"minLength,omitempty"`
	MaxLength   *json.Number      `json:"maxLength,omitempty"`
	MinItems    *json.Number      `json:"minItems,omitempty"`
	MaxItems    *json.Number      `json:"maxItems,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
	Format      string            `json:"format,omitempty"`
	Encoding    string            `json:"contentEncoding,omitempty"`
	Items       *schema           `json:"items,omitempty"`
	Properties  properties        `json:"properties,omitzero"`
	Required    []string          `json:"required,omitempty"`
	Additional  any               `json:"additionalProperties,omitempty"`
	raw         json.RawMessage
}

func (s *schema) MarshalJSON() ([]byte, error) {
	if s.raw != nil {
		return s.raw, nil
	}
	type plain schema
	return abi.Marshal((*plain)(s))
}

// properties keeps the order of the Go type: models read schemas from the top.
type properties []property

type property struct {
	name   string
	schema *schema
}

func (p properties) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, f := range p {
		if i > 0 {
			out = append(out, ',')
		}
		v, err := f.schema.MarshalJSON()
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, abi.String(f.name)...), ':'), v...)
	}
	return append(out, '}'), nil
}

var (
	schemerType = reflect.TypeFor[Schemer]()
	jsonType    = reflect.TypeFor[json.Marshaler]()
	textType    = reflect.TypeFor[encoding.TextMarshaler]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	numberType  = reflect.TypeFor[json.Number]()
	timeType    = reflect.TypeFor[time.Time]()
)

func inferSchema(t reflect.Type, above []reflect.Type) (*schema, error) {
	for _, a := range above {
		if a == t && t.Kind() == reflect.Struct {
			return nil, fmt.Errorf("the type %s contains itself: write its JSON Schema by hand", t)
		}
	}
	above = append(above, t)
	if s := special(t); s != nil {
		return s, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return inferSchema(t.Elem(), above)
	case reflect.Interface:
		return &schema{}, nil
	case reflect.Bool:
		return &schema{Type: "boolean"}, nil
	case reflect.String:
		return &schema{Type: "string"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &schema{Type: "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		zero := json.Number("0")
		return &schema{Type: "integer", Minimum: &zero}, nil
	case reflect.Float32, reflect.Float64:
		return &schema{Type: "number"}, nil
	case reflect.Slice, reflect.Array:
		return inferArray(t, above)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("the keys of %s are no strings", t)
		}
		value, err := inferSchema(t.Elem(), above)
		if err != nil {
			return nil, err
		}
		return &schema{Type: "object", Additional: value}, nil
	case reflect.Struct:
		s := &schema{Type: "object", Properties: properties{}, Additional: false}
		return s, inferFields(s, t, above)
	}
	return nil, fmt.Errorf("the type %s has no JSON form", t)
}

// special knows the types that write themselves.
func special(t reflect.Type) *schema {
	ptr := reflect.PointerTo(t)
	switch {
	case t.Implements(schemerType) && t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface:
		return &schema{raw: reflect.Zero(t).Interface().(Schemer).JSONSchema()}
	case ptr.Implements(schemerType):
		return &schema{raw: reflect.New(t).Interface().(Schemer).JSONSchema()}
	case t == rawType:
		return &schema{}
	case t == numberType:
		return &schema{Type: "number"}
	case t == timeType:
		return &schema{Type: "string", Format: "date-time"}
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		return nil
	case t.Implements(jsonType) || ptr.Implements(jsonType):
		return &schema{}
	case t.Implements(textType) || ptr.Implements(textType):
		return &schema{Type: "string"}
	}
	return nil
}

func inferArray(t reflect.Type, above []reflect.Type) (*schema, error) {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return &schema{Type: "string", Encoding: "base64"}, nil
	}
	items, err := inferSchema(t.Elem(), above)
	if err != nil {
		return nil, err
	}
	s := &schema{Type: "array", Items: items}
	if t.Kind() == reflect.Array {
		n := json.Number(strconv.Itoa(t.Len()))
		s.MinItems, s.MaxItems = &n, &n
	}
	return s, nil
}

func inferFields(s *schema, t reflect.Type, above []reflect.Type) error {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if f.Anonymous && name == "" && ft.Kind() == reflect.Struct && special(ft) == nil {
			if err := inferFields(s, ft, above); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fs, err := inferSchema(f.Type, above)
		if err == nil {
			err = fs.tags(f)
		}
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		s.Properties = append(s.Properties, property{name, fs})
		optional := f.Type.Kind() == reflect.Pointer || fs.Default != nil
		for o := range strings.SplitSeq(options, ",") {
			optional = optional || o == "omitempty" || o == "omitzero"
		}
		if !optional {
			s.Required = append(s.Required, name)
		}
	}
	return nil
}

// tags adds what the tags of the field say.
func (s *schema) tags(f reflect.StructField) error {
	s.Description = f.Tag.Get("jsonschema")
	s.Pattern = f.Tag.Get("pattern")
	if v, ok := f.Tag.Lookup("format"); ok {
		s.Format = v
	}
	for key, into := range map[string]**json.Number{
		"minimum": &s.Minimum, "maximum": &s.Maximum, "minLength": &s.MinLength,
		"maxLength": &s.MaxLength, "minItems": &s.MinItems, "maxItems": &s.MaxItems,
	} {
		v, ok := f.Tag.Lookup(key)
		if !ok {
			continue
		}
		n := json.Number(v)
		if _, err := n.Float64(); err != nil {
			return fmt.Errorf("the tag %s is no number: %q", key, v)
		}
		*into = &n
	}
	if v, ok := f.Tag.Lookup("default"); ok {
		raw, err := literal(v, f.Type)
		if err != nil {
			return err
		}
		s.Default = raw
	}
	if v, ok := f.Tag.Lookup("enum"); ok {
		of, t := s, f.Type
		if s.Type == "array" {
			of, t = s.Items, t.Elem()
		}
		for part := range strings.SplitSeq(v, ",") {
			raw, err := literal(part, t)
			if err != nil {
				return err
			}
			of.Enum = append(of.Enum, raw)
		}
	}
	if s.raw != nil && (s.Description != "" || s.Default != nil || s.Enum != nil) {
		return s.merge()
	}
	return nil
}

// literal is the JSON of a value of type t written in a tag.
func literal(v string, t reflect.Type) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.String && t != numberType {
		return abi.String(v), nil
	}
	if !json.Valid([]byte(v)) {
		return nil, fmt.Errorf("the tag value %q is no JSON", v)
	}
	return json.RawMessage(v), nil
}

// merge puts the description, the default and the enum into a schema that was
// written by hand and has none of its own.
func (s *schema) merge() error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(s.raw, &m); err != nil || m == nil {
		return fmt.Errorf("its hand-written JSON Schema is no object")
	}
	for key, v := range map[string]any{"description": s.Description, "default": s.Default, "enum": s.Enum} {
		raw, err := abi.Marshal(v)
		if err != nil {
			return err
		}
		if text := string(raw); text != `""` && text != "null" {
			m[key] = raw
		}
	}
	raw, err := abi.Marshal(m)
	s.raw = raw
	return err
}
