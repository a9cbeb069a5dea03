package pdk

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// The JSON of a call. encoding/json walks every byte through a state machine,
// which costs some 50 ns a byte in a guest; the readers and writers here scan
// eight bytes at once and know the types from the last call. They cover what
// tools use most (structs, strings, numbers, lists, maps by strings, any,
// json.RawMessage) and give up on everything else, on what encoding/json would
// do differently, and on every error: then encoding/json does the whole value.
// So the two never differ; codec_test.go and a fuzz test hold them to that.

// unmarshal is json.Unmarshal into a zero value.
func unmarshal[T any](b []byte, into *T) error {
	d := decoder{b: b}
	v := reflect.ValueOf(into).Elem()
	if d.value(v, decoderOf(v.Type())) && d.end() {
		return nil
	}
	var zero T
	*into = zero
	return json.Unmarshal(b, into)
}

// encode writes v into buf as encoding/json does without escaping HTML. The
// bytes are buf's.
func encode(buf *bytes.Buffer, v any) ([]byte, error) {
	buf.Reset()
	if rv := reflect.ValueOf(v); rv.IsValid() {
		e := encoder{dst: buf.AvailableBuffer()}
		if e.value(rv, encoderOf(rv.Type())) {
			_, _ = buf.Write(e.dst) // never fails
			return buf.Bytes(), nil
		}
	}
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// maxNesting is where both sides give up: encoding/json has its own bounds.
const maxNesting = 200

type (
	decodeFunc func(d *decoder, v reflect.Value) bool
	encodeFunc func(e *encoder, v reflect.Value) bool
)

// The functions of the types seen so far.
var decoders, encoders sync.Map // reflect.Type to decodeFunc, encodeFunc

func decoderOf(t reflect.Type) decodeFunc {
	if f, ok := decoders.Load(t); ok {
		return f.(decodeFunc)
	}
	// A type can contain itself, and another goroutine can ask meanwhile: until
	// the function is made, one that waits for it stands in.
	var (
		made sync.WaitGroup
		f    decodeFunc
	)
	made.Add(1)
	standIn := decodeFunc(func(d *decoder, v reflect.Value) bool {
		made.Wait()
		return f(d, v)
	})
	if other, taken := decoders.LoadOrStore(t, standIn); taken {
		return other.(decodeFunc)
	}
	f = makeDecoder(t)
	made.Done()
	decoders.Store(t, f)
	return f
}

func encoderOf(t reflect.Type) encodeFunc {
	if f, ok := encoders.Load(t); ok {
		return f.(encodeFunc)
	}
	var (
		made sync.WaitGroup
		f    encodeFunc
	)
	made.Add(1)
	standIn := encodeFunc(func(e *encoder, v reflect.Value) bool {
		made.Wait()
		return f(e, v)
	})
	if other, taken := encoders.LoadOrStore(t, standIn); taken {
		return other.(encodeFunc)
	}
	f = makeEncoder(t)
	made.Done()
	encoders.Store(t, f)
	return f
}

var (
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	untextType      = reflect.TypeFor[encoding.TextUnmarshaler]()
	zeroerType      = reflect.TypeFor[interface{ IsZero() bool }]()
)

// writesItself reports whether a type has JSON methods of its own.
func writesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Implements(jsonType) || p.Implements(jsonType) || t.Implements(textType) || p.Implements(textType)
}

func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Implements(unmarshalerType) || p.Implements(unmarshalerType) || t.Implements(untextType) || p.Implements(untextType)
}

// field is a field of a struct as JSON has it.
type field struct {
	name      string
	index     int
	typ       reflect.Type
	omitEmpty bool
	omitZero  bool
}

// fieldsOf are the fields of a struct; ok is false where the rules are those of
// embedded fields, of the option "string" or of two fields with one name.
func fieldsOf(t reflect.Type) (list []field, ok bool) {
	seen := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if f.Anonymous {
			return nil, false
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		out := field{name: name, index: i, typ: f.Type}
		for o := range strings.SplitSeq(options, ",") {
			switch o {
			case "omitempty":
				out.omitEmpty = true
			case "omitzero":
				out.omitZero = true
			case "":
			default:
				return nil, false
			}
		}
		if seen[name] || !plainName(name) {
			return nil, false
		}
		seen[name] = true
		list = append(list, out)
	}
	return list, true
}

// plainName reports whether a name needs no escapes and no thought.
func plainName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '/') {
			return false
		}
	}
	return s != ""
}
