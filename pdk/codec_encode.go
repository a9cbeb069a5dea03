package pdk

import (
	"encoding/base64"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// encoder appends JSON to dst. Its methods return false where it gives up.
type encoder struct {
	dst   []byte
	depth int
}

func (e *encoder) value(v reflect.Value, f encodeFunc) bool {
	if e.depth++; e.depth > maxNesting {
		return false
	}
	ok := f(e, v)
	e.depth--
	return ok
}

func (e *encoder) null() bool {
	e.dst = append(e.dst, "null"...)
	return true
}

func givesUpEncoding(*encoder, reflect.Value) bool { return false }

func makeEncoder(t reflect.Type) encodeFunc {
	if t == rawType {
		return encodeRaw
	}
	if t == numberType || (t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && writesItself(t)) {
		return givesUpEncoding
	}
	switch t.Kind() {
	case reflect.String:
		return func(e *encoder, v reflect.Value) bool { return e.text(v.String()) }
	case reflect.Bool:
		return func(e *encoder, v reflect.Value) bool {
			e.dst = strconv.AppendBool(e.dst, v.Bool())
			return true
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(e *encoder, v reflect.Value) bool {
			e.dst = strconv.AppendInt(e.dst, v.Int(), 10)
			return true
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(e *encoder, v reflect.Value) bool {
			e.dst = strconv.AppendUint(e.dst, v.Uint(), 10)
			return true
		}
	case reflect.Float32:
		return func(e *encoder, v reflect.Value) bool { return e.float(v.Float(), 32) }
	case reflect.Float64:
		return func(e *encoder, v reflect.Value) bool { return e.float(v.Float(), 64) }
	case reflect.Pointer:
		return pointerEncoder(t)
	case reflect.Interface:
		return func(e *encoder, v reflect.Value) bool {
			if v.IsNil() {
				return e.null()
			}
			return e.value(v.Elem(), encoderOf(v.Elem().Type()))
		}
	case reflect.Slice:
		return sliceEncoder(t)
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !writesItself(t.Key()) {
			return mapEncoder(t)
		}
	case reflect.Struct:
		if fields, ok := fieldsOf(t); ok {
			return structEncoder(fields)
		}
	}
	return givesUpEncoding
}

func pointerEncoder(t reflect.Type) encodeFunc {
	if t.Implements(jsonType) || t.Implements(textType) {
		return givesUpEncoding
	}
	f := encoderOf(t.Elem())
	return func(e *encoder, v reflect.Value) bool {
		if v.IsNil() {
			return e.null()
		}
		return e.value(v.Elem(), f)
	}
}

// encodeRaw copies JSON that has no white space; the rest is for encoding/json,
// which takes it out or reports an error.
func encodeRaw(e *encoder, v reflect.Value) bool {
	b := v.Bytes()
	if b == nil {
		return e.null()
	}
	d := decoder{b: b}
	if compact, ok := d.skip(); !ok || !compact || d.i != len(b) || b[0] <= ' ' {
		return false
	}
	e.dst = append(e.dst, b...)
	return true
}

func sliceEncoder(t reflect.Type) encodeFunc {
	if t.Elem().Kind() == reflect.Uint8 {
		if writesItself(t.Elem()) {
			return givesUpEncoding
		}
		return func(e *encoder, v reflect.Value) bool {
			if v.IsNil() {
				return e.null()
			}
			e.dst = append(base64.StdEncoding.AppendEncode(append(e.dst, '"'), v.Bytes()), '"')
			return true
		}
	}
	f := encoderOf(t.Elem())
	return func(e *encoder, v reflect.Value) bool {
		if v.IsNil() {
			return e.null()
		}
		e.dst = append(e.dst, '[')
		for i := range v.Len() {
			if i > 0 {
				e.dst = append(e.dst, ',')
			}
			if !e.value(v.Index(i), f) {
				return false
			}
		}
		e.dst = append(e.dst, ']')
		return true
	}
}

func mapEncoder(t reflect.Type) encodeFunc {
	f := encoderOf(t.Elem())
	return func(e *encoder, v reflect.Value) bool {
		if v.IsNil() {
			return e.null()
		}
		type entry struct {
			key   string
			value reflect.Value
		}
		list := make([]entry, 0, v.Len())
		for it := v.MapRange(); it.Next(); {
			list = append(list, entry{it.Key().String(), it.Value()})
		}
		slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.key, b.key) })
		e.dst = append(e.dst, '{')
		for i := range list {
			if i > 0 {
				e.dst = append(e.dst, ',')
			}
			if !e.text(list[i].key) {
				return false
			}
			e.dst = append(e.dst, ':')
			if !e.value(list[i].value, f) {
				return false
			}
		}
		e.dst = append(e.dst, '}')
		return true
	}
}

func structEncoder(fields []field) encodeFunc {
	funcs := make([]encodeFunc, len(fields))
	heads := make([]string, len(fields))
	for i, f := range fields {
		if f.omitZero && (f.typ.Implements(zeroerType) || reflect.PointerTo(f.typ).Implements(zeroerType)) {
			return givesUpEncoding
		}
		funcs[i], heads[i] = encoderOf(f.typ), `"`+f.name+`":`
	}
	return func(e *encoder, v reflect.Value) bool {
		e.dst = append(e.dst, '{')
		first := true
		for i := range fields {
			f := &fields[i]
			fv := v.Field(f.index)
			if f.omitEmpty && empty(fv) || f.omitZero && fv.IsZero() {
				continue
			}
			if !first {
				e.dst = append(e.dst, ',')
			}
			first = false
			e.dst = append(e.dst, heads[i]...)
			if !e.value(fv, funcs[i]) {
				return false
			}
		}
		e.dst = append(e.dst, '}')
		return true
	}
}

// empty is what omitempty leaves out.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// float writes a number as encoding/json does.
func (e *encoder) float(f float64, bits int) bool {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return false
	}
	format, abs := byte('f'), math.Abs(f)
	if abs != 0 {
		if bits == 64 && (abs < 1e-6 || abs >= 1e21) || bits == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21) {
			format = 'e'
		}
	}
	e.dst = strconv.AppendFloat(e.dst, f, format, -1, bits)
	if format == 'e' { // e-09 becomes e-9
		if n := len(e.dst); n >= 4 && e.dst[n-4] == 'e' && (e.dst[n-3] == '-' || e.dst[n-3] == '+') && e.dst[n-2] == '0' {
			e.dst[n-2] = e.dst[n-1]
			e.dst = e.dst[:n-1]
		}
	}
	return true
}

const hexDigits = "0123456789abcdef"

// text writes a string as encoding/json does without escaping HTML.
func (e *encoder) text(s string) bool {
	dst := append(e.dst, '"')
	for len(s) > 0 {
		n := plainText(s)
		dst = append(dst, s[:n]...)
		if s = s[n:]; s == "" {
			break
		}
		c := s[0]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s)
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(dst, `\ufffd`...)
			case r == '\u2028' || r == '\u2029':
				dst = append(dst, `\u202`...)
				dst = append(dst, hexDigits[r&0xf])
			default:
				dst = append(dst, s[:size]...)
			}
			s = s[size:]
			continue
		}
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&0xf])
		}
		s = s[1:]
	}
	e.dst = append(dst, '"')
	return true
}
