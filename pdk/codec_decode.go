package pdk

import (
	"reflect"
	"strconv"
	"strings"
)

// value reads one value with the function of its type.
func (d *decoder) value(v reflect.Value, f decodeFunc) bool {
	if d.depth++; d.depth > maxNesting {
		return false
	}
	ok := f(d, v)
	d.depth--
	return ok
}

// null reads null, if it is next.
func (d *decoder) null() bool { return d.space() == 'n' && d.word("null") }

func givesUpDecoding(*decoder, reflect.Value) bool { return false }

func makeDecoder(t reflect.Type) decodeFunc {
	if t == rawType {
		return decodeRaw
	}
	if readsItself(t) || t == numberType {
		return givesUpDecoding
	}
	switch t.Kind() {
	case reflect.String:
		return decodeString
	case reflect.Bool:
		return decodeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return decodeInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return decodeUint
	case reflect.Float32, reflect.Float64:
		return decodeFloat
	case reflect.Pointer:
		return pointerDecoder(t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return decodeAny
		}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return sliceDecoder(t)
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !readsItself(t.Key()) {
			return mapDecoder(t)
		}
	case reflect.Struct:
		if fields, ok := fieldsOf(t); ok {
			return structDecoder(fields)
		}
	}
	return givesUpDecoding
}

func decodeRaw(d *decoder, v reflect.Value) bool {
	d.space()
	start := d.i
	if _, ok := d.skip(); !ok {
		return false
	}
	v.SetBytes(append(make([]byte, 0, d.i-start), d.b[start:d.i]...))
	return true
}

func decodeString(d *decoder, v reflect.Value) bool {
	if d.null() {
		return true
	}
	s, ok := d.str()
	if ok {
		v.SetString(string(s))
	}
	return ok
}

func decodeBool(d *decoder, v reflect.Value) bool {
	switch d.space() {
	case 't':
		v.SetBool(true)
		return d.word("true")
	case 'f':
		v.SetBool(false)
		return d.word("false")
	}
	return d.null()
}

func decodeInt(d *decoder, v reflect.Value) bool {
	if d.null() {
		return true
	}
	text, whole, ok := d.number()
	if !ok || !whole {
		return false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || v.OverflowInt(n) {
		return false
	}
	v.SetInt(n)
	return true
}

func decodeUint(d *decoder, v reflect.Value) bool {
	if d.null() {
		return true
	}
	text, whole, ok := d.number()
	if !ok || !whole {
		return false
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || v.OverflowUint(n) {
		return false
	}
	v.SetUint(n)
	return true
}

func decodeFloat(d *decoder, v reflect.Value) bool {
	if d.null() {
		return true
	}
	text, _, ok := d.number()
	if !ok {
		return false
	}
	n, err := strconv.ParseFloat(string(text), v.Type().Bits())
	if err != nil || v.OverflowFloat(n) {
		return false
	}
	v.SetFloat(n)
	return true
}

func pointerDecoder(t reflect.Type) decodeFunc {
	elem := t.Elem()
	f := decoderOf(elem)
	return func(d *decoder, v reflect.Value) bool {
		if d.null() {
			v.SetZero()
			return true
		}
		if v.IsNil() {
			v.Set(reflect.New(elem))
		}
		return d.value(v.Elem(), f)
	}
}

func sliceDecoder(t reflect.Type) decodeFunc {
	f := decoderOf(t.Elem())
	return func(d *decoder, v reflect.Value) bool {
		if d.null() {
			v.SetZero()
			return true
		}
		if v.Len() > 0 || !d.take('[') { // encoding/json decodes into what is there
			return false
		}
		if d.take(']') {
			v.Set(reflect.MakeSlice(t, 0, 0))
			return true
		}
		for n := 0; ; n++ {
			if n == v.Cap() {
				v.Grow(1)
			}
			v.SetLen(n + 1)
			if !d.value(v.Index(n), f) {
				return false
			}
			if d.take(']') {
				return true
			}
			if !d.take(',') {
				return false
			}
		}
	}
}

func mapDecoder(t reflect.Type) decodeFunc {
	elem, f := t.Elem(), decoderOf(t.Elem())
	return func(d *decoder, v reflect.Value) bool {
		if d.null() {
			v.SetZero()
			return true
		}
		if !d.take('{') {
			return false
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(t))
		}
		if d.take('}') {
			return true
		}
		key := reflect.New(t.Key()).Elem()
		for {
			s, ok := d.str()
			if !ok || !d.take(':') {
				return false
			}
			key.SetString(string(s))
			item := reflect.New(elem).Elem()
			if !d.value(item, f) {
				return false
			}
			v.SetMapIndex(key, item)
			if d.take('}') {
				return true
			}
			if !d.take(',') {
				return false
			}
		}
	}
}

func structDecoder(fields []field) decodeFunc {
	funcs := make([]decodeFunc, len(fields))
	for i, f := range fields {
		funcs[i] = decoderOf(f.typ)
	}
	// find is the field of this name. encoding/json also takes names that differ
	// in case only: then known is false.
	find := func(name []byte) (i int, known bool) {
		for i := range fields {
			if fields[i].name == string(name) {
				return i, true
			}
		}
		for i := range fields {
			if strings.EqualFold(fields[i].name, string(name)) {
				return -1, false
			}
		}
		return -1, true
	}
	return func(d *decoder, v reflect.Value) bool {
		if d.null() {
			return true
		}
		if !d.take('{') {
			return false
		}
		if d.take('}') {
			return true
		}
		for {
			name, ok := d.str()
			if !ok {
				return false
			}
			i, known := find(name)
			if !known || !d.take(':') {
				return false
			}
			if i < 0 {
				_, ok = d.skip()
			} else {
				ok = d.value(v.Field(fields[i].index), funcs[i])
			}
			if !ok {
				return false
			}
			if d.take('}') {
				return true
			}
			if !d.take(',') {
				return false
			}
		}
	}
}

func decodeAny(d *decoder, v reflect.Value) bool {
	if !v.IsNil() {
		return false // encoding/json decodes into what is there
	}
	x, ok := d.any()
	if ok && x != nil {
		v.Set(reflect.ValueOf(x))
	}
	return ok
}

func (d *decoder) any() (any, bool) {
	if d.depth++; d.depth > maxNesting {
		return nil, false
	}
	defer func() { d.depth-- }()
	switch d.space() {
	case '"':
		s, ok := d.str()
		return string(s), ok
	case 't':
		return true, d.word("true")
	case 'f':
		return false, d.word("false")
	case 'n':
		return nil, d.word("null")
	case '[':
		return d.anyList()
	case '{':
		return d.anyObject()
	}
	text, _, ok := d.number()
	if !ok {
		return nil, false
	}
	n, err := strconv.ParseFloat(string(text), 64)
	return n, err == nil
}

func (d *decoder) anyList() (any, bool) {
	d.i++
	list := []any{}
	if d.take(']') {
		return list, true
	}
	for {
		x, ok := d.any()
		if !ok {
			return nil, false
		}
		list = append(list, x)
		if d.take(']') {
			return list, true
		}
		if !d.take(',') {
			return nil, false
		}
	}
}

func (d *decoder) anyObject() (any, bool) {
	d.i++
	m := map[string]any{}
	if d.take('}') {
		return m, true
	}
	for {
		s, ok := d.str()
		key := string(s)
		if !ok || !d.take(':') {
			return nil, false
		}
		if m[key], ok = d.any(); !ok {
			return nil, false
		}
		if d.take('}') {
			return m, true
		}
		if !d.take(',') {
			return nil, false
		}
	}
}
