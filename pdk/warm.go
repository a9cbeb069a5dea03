package pdk

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/bladehost/bladehost/abi"
)

// warmDepth bounds how deep a value is filled for the warm-up.
const warmDepth = 4

// warmType encodes and decodes a filled T once, so that encoding/json has its
// tables ready. A type whose own JSON methods panic on such a value is left cold.
func warmType[T any]() {
	defer func() { _ = recover() }()
	var v T
	fill(reflect.ValueOf(&v).Elem(), warmDepth)
	var buf bytes.Buffer
	b, err := encode(&buf, v)
	if err != nil {
		return
	}
	var back T
	_ = unmarshal(b, &back)
}

// warmServices does the same for the heads of what the plugin will call most.
func warmServices(c *abi.Capabilities) {
	warmType[struct{}]()
	warmType[abi.CallInfo]()
	if c.HTTP != nil {
		warmType[abi.HTTPRequestHead]()
		warmType[httpHead]()
		warmType[abi.StreamReadHead]()
		warmType[abi.StreamReadAnswer]()
	}
	if c.KV != nil {
		warmType[abi.KVKeyHead]()
		warmType[abi.KVSetHead]()
		warmType[abi.KVFound]()
	}
}

// fill puts one element into every slice, map and pointer of v.
func fill(v reflect.Value, depth int) {
	if depth == 0 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth-1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth-1)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte("null"))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth-1)
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		fill(elem, depth-1)
		m := reflect.MakeMap(v.Type())
		m.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), elem)
		v.Set(m)
	}
}

// warmMemory makes the buffers of a call of ordinary size: growing memory is the
// dearest thing a small call can do.
func warmMemory(g *Guest) {
	const size = 64 << 10
	if cap(g.input) < size {
		g.input = make([]byte, size)
	}
	g.output.Grow(size)
}
